"""Runs on this machine: worker processes with their own cores, as many at a time as cores and memory allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from simbav2.checkpoint import lock
from simbav2.experiments.sweep.attempt import PAUSE, Outcome, see_through
from simbav2.experiments.sweep.estimate import estimate
from simbav2.experiments.sweep.plan import Run
from simbav2.experiments.sweep.process import Share, cores, shares
from simbav2.runtime import stop_signals


class Machine(NamedTuple):
    """What a sweep may use of it."""

    workers: int
    memory: int  # bytes

    def admits(self, run: Run, beside: Sequence[Run]) -> bool:
        """Whether memory will last to the end of all of them; replays grow, so what is free now tells little.

        A run is never kept from running alone.
        """
        return not beside or sum(estimate(each).memory for each in (run, *beside)) <= self.memory


def make(
    runs: Sequence[Run], out: Path, machine: Machine, retries: int, look: Callable[[], None]
) -> dict[str, Outcome]:
    """See all `runs` through, calling `look` about once a second; outcomes by name, none for those not begun.

    Asked to stop, runs under way save themselves and end.
    """
    free = shares(cores(), machine.workers)
    waiting = list(runs)
    under_way: dict[Future[Outcome], tuple[Run, Share]] = {}
    outcomes: dict[str, Outcome] = {}

    def next_run() -> Run | None:
        """The first that memory allows and that no other sweep is at."""
        beside = [run for run, _ in under_way.values()]
        return next((r for r in waiting if machine.admits(r, beside) and not lock.holder(out / r.name)), None)

    with stop_signals() as stop, ThreadPoolExecutor(machine.workers) as pool:
        while under_way or (waiting and not stop.requested):
            while free and not stop.requested and (run := next_run()):
                waiting.remove(run)
                share = free.pop(0)
                future = pool.submit(see_through, run, out, share, retries, lambda: stop.requested, patient=False)
                under_way[future] = run, share
            if not under_way:
                time.sleep(PAUSE)
            for future in wait(under_way, timeout=1, return_when=FIRST_COMPLETED).done:
                run, share = under_way.pop(future)
                free.append(share)
                if future.result().state == "elsewhere":
                    waiting.append(run)
                else:
                    outcomes[run.name] = future.result()
            look()
    return outcomes
