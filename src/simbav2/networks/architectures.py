"""Architectures: an encoder from input to features, and the head that belongs to it.

How a network is applied decides its mode: batch normalisation uses the batch's statistics where the collection
`batch_stats` is mutable, else the running ones; dropout is on where there is a random stream `dropout`. Relu units
are sown into the collection `units` for `diagnostics`; otherwise that costs nothing.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from simbav2 import config
from simbav2.networks.sphere import FixedScale, Scale, UnitDense, unit
from simbav2.types import Array

# Without it a block whose units are all silent would have no direction at all.
OFFSET = 1e-8


def encoder(network: config.Actor | config.Critic) -> nn.Module:
    sizes = network.width, network.depth
    match network.architecture:
        case config.Hyperspherical() as part:
            return HypersphericalEncoder(part, *sizes, name="encoder")
        case config.PreLayerNorm():
            return PreLayerNormEncoder(*sizes, name="encoder")
        case config.MLP() as part:
            return MLPEncoder(part, *sizes, name="encoder")
        case config.BatchNormMLP() as part:
            return BatchNormMLPEncoder(part, *sizes, name="encoder")
        case config.BatchNormResidual() as part:
            return BatchNormResidualEncoder(part, *sizes, name="encoder")
        case part:
            return part.encoder(*sizes)


def head(network: config.Actor | config.Critic, size: int, name: str) -> nn.Module:
    match network.architecture:
        case config.Hyperspherical() as part:
            return HypersphericalHead(part, size, name=name)
        case config.BatchNormResidual() | config.BatchNormMLP(unit_weights=True):
            return UnitDense(size, bias=True, name=name)
        case config.MLP(init="lecun") | config.BatchNormMLP():
            return nn.Dense(size, name=name)  # Flax's default initialisation
        case config.PreLayerNorm() | config.MLP():
            return nn.Dense(size, kernel_init=nn.initializers.orthogonal(), name=name)
        case part:
            return part.head(size, name)


def _relu(module: nn.Module, x: Array) -> Array:
    x = nn.relu(x)
    module.sow("units", "relu", x)
    return x


def enter_sphere(part: config.Shifted | config.Unshifted | config.Resized, x: Array) -> Array:
    """The input [..., n] as a point of the unit sphere, mostly of one more dimension."""
    match part:
        case config.Shifted(constant, on_sphere):
            shifted = jnp.concatenate([x, jnp.full((*x.shape[:-1], 1), constant, x.dtype)], axis=-1)
            return unit(shifted) if on_sphere else shifted
        case config.Unshifted():
            return unit(x)
        case config.Resized(constant):
            x = x / (constant * math.sqrt(x.shape[-1]))
            missing = jnp.maximum(1 - jnp.sum(x * x, axis=-1, keepdims=True), 0.0)
            # The offset keeps the square root's gradient finite; inputs longer than one end up at length one too.
            return unit(jnp.concatenate([x, jnp.sqrt(missing + 1e-12)], axis=-1))


def _scaler(part: config.Scaler, initial: float, scale: float) -> Scale:
    """`part` with its open values at the paper's."""
    return Scale(initial if part.initial is None else part.initial, scale if part.scale is None else part.scale)


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

    part: config.MLP
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        orthogonal = nn.initializers.orthogonal(math.sqrt(2))
        init = orthogonal if self.part.init == "orthogonal" else nn.initializers.lecun_normal()
        for _ in range(self.depth):
            x = nn.Dense(self.width, kernel_init=init)(x)
            if self.part.dropout and self.has_rng("dropout"):
                kept = jax.random.bernoulli(self.make_rng("dropout"), 1 - self.part.dropout, x.shape)
                x = x * kept / (1 - self.part.dropout)
            x = _relu(self, nn.LayerNorm()(x) if self.part.layer_norm else x)
        return x


class BatchNormLayer(nn.Module):
    """Batch normalisation or renormalisation; running statistics live in the collection `batch_stats`."""

    part: config.BatchNorm | config.BatchRenorm | config.BatchNormResidual

    @nn.compact
    def __call__(self, x: Array) -> Array:
        part, size = self.part, x.shape[-1]
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, size)
        running_var = self.variable("batch_stats", "var", jnp.ones, size)
        scale, bias = self._affine(size)
        if self.is_initializing() or not self.is_mutable_collection("batch_stats"):
            mean, var = running_mean.value, running_var.value
        else:
            mean = jnp.mean(x, axis=0)
            var = batch_var = jnp.mean((x - mean) ** 2, axis=0)
            before = running_mean.value, running_var.value
            if isinstance(part, config.BatchNormResidual):  # its running variance is the unbiased one
                batch_var = var * (len(x) / (len(x) - 1))
            running_mean.value = part.momentum * before[0] + (1 - part.momentum) * mean
            running_var.value = part.momentum * before[1] + (1 - part.momentum) * batch_var
            if isinstance(part, config.BatchRenorm):
                steps = self.variable("batch_stats", "steps", jnp.zeros, (), jnp.int32)
                mean, var = _renormalized(part, steps.value, mean, var, *before)
                steps.value += 1
        if self.is_initializing() and isinstance(part, config.BatchRenorm):
            self.variable("batch_stats", "steps", jnp.zeros, (), jnp.int32)
        return (x - mean) * jax.lax.rsqrt(var + part.epsilon) * scale + bias

    def _affine(self, size: int) -> tuple[Array, Array]:
        if isinstance(self.part, config.BatchNormResidual):  # projected together
            affine: Array = self.param("affine", lambda _: FixedScale(jnp.eye(2, 1) * jnp.ones(size)))
            return affine[0], affine[1]
        ones, zeros = nn.initializers.ones, nn.initializers.zeros
        return self.param("scale", ones, (size,)), self.param("bias", zeros, (size,))


def _renormalized(
    part: config.BatchRenorm, steps: Array, mean: Array, var: Array, running_mean: Array, running_var: Array
) -> tuple[Array, Array]:
    """The batch's mean and variance, after the warm-up corrected by bounded constants towards the running ones."""
    deviation, running = jnp.sqrt(var + part.epsilon), jnp.sqrt(running_var + part.epsilon)
    ratio = jnp.clip(deviation / running, 1 / part.scale_bound, part.scale_bound)
    shift = jnp.clip((mean - running_mean) / running, -part.shift_bound, part.shift_bound)
    ratio, shift = jax.lax.stop_gradient((ratio, shift))
    warm = steps >= part.warmup
    corrected = mean - shift * jnp.sqrt(var) / ratio
    return jnp.where(warm, corrected, mean), jnp.where(warm, var / ratio**2, var)


class BatchNormMLPEncoder(nn.Module):
    """`depth` hidden layers of `width` relu units with a batch normalisation each."""

    part: config.BatchNormMLP
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = BatchNormLayer(self.part.norm)(x)
        for _ in range(self.depth):
            x = UnitDense(self.width)(x) if self.part.unit_weights else nn.Dense(self.width)(x)
            if self.part.norm_first:
                x = _relu(self, BatchNormLayer(self.part.norm)(x))
            else:
                x = BatchNormLayer(self.part.norm)(_relu(self, x))
        return x


class BatchNormResidualEncoder(nn.Module):
    """An embedding, blocks `x + relu(BN(W2 relu(BN(W1 x))))` and an RMS norm; every weight keeps its norm."""

    part: config.BatchNormResidual
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = UnitDense(self.width)(BatchNormLayer(self.part)(x))
        for _ in range(self.depth):
            m = _relu(self, BatchNormLayer(self.part)(UnitDense(4 * self.width)(x)))
            x = x + _relu(self, BatchNormLayer(self.part)(UnitDense(self.width)(m)))
        return RMSNorm()(x)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + 1e-6), times a scale that keeps its norm."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        scale: Array = self.param("scale", lambda _: FixedScale(jnp.ones((1, x.shape[-1]))))
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale[0]
