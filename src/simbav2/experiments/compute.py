"""The compute of a config in floating-point operations, counted without building its networks.

Counted are the multiply-adds of the matrix products (two operations each). Norms, scalers, activations and the
optimiser add a few percent at the default size. One update takes, per sample:

    actor step   actor forward, critic forward, critic backward to the action (no weight gradients), actor backward
    critic step  actor forward at the next observation, target forward, critic forward, critic backward

A backward pass through weights and inputs counts as two forward passes, one through inputs alone as one. For
SimbaV2 that makes 4 passes of the actor and 6 of every critic. Joint batches double a pass; an actor that skips
updates takes part in one of `actor_every`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simbav2.config import (
    Actor,
    BatchNormResidual,
    Categorical,
    Config,
    Critic,
    Deterministic,
    Hyperspherical,
    NoTarget,
    PreLayerNorm,
    Quantile,
)


class Compute(NamedTuple):
    action: float  # floating-point operations of one decision of the policy
    update: float  # floating-point operations of one update, of a whole batch
    actor_weights: int  # entries of matrices; `diagnostics.parameter_counts` counts all parameters
    critic_weights: int  # of all critics


def count_compute(config: Config, observation_size: int, action_size: int) -> Compute:
    """Of a resolved config."""
    heads = 1 if isinstance(config.policy, Deterministic) else 2
    outputs = 1
    if isinstance(config.value, Categorical):
        outputs = config.value.atoms
    elif isinstance(config.value, Quantile):
        outputs = config.value.quantiles
    # A weight takes part in one multiply-add of a forward pass.
    actor = multiply_adds(config.actor, observation_size, [action_size] * heads)
    critic = multiply_adds(config.critic, observation_size + action_size, [outputs])
    critics = critic * (config.critic.num_critics or 1)
    actor_passes, critic_passes = passes(config)
    update = 2 * config.replay.batch_size * (actor_passes * actor + critic_passes * critics)
    return Compute(2 * actor, update, actor, critics)


def passes(config: Config) -> tuple[float, float]:
    """Of the actor and of every critic, per update and row of the batch."""
    joint_actor = 2 if config.actor.joint_batch else 1
    no_target = isinstance(config.target, NoTarget)
    joint_critic = 2 if config.critic.joint_batch or no_target else 1
    turns = 1 / config.actor_every
    actor = 1 + turns * 3 * joint_actor
    if config.actor.statistics_when_skipped:
        actor += (1 - turns) * joint_actor
    return actor, turns * 2 + (0 if no_target else joint_critic) + 3 * joint_critic


def multiply_adds(network: Actor | Critic, inputs: int, outputs: Sequence[int]) -> int:
    """Of one forward pass of one sample through one network, with one head for each entry of `outputs`."""
    width, depth = network.width, network.depth
    heads = sum(width * size for size in outputs)
    match network.architecture:
        case Hyperspherical():  # one more input, the shift; a head is two matrices
            return (inputs + 1) * width + depth * 8 * width**2 + len(outputs) * width**2 + heads
        case PreLayerNorm() | BatchNormResidual():
            return inputs * width + depth * 8 * width**2 + heads
        case _:  # MLP, BatchNormMLP; an estimate for others
            return inputs * width + (depth - 1) * width**2 + heads
