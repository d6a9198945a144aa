"""How much faster worker processes step environments than one process does, and that the steps are the same.

Both step the same episodes with the same actions, in turns of a few steps, so that both see the same contacts and
the same load of the machine. `speed-up` compares their times on the clock and needs as many idle cores as there
are workers. `by CPU time` divides the CPU time of one process by that of the busiest worker and of this process
together: the speed-up on a machine that does nothing else.

    python benchmarks/env_workers.py [--workers 2] [--envs 8] [--rounds 20] [--backend local]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from simbav2.envs.vector import Envs, make_vector_env

TASKS = ("hbench/h1-walk", "dmc/dog-run", "mujoco/Ant-v4", "mujoco/Hopper-v4")  # from slow to fast
STEPS = 25  # in one turn


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def play(envs: Envs, actions: np.ndarray) -> tuple[float, float, list]:
    """Seconds on the clock and of this process's CPU, and the steps."""
    start, computed = perf_counter(), process_time()
    steps = [envs.step(action) for action in actions]
    return perf_counter() - start, process_time() - computed, steps


def measure(task: str, num_envs: int, workers: int, rounds: int, backend: str) -> str:
    settings = {"seed": 0, "num_envs": num_envs}
    random = np.random.default_rng(0)
    with (
        make_vector_env(task, **settings) as one,
        make_vector_env(task, **settings, workers=workers, backend=backend) as several,
    ):
        np.testing.assert_array_equal(one.reset(), several.reset())
        clock, cpu = np.zeros((2, rounds)), np.zeros((2, rounds))
        pids = [worker.process.pid for worker in several._workers] if backend == "local" else []
        before = [cpu_seconds(pid) for pid in pids]
        for turn in range(rounds):
            actions = random.uniform(-1, 1, (STEPS, num_envs, one.action_size)).astype(np.float32)
            played = {}
            for which in (0, 1) if turn % 2 else (1, 0):
                envs = (one, several)[which]
                clock[which, turn], cpu[which, turn], played[which] = play(envs, actions)
            for a, b in zip(played[0], played[1], strict=True):
                for ours, theirs in zip(a, b, strict=True):
                    np.testing.assert_array_equal(ours, theirs)
        busiest = max((cpu_seconds(pid) - at for pid, at in zip(pids, before, strict=True)), default=np.nan)
    ratio = clock[0] / clock[1]
    low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
    bound = cpu[0].sum() / (busiest + cpu[1].sum())
    ms = 1000 / STEPS * np.median(clock, axis=1)
    return f"{task:<18}{ms[0]:>9.2f}{ms[1]:>9.2f}{middle:>10.2f} ({low:.2f} to {high:.2f}){bound:>10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--backend", choices=("local", "ray"), default="local")
    options = parser.parse_args()
    print(f"{options.envs} environments, in one process and in {options.workers} workers; ms per step of all")
    print(f"{'task':<18}{'one':>9}{'workers':>9}{'speed-up (quartiles)':>25}{'by CPU time':>13}")
    for task in TASKS:
        print(measure(task, options.envs, options.workers, options.rounds, options.backend), flush=True)


if __name__ == "__main__":
    main()
