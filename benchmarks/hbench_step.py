"""What our HumanoidBench tasks cost on top of MuJoCo: an environment step against `mj_step` of its substeps.

A twin of the simulation makes every step too, from the same state with the same controls, in turns before and
after the environment, so both see the same contacts and the same mood of the machine. The ratio is the median
over these pairs; more than LIMIT fails.

    python benchmarks/hbench_step.py [steps]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import mujoco
import numpy as np

from simbav2.envs.humanoid_bench import FRAME_SKIP, HumanoidBench
from simbav2.envs.humanoid_bench.tasks import TASKS

LIMIT = 1.15


def timed(function: Callable[[], Any]) -> tuple[int, Any]:
    start = perf_counter_ns()
    result = function()
    return perf_counter_ns() - start, result


def measure(env: HumanoidBench, steps: int) -> tuple[float, float]:
    """Microseconds of MuJoCo's ten substeps, and how many times as long our step takes."""
    model, twin = env.model, mujoco.MjData(env.model)
    low, high = model.actuator_ctrlrange.T.astype(np.float32)
    random = np.random.default_rng(0)
    ours, theirs = np.zeros(steps), np.zeros(steps)
    ended = True
    for step in range(steps):
        if ended:
            env.reset(seed=step)
            mujoco.mj_copyData(twin, model, env.data)
        action = random.uniform(-1, 1, model.nu).astype(np.float32)
        twin.ctrl[:] = (action + 1) / 2 * (high - low) + low
        if step % 2:
            theirs[step], _ = timed(lambda: mujoco.mj_step(model, twin, nstep=FRAME_SKIP))
        ours[step], outcome = timed(lambda action=action: env.step(action))
        if not step % 2:
            theirs[step], _ = timed(lambda: mujoco.mj_step(model, twin, nstep=FRAME_SKIP))
        assert np.array_equal(twin.qpos, env.data.qpos), "the twin has lost its way"
        ended = outcome[2]
    return float(np.median(theirs)) / 1000, float(np.median(ours / theirs))


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{'task':<20}{'mj_step x10 [us]':>18}{'ratio':>8}")
    worst = 0.0
    for name in TASKS:
        substeps, ratio = measure(HumanoidBench(name), steps)
        worst = max(worst, ratio)
        print(f"{name:<20}{substeps:>18.0f}{ratio:>8.3f}", flush=True)
    print(f"worst {worst:.3f}, limit {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
