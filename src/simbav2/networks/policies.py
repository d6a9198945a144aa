"""Policies: what the heads' numbers mean as actions in [-1, 1], and what their entropy is worth."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp

from simbav2 import config
from simbav2.networks import architectures
from simbav2.types import Array


class TanhNormal(NamedTuple):
    """tanh(mean + std * noise), one independent Gaussian per action dimension."""

    mean: Array
    log_std: Array

    def sample(self, key: Array, noise: Array | float = 1.0) -> Array:
        """A random action; `noise` 0 gives the deterministic one, bit for bit."""
        return jnp.tanh(self._before_tanh(noise * self._draw(key)))

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A random action, differentiable in the parameters, and its log-density."""
        standard = self._draw(key)
        x = self._before_tanh(standard)
        return jnp.tanh(x), self._log_prob(x, standard)

    def log_prob(self, action: Array) -> Array:
        x = jnp.arctanh(action)
        return self._log_prob(x, (x - self.mean) * jnp.exp(-self.log_std))

    def _draw(self, key: Array) -> Array:
        return jax.random.normal(key, self.mean.shape)

    def _before_tanh(self, standard: Array) -> Array:
        return self.mean + jnp.exp(self.log_std) * standard

    def _log_prob(self, x: Array, standard: Array) -> Array:
        """Of tanh(x), where `standard` is x in deviations from the mean: what was drawn, for a sample."""
        normal = -0.5 * (standard * standard + math.log(2 * math.pi)) - self.log_std
        # log(1 - tanh(x)^2), in a form that neither overflows nor cancels for large |x|.
        slope = 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))
        return jnp.sum(normal - slope, axis=-1)


class Point(NamedTuple):
    """One action for one observation, with Gaussian noise of a fixed deviation where it is to explore."""

    action: Array
    deviation: float

    def sample(self, key: Array, noise: Array | float = 1.0) -> Array:
        wander = noise * self.deviation * jax.random.normal(key, self.action.shape)
        return jnp.clip(self.action + wander, -1.0, 1.0)

    def sample_and_log_prob(self, key: Array) -> tuple[Array, None]:
        """The action itself; a point has no density, hence no entropy to trade for return."""
        return self.action, None


Actions: TypeAlias = TanhNormal | Point


class Temperature(NamedTuple):
    """Where the weight of the entropy starts, and the entropy it seeks."""

    initial: float
    target_entropy: float


def temperature(part: config.Gaussian | config.Deterministic, action_size: int) -> Temperature | None:
    match part:
        case config.Gaussian():
            return Temperature(part.initial_temperature, part.target_entropy * action_size)
        case config.Deterministic():
            return None


class PolicyNetwork(nn.Module):
    """An encoder, and one head for each number an action dimension needs."""

    part: config.Gaussian | config.Deterministic
    network: config.Actor
    action_size: int

    @nn.compact
    def __call__(self, observation: Array) -> Actions:
        h = architectures.encoder(self.network)(observation)
        mean = architectures.head(self.network, self.action_size, "predictor_mean")(h)
        match self.part:
            case config.Gaussian(low, high):
                squashed = jnp.tanh(architectures.head(self.network, self.action_size, "predictor_log_std")(h))
                return TanhNormal(mean, low + 0.5 * (high - low) * (1 + squashed))
            case config.Deterministic(deviation):
                return Point(jnp.tanh(mean), deviation)
