"""The unit hypersphere: normalisation, the weights that live on it, and their re-projection after each step.

A weight that must keep its norm is stored in a box of its own type: `UnitColumns` for kernels, `FixedScale` for
the scales of normalisation layers. `project` maps over these types, so no list of layer names exists and a new
layer cannot be forgotten.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from simbav2.errors import InputError
from simbav2.types import Array, Params


def unit(x: Array, axis: int = -1) -> Array:
    """x / max(|x|, 1e-8), with a gradient of zero instead of NaN at the origin."""
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis, keepdims=True), 1e-16))


class Projected(struct.PyTreeNode, nn.meta.AxisMetadata):  # type: ignore[no-untyped-call]
    """A weight with a norm to keep."""

    value: Array

    def project(self) -> Projected:
        raise NotImplementedError

    def unbox(self) -> Array:
        return self.value

    def replace_boxed(self, val: Array) -> Projected:
        return type(self)(val)

    def add_axis(self, index: int, params: dict[Any, Any]) -> Projected:
        return self

    def remove_axis(self, index: int, params: dict[Any, Any]) -> Projected:
        return self


class UnitColumns(Projected):  # type: ignore[no-untyped-call]
    """A kernel [..., inputs, outputs]: every output unit's weight vector (a column) has unit norm."""

    def project(self) -> UnitColumns:
        return UnitColumns(unit(self.value, axis=-2))


class FixedScale(Projected):  # type: ignore[no-untyped-call]
    """Scale, or scale and bias, of a normalisation layer [rows, d]: the sum of all squares is d."""

    def project(self) -> FixedScale:
        return FixedScale(self.value * jnp.sqrt(self.value.shape[-1] / (jnp.sum(self.value**2) + 1e-8)))


def _is_projected(node: Any) -> bool:
    return isinstance(node, Projected)


def project(params: Params) -> Params:
    """Re-project every weight that has a norm to keep; leave the rest as it is."""
    return jax.tree.map(
        lambda node: node.project() if _is_projected(node) else node, params, is_leaf=_is_projected
    )


def columns(params: Params) -> list[Array]:
    """Every spherical kernel of a tree."""
    nodes = jax.tree.leaves(params, is_leaf=_is_projected)
    return [node.value for node in nodes if isinstance(node, UnitColumns)]


def on_sphere(inner: Any) -> optax.GradientTransformationExtraArgs:
    """Any optimiser of Optax, made to end its steps on the sphere.

    After `optax.apply_updates` every `UnitColumns` of the parameters has unit norm; all else moves as by `inner`.
    """
    inner = optax.with_extra_args_support(inner)

    def update(gradient: Params, state: Any, params: Params = None, **extra: Any) -> tuple[Params, Any]:
        if params is None:
            raise InputError("on_sphere needs the parameters: call update(gradient, state, params)")
        step, state = inner.update(gradient, state, params, **extra)
        moved = project(optax.apply_updates(params, step))
        return jax.tree.map(lambda after, before: after - before, moved, params), state

    return optax.GradientTransformationExtraArgs(inner.init, update)


class UnitDense(nn.Module):
    """A linear map whose weight vectors have unit norm: each output is a cosine times |x|."""

    size: int
    bias: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        orthogonal = nn.initializers.orthogonal()

        def init(key: Array, shape: tuple[int, ...]) -> UnitColumns:
            return UnitColumns(orthogonal(key, shape)).project()

        x = x @ self.param("kernel", init, (x.shape[-1], self.size))
        return x + self.param("bias", nn.initializers.zeros, (self.size,)) if self.bias else x


class Scale(nn.Module):
    """A trainable vector that starts at `scale` and multiplies by `vector * initial / scale`.

    Adam moves every entry by about the learning rate, so `scale` sets how fast the vector moves relative to
    its size, and `initial` what it does at the start.
    """

    initial: float
    scale: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return x * self.factor(self.param("vector", nn.initializers.constant(self.scale), (x.shape[-1],)))

    @nn.nowrap
    def factor(self, vector: Array) -> Array:
        """What a trained `vector` multiplies by."""
        return vector * (self.initial / self.scale)
