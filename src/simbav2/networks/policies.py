"""Policies: what a head's numbers mean as a distribution over actions in [-1, 1]."""

from __future__ import annotations

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from simbav2 import config
from simbav2.networks import trunks
from simbav2.types import Array


class TanhNormal(NamedTuple):
    """tanh(mean + std * noise), one independent Gaussian per action dimension."""

    mean: Array
    log_std: Array

    def sample(self, key: Array, noise: Array | float = 1.0) -> Array:
        """A random action; `noise` 0 gives the deterministic one, bit for bit."""
        return jnp.tanh(self._before_tanh(key, noise))

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A random action, differentiable in the parameters, and its log-density."""
        x = self._before_tanh(key, 1.0)
        return jnp.tanh(x), self._log_prob(x)

    def log_prob(self, action: Array) -> Array:
        return self._log_prob(jnp.arctanh(action))

    def _before_tanh(self, key: Array, noise: Array | float) -> Array:
        return self.mean + noise * jnp.exp(self.log_std) * jax.random.normal(key, self.mean.shape)

    def _log_prob(self, x: Array) -> Array:
        standard = (x - self.mean) * jnp.exp(-self.log_std)
        normal = -0.5 * (standard * standard + math.log(2 * math.pi)) - self.log_std
        # log(1 - tanh(x)^2), in a form that neither overflows nor cancels for large |x|.
        slope = 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))
        return jnp.sum(normal - slope, axis=-1)


class GaussianPolicy(nn.Module):
    """Mean and log-deviation from one trunk, each with a head of its own."""

    part: config.Gaussian
    network: config.Actor
    action_size: int

    @nn.compact
    def __call__(self, observation: Array) -> TanhNormal:
        part, architecture = self.part, self.network.architecture
        h = trunks.Hyperspherical(architecture, self.network.width, self.network.depth)(observation)
        mean = trunks.HypersphericalHead(architecture, self.action_size)(h)
        squashed = jnp.tanh(trunks.HypersphericalHead(architecture, self.action_size)(h))
        span = part.log_std_high - part.log_std_low
        return TanhNormal(mean, part.log_std_low + 0.5 * span * (1 + squashed))
