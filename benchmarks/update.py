"""How long one update takes, beside what the machine's matrix multiply allows: `make bench`.

The sizes are the real defaults. Speeds are ratios within one run; the machine may be shared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from simbav2 import presets, tasks
from simbav2.config import override
from simbav2.learner import Learner
from simbav2.types import Normalizer, Transition

ROUNDS = 5
CASES = [(width, members) for width in (512, 128) for members in (1, 2)]
TASK = next(task for task in tasks() if task.id == "dmc/cheetah-run")


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return 1000 * (time.perf_counter() - start)


def update(width: int, members: int, updates: int = 2) -> Callable[[], object]:
    """A call that takes `updates` updates on a random batch."""
    config = override(presets.paper, {"critic.width": width, "critic.members": members}).resolve(TASK)
    learner = Learner(config, TASK.observation_size, TASK.action_size)
    state = [learner.init(jax.random.PRNGKey(0))]
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=(updates, config.replay.batch_size, *shape)).astype(np.float32)

    observation, action = normal(TASK.observation_size), np.tanh(normal(TASK.action_size))
    batch = Transition(observation, action, normal(), 0.99 + 0 * normal(), observation)
    size = TASK.observation_size
    normalizer = Normalizer(np.zeros(size, np.float32), np.ones(size, np.float32), np.float32(1))

    def call() -> object:
        state[0], metrics = learner.learn(state[0], normalizer, batch)
        return metrics

    return call


def main() -> None:
    square = jnp.ones((2048, 2048))
    multiply = jax.jit(jnp.matmul)
    calls = {"multiply": lambda: multiply(square, square)} | {case: update(*case) for case in CASES}
    times: dict[object, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        jax.block_until_ready(call())
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(statistics.median(milliseconds(call) for _ in range(5)))
    peak = 2 * 2048**3 / 1e6 / statistics.median(times["multiply"])
    print(f"matrix multiply: {peak:.0f} GFLOP/s")
    print(f"{'critic width':>12} {'critics':>8} {'ms per update':>14} {'multiplies of 2048^3':>21}")
    for width, members in CASES:
        each = statistics.median(times[width, members]) / 2
        print(f"{width:>12} {members:>8} {each:>14.1f} {each / statistics.median(times['multiply']):>21.2f}")


if __name__ == "__main__":
    main()
