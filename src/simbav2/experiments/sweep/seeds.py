"""Several seeds of one run side by side: the smallest sweep.

A process is a plain `simbav2 train`: its folder is that of a single run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import NamedTuple

from simbav2.experiments.sweep.process import Share, cores, shares, start
from simbav2.runtime import stop_signals

STOPPED = 130  # the shell's status for Ctrl-C


class Run(NamedTuple):
    seed: int
    words: tuple[str, ...]  # of `simbav2 train`


def train(runs: Sequence[Run]) -> dict[int, int]:
    """Train all `runs`, as many at a time as there are cores; returns every seed's exit status.

    Asked to stop, it asks every run under way, which saves itself and ends; the others are not begun.
    """
    free: SimpleQueue[Share] = SimpleQueue()
    parts = shares(cores(), min(len(runs), len(cores())))
    for part in parts:
        free.put(part)
    under_way: dict[int, subprocess.Popen[str]] = {}

    def one(run: Run) -> int:
        part = free.get()
        try:
            if stop.requested:
                return STOPPED
            with start(["train", *run.words], part, subprocess.PIPE) as process:
                under_way[run.seed] = process
                assert process.stdout is not None
                for line in process.stdout:
                    print(f"seed {run.seed}: {line}", end="", flush=True)
            return process.returncode
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
