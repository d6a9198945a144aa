"""Critics: what their outputs mean as a return, what they learn from a target, and the ensemble of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from simbav2 import config
from simbav2.networks import architectures
from simbav2.types import Array, Params, Variables


class Bootstrap(NamedTuple):
    """What the target of a batch is made from."""

    output: Array  # [B, size], of the target critics at the next step
    reward: Array  # [B]
    discount: Array  # [B]
    bonus: Array | None  # [B], for the entropy of the next action; None where the policy has none

    def returns(self, following: Array) -> Array:
        """`reward + discount * (following + bonus)` [B, size]."""
        if self.bonus is not None:
            following = following + self.bonus[:, None]
        return self.reward[:, None] + self.discount[:, None] * following


def smallest(means: Array, outputs: Array) -> Array:
    """The output [B, size] of the critic with the smallest mean (clipped double Q)."""
    return jnp.take_along_axis(outputs, jnp.argmin(means, axis=0)[None, :, None], axis=0)[0]


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

    def combine(self, outputs: Array) -> Array:
        return smallest(self.mean(outputs), outputs)

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

    part: config.Scalar
    size: int = 1

    def mean(self, output: Array) -> Array:
        return output[..., 0]

    def combine(self, outputs: Array) -> Array:
        return smallest(self.mean(outputs), outputs)

    def target(self, bootstrap: Bootstrap) -> Array:
        return bootstrap.returns(bootstrap.output)

    def watch(self, bootstrap: Bootstrap) -> dict[str, Array]:
        return {}

    def loss(self, output: Array, target: Array) -> Array:
        """Squared error per sample."""
        error = jnp.sum((output - target) ** 2, axis=-1)
        return error if self.part.weight == 1 else self.part.weight * error


@dataclass(frozen=True)
class QuantileValue:
    """The critic gives quantiles of the return [..., quantiles] at the midpoints of equal shares."""

    part: config.Quantile

    @property
    def size(self) -> int:
        return self.part.quantiles

    def mean(self, quantiles: Array) -> Array:
        return jnp.mean(quantiles, axis=-1)

    def combine(self, outputs: Array) -> Array:
        """All critics' quantiles [B, kept], sorted, without the largest ones."""
        pooled = jnp.sort(jnp.concatenate(list(outputs), axis=-1), axis=-1)
        return pooled[:, : len(outputs) * (self.part.quantiles - self.part.drop)]

    def target(self, bootstrap: Bootstrap) -> Array:
        return bootstrap.returns(bootstrap.output)

    def watch(self, bootstrap: Bootstrap) -> dict[str, Array]:
        return {}

    def loss(self, quantiles: Array, target: Array) -> Array:
        """Quantile Huber loss per sample, averaged over pairs of quantile and target."""
        shares = (np.arange(self.size, dtype=np.float32) + 0.5) / self.size
        error = target[..., None, :] - quantiles[..., :, None]  # [..., quantiles, kept]
        huber = jnp.where(jnp.abs(error) <= 1, 0.5 * error**2, jnp.abs(error) - 0.5)
        return jnp.mean(jnp.abs(shares[:, None] - (error < 0)) * huber, axis=(-2, -1))


Value: TypeAlias = CategoricalValue | ScalarValue | QuantileValue


def value(part: config.Categorical | config.Scalar | config.Quantile) -> Value:
    kinds = {config.Categorical: CategoricalValue, config.Scalar: ScalarValue, config.Quantile: QuantileValue}
    return kinds[type(part)](part)


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

    Parameters and batch statistics are tuples with one tree per critic; outputs have a leading axis [critics].
    A plain loop beats `vmap` on a CPU: the matrix products stay unbatched.
    """

    member: CriticNetwork
    members: int

    def init(self, key: Array, observation: Array, action: Array) -> Variables:
        fresh = [self.member.init(k, observation, action) for k in jax.random.split(key, self.members)]
        stats = tuple(one["batch_stats"] for one in fresh) if "batch_stats" in fresh[0] else None
        return Variables(tuple(one["params"] for one in fresh), stats)

    def apply(
        self,
        critic: Variables,
        observation: Array,
        action: Array,
        dropout: Array | None = None,
        training: bool = False,
    ) -> tuple[Array, Params]:
        """Outputs [critics, B, size], and the batch statistics after the pass.

        By the running batch statistics, or in `training` by those of the batch; `dropout` is the key that turns
        it on.
        """
        outputs, moved = [], []
        for number, params in enumerate(critic.params):
            output, after = self.member.apply(
                Variables(params, critic.batch_stats and critic.batch_stats[number]).collections,
                *(observation, action),
                rngs=None if dropout is None else {"dropout": jax.random.fold_in(dropout, number)},
                mutable=["batch_stats"] if training else [],
            )
            outputs.append(output)
            moved.append(after.get("batch_stats"))
        return jnp.stack(outputs), critic.batch_stats and tuple(moved)
