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
    tanh_epsilon: float = 0.0

    def sample(self, key: Array, noise: Array | float = 1.0) -> Array:
        """A random action; `noise` 0 gives the deterministic one, bit for bit."""
        return jnp.tanh(self._before_tanh(noise * self._draw(key)))

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A random action, differentiable in the parameters, and its log-density."""
        standard = self._draw(key)
        x = self._before_tanh(standard)
        return jnp.tanh(x), self._log_prob(x, standard)

    def next_action(self, key: Array) -> tuple[Array, Array]:
        """The action that a target bootstraps from, and its log-density."""
        return self.sample_and_log_prob(key)

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
        if self.tanh_epsilon:
            return jnp.sum(normal - jnp.log(1 - jnp.tanh(x) ** 2 + self.tanh_epsilon), axis=-1)
        # log(1 - tanh(x)^2), in a form that neither overflows nor cancels for large |x|.
        slope = 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))
        return jnp.sum(normal - slope, axis=-1)


class Point(NamedTuple):
    """One action for one observation, with Gaussian noise of a fixed deviation where it is to explore."""

    action: Array
    part: config.Deterministic

    def sample(self, key: Array, noise: Array | float = 1.0) -> Array:
        wander = noise * self.part.noise * jax.random.normal(key, self.action.shape)
        return jnp.clip(self.action + wander, -1.0, 1.0)

    def sample_and_log_prob(self, key: Array) -> tuple[Array, None]:
        """The action itself; a point has no density, hence no entropy to trade for return."""
        return self.action, None

    def next_action(self, key: Array) -> tuple[Array, None]:
        """With clipped noise where the policy has it: target policy smoothing."""
        if not self.part.target_noise:
            return self.action, None
        noise = self.part.target_noise * jax.random.normal(key, self.action.shape)
        clip = self.part.target_noise_clip
        return jnp.clip(self.action + jnp.clip(noise, -clip, clip), -1.0, 1.0), None


Actions: TypeAlias = TanhNormal | Point


class Temperature(NamedTuple):
    """Where the weight of the entropy starts, and the entropy it seeks."""

    initial: float
    target_entropy: float
    loss: str  # "alpha" or "log_alpha": what H - H* is multiplied by


def temperature(part: config.Gaussian | config.Deterministic, action_size: int) -> Temperature | None:
    match part:
        case config.Gaussian():
            entropy = part.target_entropy
            if part.target_std is not None:
                entropy = 0.5 * math.log(2 * math.pi * math.e * part.target_std**2)
            return Temperature(part.initial_temperature, entropy * action_size, part.temperature_loss)
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
            case config.Gaussian(low, high) as part:
                log_std = architectures.head(self.network, self.action_size, "predictor_log_std")(h)
                if part.log_std_bound == "tanh":
                    log_std = low + 0.5 * (high - low) * (1 + jnp.tanh(log_std))
                else:
                    log_std = jnp.clip(log_std, low, high)
                return TanhNormal(mean, log_std, part.tanh_epsilon)
            case config.Deterministic() as part:
                return Point(jnp.tanh(mean), part)
