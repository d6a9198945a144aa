"""How much faster two workers on two cores finish a plan than one worker on one core, at critic width 128.

    python benchmarks/sweep_workers.py

Runs of half a minute each, start, evaluation and report included; compiled programs are there already, as they are
for all but the first run of a real plan.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 2
PLAN = """
tasks = ["dmc/cheetah-run"]
presets = ["simbav2"]
seeds = {runs}
stop_after = {stop_after}

[settings]
env_steps = 2_000
warmup_decisions = 250
critic.width = 128
schedule.evaluation_episodes = 1
"""


def seconds(folder: Path, workers: int, runs: int = RUNS, stop_after: int = 2_000) -> float:
    """Of a sweep with nothing done yet, by workers on a core each."""
    plan, out = folder / "plan.toml", folder / f"{workers}-{runs}"
    plan.write_text(PLAN.format(runs=runs, stop_after=stop_after))
    command = [sys.executable, "-m", "simbav2", "sweep", str(plan), "--out", str(out), "--workers", str(workers)]
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:workers])  # which the sweep and its workers inherit
    try:
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began
    finally:
        os.sched_setaffinity(0, mine)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        seconds(Path(folder), 1, runs=1, stop_after=600)  # the first compiles
        one, two = (seconds(Path(folder), workers) for workers in (1, 2))
    print(f"{RUNS} runs: one worker {one:.1f} s, two workers {two:.1f} s, {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
