"""The rates that `simbav2 sweep --dry-run` estimates with (`sweep/estimate.py`), measured on one core.

    taskset -c 0 env XLA_FLAGS=--xla_cpu_multi_thread_eigen=false python benchmarks/sweep_rate.py

A straight line through (work, time) of updates from small to large; the mean time of a simulator step of one task
of every suite, random actions and resets included.
"""

from __future__ import annotations

import time

import numpy as np

from simbav2 import make_env, tasks
from simbav2.envs.tasks import SUITES
from simbav2.experiments.benchmark import TASK, Case, updates
from simbav2.experiments.compute import count_compute

CASES = [
    Case(preset, width, critics, 2)
    for preset, width, critics in (
        ("simbav2", 128, 1),
        ("simbav2", 128, 2),
        ("simbav2", 256, 1),
        ("simbav2", 512, 1),
        ("simbav2", 512, 2),
        ("simba", 128, 1),
        ("sac", 256, 2),
    )
]
STEPS = 1_000


def step_milliseconds(task: str) -> float:
    env = make_env(task)
    env.reset()
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(STEPS // env.get_wrapper_attr("action_repeat")):
        _, _, terminated, truncated, _ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
        if terminated or truncated:
            env.reset()
    return 1000 * (time.perf_counter() - start) / STEPS


def main() -> None:
    _, rows = updates(CASES)
    sizes = TASK.observation_size, TASK.action_size
    work = [count_compute(case.config(), *sizes).update / 1e9 for case in CASES]
    for row, gflop in zip(rows, work, strict=True):
        print(f"{row.preset:<8}{row.width:>5}{row.critics:>3}{gflop:>8.2f} GFLOP{row.ms:>8.1f} ms")
    # The line's relative errors are what matters, from the smallest to the largest.
    weights = 1 / np.array([row.ms for row in rows])
    per_gflop, fixed = np.polyfit(work, [row.ms for row in rows], 1, w=weights)
    print(f"an update: {fixed:.1f} ms and {per_gflop:.1f} ms a GFLOP")
    for suite in SUITES:
        print(f"a simulator step of {suite}: {step_milliseconds(tasks(suite)[-1].id):.2f} ms")


if __name__ == "__main__":
    main()
