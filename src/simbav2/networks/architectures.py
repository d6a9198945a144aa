"""Architectures: an encoder from input to features, and the head that belongs to it.

Relu units are sown into the collection `units` for whoever asks
for it (`networks.probe`); otherwise that costs nothing.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax.numpy as jnp

from simbav2 import config
from simbav2.networks.sphere import Scale, UnitDense, unit
from simbav2.types import Array

# Without it a block whose units are all silent would have no direction at all.
OFFSET = 1e-8


def encoder(network: config.Actor | config.Critic) -> nn.Module:
    match network.architecture:
        case config.Hyperspherical() as part:
            return HypersphericalEncoder(part, network.width, network.depth, name="encoder")
        case config.PreLayerNorm():
            return PreLayerNormEncoder(network.width, network.depth, name="encoder")
        case config.MLP():
            return MLPEncoder(network.width, network.depth, name="encoder")


def head(network: config.Actor | config.Critic, size: int, name: str) -> nn.Module:
    match network.architecture:
        case config.Hyperspherical() as part:
            return HypersphericalHead(part, size, name=name)
        case config.PreLayerNorm() | config.MLP():
            return nn.Dense(size, kernel_init=nn.initializers.orthogonal(), name=name)


def _relu(module: nn.Module, x: Array) -> Array:
    x = nn.relu(x)
    module.sow("units", "relu", x)
    return x


def enter_sphere(part: config.Shifted | config.Unshifted | config.Resized, x: Array) -> Array:
    """The input [..., n] as a point of the unit sphere, mostly of one more dimension."""
    match part:
        case config.Shifted(constant, on_sphere):
            shifted = _append(x, jnp.full((*x.shape[:-1], 1), constant, x.dtype))
            return unit(shifted) if on_sphere else shifted
        case config.Unshifted():
            return unit(x)
        case config.Resized(constant):
            x = x / (constant * math.sqrt(x.shape[-1]))
            missing = jnp.maximum(1 - jnp.sum(x * x, axis=-1, keepdims=True), 0.0)
            # The offset keeps the square root's gradient finite; inputs longer than one end up at length one too.
            return unit(_append(x, jnp.sqrt(missing + 1e-12)))


def _append(x: Array, coordinate: Array) -> Array:
    return jnp.concatenate([x, coordinate], axis=-1)


def _scaler(part: config.Scaler, initial: float, scale: float) -> Scale:
    """`part` with its open values at the paper's."""
    return Scale(
        initial=initial if part.initial is None else part.initial,
        scale=scale if part.scale is None else part.scale,
    )


def sqrt_scaler(part: config.Scaler, size: int) -> Scale:
    return _scaler(part, math.sqrt(2 / size), math.sqrt(2 / size))


def lerp_scaler(part: config.Scaler, width: int, depth: int) -> Scale:
    return _scaler(part, 1 / (depth + 1), 1 / math.sqrt(width))


class HypersphericalEncoder(nn.Module):
    """Input embedding and LERP blocks; features have unit norm throughout (paper, sections 4.1 and 4.2)."""

    part: config.Hyperspherical
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = enter_sphere(self.part.input, x)
        h = unit(sqrt_scaler(self.part.scaler, self.width)(UnitDense(self.width)(x)))
        for _ in range(self.depth):
            h = self.block(h)
        return h

    def block(self, h: Array) -> Array:
        """An inverted bottleneck, then a step from `h` towards its output along the sphere."""
        hidden = 4 * self.width
        m = _relu(self, sqrt_scaler(self.part.scaler, hidden)(UnitDense(hidden)(h))) + OFFSET
        m = unit(UnitDense(self.width)(m))
        lerp = lerp_scaler(self.part.lerp, self.width, self.depth)
        return unit(h + lerp(m - h))


class HypersphericalHead(nn.Module):
    """Two linear maps with a scaler between: W2 (s * (W1 h)) (paper, section 4.3)."""

    part: config.Hyperspherical
    size: int

    @nn.compact
    def __call__(self, h: Array) -> Array:
        width = h.shape[-1]
        h = sqrt_scaler(self.part.head_scaler, width)(UnitDense(width)(h))
        return UnitDense(self.size, self.part.head_bias)(h)


class PreLayerNormEncoder(nn.Module):
    """A residual stream: every block reads it through a layer normalisation and adds to it."""

    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        he = nn.initializers.he_normal()
        h = nn.Dense(self.width, kernel_init=nn.initializers.orthogonal())(x)
        for _ in range(self.depth):
            m = _relu(self, nn.Dense(4 * self.width, kernel_init=he)(nn.LayerNorm()(h)))
            h = h + nn.Dense(self.width, kernel_init=he)(m)
        return nn.LayerNorm()(h)


class MLPEncoder(nn.Module):
    """`depth` hidden layers of `width` relu units."""

    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for _ in range(self.depth):
            x = _relu(self, nn.Dense(self.width, kernel_init=nn.initializers.orthogonal(math.sqrt(2)))(x))
        return x
