"""The compute of a run, in floating-point operations, counted from its configuration alone.

Counted are the multiply-adds of the matrix products (two operations each); norms, scalers, activations and the
optimiser come on top but stay below a few percent of the default network. One update takes, per sample:

    actor step   actor forward, critic forward, critic backward to the action (no weight gradients), actor backward
    critic step  actor forward at the next observation, target forward, critic forward, critic backward

With a backward pass through weights and inputs counted as two forward passes and one through inputs alone as one,
that is 4 passes of the actor and 6 of every critic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from simbav2.envs.tasks import Task

ACTOR_PASSES, CRITIC_PASSES = 4, 6


class Compute(NamedTuple):
    """Floating-point operations."""

    action: float  # one decision of the policy
    update: float  # one update, of a whole batch
    training: float  # all updates of the run


def training_compute(
    config: Mapping[str, Any], observation_size: int, action_size: int, updates: float | None = None
) -> Compute:
    """Of a run with this config; `updates` is how many were made, None for as many as the config asks for."""
    actor, critic = config["actor"], config["critic"]
    heads = 1 if _kind(config.get("policy")) == "deterministic" else 2
    atoms = config.get("value", {}).get("atoms", 1)
    actor_pass = 2 * multiply_adds(actor, observation_size, [action_size] * heads)
    critic_pass = (
        2 * multiply_adds(critic, observation_size + action_size, [atoms]) * (critic.get("num_critics") or 1)
    )
    update = config["replay"]["batch_size"] * (ACTOR_PASSES * actor_pass + CRITIC_PASSES * critic_pass)
    made = planned_updates(config) if updates is None else updates
    return Compute(action=actor_pass, update=update, training=update * made)


def planned_updates(config: Mapping[str, Any]) -> float:
    decisions = config["env_steps"] // (config.get("action_repeat") or 1)
    return max(0.0, (decisions - config["warmup_decisions"]) * (config.get("updates_per_decision") or 1))


def multiply_adds(network: Mapping[str, Any], inputs: int, outputs: list[int]) -> int:
    """Of one forward pass of one sample, with one head for each entry of `outputs`."""
    width, depth = network["width"], network["depth"]
    return _KINDS[_kind(network.get("architecture"))](inputs, width, depth, outputs)


def parameters(network: Mapping[str, Any], inputs: int, outputs: list[int]) -> int:
    """Weights in matrices; a weight takes part in one multiply-add of a pass."""
    return multiply_adds(network, inputs, outputs) * (network.get("num_critics") or 1)


def _hyperspherical(inputs: int, width: int, depth: int, outputs: list[int]) -> int:
    """The input has one more dimension, the shift; a head is two matrices."""
    return (inputs + 1) * width + depth * 8 * width**2 + sum(width**2 + width * size for size in outputs)


def _pre_layer_norm(inputs: int, width: int, depth: int, outputs: list[int]) -> int:
    return inputs * width + depth * 8 * width**2 + sum(width * size for size in outputs)


def _mlp(inputs: int, width: int, depth: int, outputs: list[int]) -> int:
    return inputs * width + (depth - 1) * width**2 + sum(width * size for size in outputs)


_KINDS = {"hyperspherical": _hyperspherical, "prelayernorm": _pre_layer_norm, "mlp": _mlp}


def _kind(part: Any) -> str:
    """The name of a part, as far as its config tells; SimbaV2's own parts may leave it out."""
    named = str(part.get("kind", "")).lower().replace("_", "") if isinstance(part, Mapping) else ""
    return named or "hyperspherical"


def published_compute(task: Task, updates_per_decision: float, kind: str = "hyperspherical") -> Compute:
    """Of the paper's SimbaV2 (or Simba, `prelayernorm`): 1M simulator steps, widths 128 and 512, batch 256."""
    network = {"architecture": {"kind": kind}}
    config = {
        "env_steps": 1_000_000,
        "action_repeat": task.action_repeat,
        "warmup_decisions": 5_000,
        "updates_per_decision": updates_per_decision,
        "actor": {**network, "width": 128, "depth": 1},
        "critic": {**network, "width": 512, "depth": 2, "num_critics": 2 if task.early_termination else 1},
        "value": {"atoms": 101 if kind == "hyperspherical" else 1},
        "replay": {"batch_size": 256},
    }
    return training_compute(config, task.observation_size, task.action_size)
