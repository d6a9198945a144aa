"""Several seeds of one run side by side, each a process of its own with its own share of the cores.

Small networks gain little from a second core and large ones lose some of it, so one core per run gives the most
updates per second (docs/performance.md). A process is a plain `simbav2 train`: its folder is that of a single run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import NamedTuple

from simbav2.backend import ONE_THREAD, merged
from simbav2.training.online import stop_signals

STOPPED = 130  # the shell's status for Ctrl-C


class Run(NamedTuple):
    seed: int
    words: tuple[str, ...]  # of `simbav2 train`


def cores() -> list[int]:
    """Those this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], runs: int) -> list[list[int]]:
    """One share of the cores per process: as many processes as runs, if there are cores for them."""
    processes = max(1, min(runs, len(cores)))
    return [list(cores[i::processes]) for i in range(processes)]


def train(runs: Sequence[Run]) -> dict[int, int]:
    """Train all `runs`, as many at a time as there are shares; returns every seed's exit status.

    Asked to stop, it asks every run under way, which saves itself and ends; the others are not begun.
    """
    free: SimpleQueue[list[int]] = SimpleQueue()
    parts = shares(cores(), len(runs))
    for part in parts:
        free.put(part)
    under_way: dict[int, subprocess.Popen[str]] = {}

    def one(run: Run) -> int:
        part = free.get()
        try:
            if stop.requested:
                return STOPPED
            process = under_way[run.seed] = _start(run, part)
            assert process.stdout is not None
            for line in process.stdout:
                print(f"seed {run.seed}: {line}", end="", flush=True)
            return process.wait()
        finally:
            free.put(part)

    with stop_signals() as stop, ThreadPoolExecutor(len(parts)) as pool:
        futures = {run.seed: pool.submit(one, run) for run in runs}
        while wait(futures.values(), timeout=0.2).not_done:
            if stop.requested:
                for process in under_way.values():
                    process.terminate()
                break
        return {seed: future.result() for seed, future in futures.items()}


def _start(run: Run, part: list[int]) -> subprocess.Popen[str]:
    flags = merged(os.environ.get("XLA_FLAGS", ""), (ONE_THREAD,) if len(part) == 1 else ())
    process = subprocess.Popen(
        [sys.executable, "-m", "simbav2", "train", *run.words],
        env={**os.environ, "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, part)
    return process
