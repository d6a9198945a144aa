"""Values: what a critic's numbers mean as a return, what they should learn, and how far off they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from simbav2 import config
from simbav2.networks import architectures
from simbav2.types import Array, Params


class Bootstrap(NamedTuple):
    """What the target of a batch is made from."""

    output: Array  # [B, size], of the target critic at the next step
    reward: Array  # [B]
    discount: Array  # [B]
    bonus: Array | None  # [B], for the entropy of the next action; None where the policy has none

    def returns(self, following: Array) -> Array:
        """`reward + discount * (following + bonus)` [B, size]."""
        if self.bonus is not None:
            following = following + self.bonus[:, None]
        return self.reward[:, None] + self.discount[:, None] * following


@dataclass(frozen=True)
class CategoricalValue:
    """A distribution over evenly spaced atoms; the critic gives its logits [..., atoms]."""

    part: config.Categorical

    @property
    def size(self) -> int:
        return self.part.atoms

    @property
    def atoms(self) -> Array:
        return np.linspace(self.part.low, self.part.high, self.part.atoms, dtype=np.float32)

    def mean(self, logits: Array) -> Array:
        return jax.nn.softmax(logits) @ self.atoms

    def target(self, bootstrap: Bootstrap) -> Array:
        """Mass [B, atoms] of `reward + discount * (z + bonus)`."""
        return self.project(bootstrap.returns(self.atoms), jax.nn.softmax(bootstrap.output))

    def watch(self, bootstrap: Bootstrap) -> dict[str, Array]:
        """The share of the target's mass that lies beyond the support's ends and is clipped to them."""
        positions = bootstrap.returns(self.atoms)
        beyond = (positions < self.part.low) | (positions > self.part.high)
        return {"clipped_mass": jnp.mean(jnp.sum(jax.nn.softmax(bootstrap.output) * beyond, axis=-1))}

    def project(self, positions: Array, mass: Array) -> Array:
        """Move `mass` at `positions` [B, atoms] onto the atoms: each share goes to the two nearest."""
        part = self.part
        # Clip before projecting: mass outside the support would otherwise be lost.
        place = (jnp.clip(positions, part.low, part.high) - part.low) * ((part.atoms - 1) / (part.high - part.low))
        lower = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, part.atoms - 2)
        upper_share = mass * (place - lower)

        def scatter(lower: Array, mass: Array, upper_share: Array) -> Array:
            return jnp.zeros(part.atoms).at[lower].add(mass - upper_share).at[lower + 1].add(upper_share)

        return jax.vmap(scatter)(lower, mass, upper_share)

    def loss(self, logits: Array, target: Array) -> Array:
        """Cross entropy per sample."""
        return -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)


@dataclass(frozen=True)
class ScalarValue:
    """The critic's one number [..., 1] is the mean return."""

    size: int = 1

    def mean(self, output: Array) -> Array:
        return output[..., 0]

    def target(self, bootstrap: Bootstrap) -> Array:
        return bootstrap.returns(bootstrap.output)

    def watch(self, bootstrap: Bootstrap) -> dict[str, Array]:
        return {}

    def loss(self, output: Array, target: Array) -> Array:
        """Squared error per sample."""
        return jnp.sum((output - target) ** 2, axis=-1)


Value: TypeAlias = CategoricalValue | ScalarValue


def value(part: config.Categorical | config.Scalar) -> Value:
    match part:
        case config.Categorical():
            return CategoricalValue(part)
        case config.Scalar():
            return ScalarValue()


class CriticNetwork(nn.Module):
    """Observation and action to the numbers of a value."""

    network: config.Critic
    size: int

    @nn.compact
    def __call__(self, observation: Array, action: Array) -> Array:
        h = architectures.encoder(self.network)(jnp.concatenate([observation, action], axis=-1))
        return architectures.head(self.network, self.size, "predictor")(h)


@dataclass(frozen=True)
class Ensemble:
    """Several critics with parameters of their own; one critic is an ensemble of one.

    Parameters are a tuple with one tree per member, outputs have a leading axis [members, ...]. A plain loop
    beats `vmap` on a CPU: the matrix products stay unbatched.
    """

    member: CriticNetwork
    members: int

    def init(self, key: Array, observation: Array, action: Array) -> tuple[Params, ...]:
        return tuple(
            self.member.init(k, observation, action)["params"] for k in jax.random.split(key, self.members)
        )

    def apply(self, params: tuple[Params, ...], observation: Array, action: Array) -> Array:
        outputs: list[Array] = [self.member.apply({"params": member}, observation, action) for member in params]
        return jnp.stack(outputs)
