"""Whether several seeds go in one program or in processes of their own: a measured rule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from simbav2.agent import SimbaV2
from simbav2.backend import wait
from simbav2.bench import experience
from simbav2.sweep.together import stacked

ROUNDS = 5


class Cost(NamedTuple):
    """Seconds for a decision and its updates on the device."""

    alone: float  # of one run
    together: float  # of all runs in one program

    def in_one_program(self, seeds: int) -> bool:
        """Runs in processes of their own take turns on the device."""
        return self.together < seeds * self.alone


def in_one_program(make: Callable[[], SimbaV2], seeds: int) -> bool:
    """On a CPU never: every run has cores of its own, and the bits of a single run. On a TPU always: it serves one
    process. On a GPU whatever is faster there, measured with an agent that `make` makes."""
    device = jax.default_backend()
    if device in ("cpu", "tpu"):
        return device == "tpu"
    cost = measure(make(), seeds)
    chosen = cost.in_one_program(seeds)
    print(
        f"{'one program' if chosen else 'processes'} for {seeds} seeds: a decision with its updates takes "
        f"{cost.together * 1e3:.2f} ms in one program, {cost.alone * 1e3:.2f} ms for each alone"
    )
    return chosen


def measure(agent: SimbaV2, seeds: int) -> Cost:
    """On this device, at the run's own sizes; the median of interleaved rounds, after one that compiles."""
    learner, config = agent.learner, agent.config
    normalizer, batches = experience(config.rhythm[0], config.replay.batch_size, agent.task)
    observation = np.zeros((config.num_envs, agent.task.observation_size), np.float32)
    noise = (jax.random.PRNGKey(0), np.uint32(0), np.float32(1))
    act, learn = stacked(learner.act), stacked(learner.learn)

    def state() -> Any:
        return wait(learner.init(jax.random.PRNGKey(0)))  # anew, since learning may consume it

    def alone(now: Any) -> Any:
        acted = wait(learner.act(now.actor.params, normalizer, observation, *noise))
        return acted, learner.learn(now, normalizer, batches)

    def together(now: Any) -> Any:
        acted = wait(act(*[(now.actor.params, normalizer, observation, *noise)] * seeds))
        return acted, learn(*[(now, normalizer, batches)] * seeds)

    took = [(_seconds(alone, state()), _seconds(together, state())) for _ in range(1 + ROUNDS)]
    return Cost(*(statistics.median(times) for times in zip(*took[1:], strict=True)))


def _seconds(work: Callable[[Any], Any], state: Any) -> float:
    began = time.perf_counter()
    wait(work(state))
    return time.perf_counter() - began
