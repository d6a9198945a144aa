"""Architectures: a trunk from input to features, and the head that belongs to it."""

from __future__ import annotations

import math

import flax.linen as nn
import jax.numpy as jnp

from simbav2 import config
from simbav2.networks.spherical import Scale, UnitDense, unit
from simbav2.types import Array


def _scaler(part: config.Scaler, initial: float, scale: float) -> Scale:
    """`part` with its open values at the paper's."""
    return Scale(
        initial=initial if part.initial is None else part.initial,
        scale=scale if part.scale is None else part.scale,
    )


def _sqrt_scaler(part: config.Scaler, size: int) -> Scale:
    return _scaler(part, math.sqrt(2 / size), math.sqrt(2 / size))


class Hyperspherical(nn.Module):
    """Input embedding and LERP blocks; features have unit norm throughout (paper, sections 4.1 and 4.2)."""

    part: config.Hyperspherical
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        shift = jnp.full((*x.shape[:-1], 1), self.part.shift, x.dtype)
        x = unit(jnp.concatenate([x, shift], axis=-1))
        h = unit(_sqrt_scaler(self.part.scaler, self.width)(UnitDense(self.width)(x)))
        for _ in range(self.depth):
            h = self.block(h)
        return h

    def block(self, h: Array) -> Array:
        """An inverted bottleneck, then a step from `h` towards its output along the sphere."""
        hidden = 4 * self.width
        # Without the offset a block whose units are all silent would have no direction at all.
        m = nn.relu(_sqrt_scaler(self.part.scaler, hidden)(UnitDense(hidden)(h))) + 1e-8
        m = unit(UnitDense(self.width)(m))
        lerp = _scaler(self.part.lerp, 1 / (self.depth + 1), 1 / math.sqrt(self.width))
        return unit(h + lerp(m - h))


class HypersphericalHead(nn.Module):
    """Two linear maps with a scaler between: W2 (s * (W1 h)) (paper, section 4.3)."""

    part: config.Hyperspherical
    size: int

    @nn.compact
    def __call__(self, h: Array) -> Array:
        width = h.shape[-1]
        x = UnitDense(self.size)(_sqrt_scaler(self.part.head_scaler, width)(UnitDense(width)(h)))
        if self.part.head_bias:
            x = x + self.param("bias", nn.initializers.zeros, (self.size,))
        return x
