"""Runs on this machine: one process per run with its own cores, as many at a time as cores and memory allow.

A run is attempted until it is finished or has failed too often; each attempt resumes the last. The run's folder
and its log hold all state, so any other process on any machine can continue.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from simbav2.checkpoint import lock
from simbav2.experiments.sweep.estimate import estimate
from simbav2.experiments.sweep.plan import PlannedRun
from simbav2.experiments.sweep.status import ATTEMPT, EXIT_STATUS, log_path, read_log, status
from simbav2.experiments.sweep.worker import Share, cores, shares, start
from simbav2.runtime import STOPPED, stop_signals

BAD_INPUT = 2  # the exit status that no further attempt would change
POLL_SECONDS = 0.2


class Outcome(NamedTuple):
    state: Literal["finished", "failed", "stopped", "locked"]
    error: str = ""


def run_with_retries(
    run: PlannedRun,
    out: Path,
    share: Share,
    retries: int,
    stop: Callable[[], bool] = lambda: False,
    wait_for_lock: bool = True,
) -> Outcome:
    """Attempt `run` up to 1 + `retries` times, until it is finished or `stop` returns True.

    While another process holds the run's lock, wait, or return "locked" without `wait_for_lock`.
    """
    folder = out / run.name
    failures = 0
    try:
        while True:
            # Held by another sweep, or by a process that has not yet noticed that its parent is gone.
            while lock.holder(folder) is not None:
                if stop():
                    return Outcome("stopped")
                if not wait_for_lock:
                    return Outcome("locked")
                time.sleep(POLL_SECONDS)
            if status(run, out).state == "finished":
                return Outcome("finished")
            ended = _attempt(run, out, share, stop)
            if status(run, out).state == "finished":
                return Outcome("finished")
            if stop():
                return Outcome("stopped")
            if lock.holder(folder) is not None:
                continue
            failures += 1
            if failures > retries or ended == BAD_INPUT:
                return Outcome("failed", read_log(out, run.name).error(folder))
    except OSError as error:  # the log cannot be written or the process cannot be started
        return Outcome("failed", f"{error.filename or out}: {error.strerror or error}")


def _attempt(run: PlannedRun, out: Path, share: Share, stop: Callable[[], bool]) -> int:
    """Run one process with its output in the run's log; return its exit status."""
    path = log_path(out, run.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as log:
        log.write(f"{ATTEMPT} on {socket.gethostname()}, {datetime.now():%Y-%m-%d %H:%M:%S}\n")
        log.flush()
        process = start(run.argv(out), share, log)
        try:
            while process.poll() is None and not stop():
                time.sleep(POLL_SECONDS)
        finally:  # on SIGTERM the run saves a checkpoint
            process.terminate()
            log.write(f"{EXIT_STATUS} {process.wait()}\n")
    return process.returncode


class Machine(NamedTuple):
    workers: int
    memory: int  # bytes

    def admits(self, run: PlannedRun, running: Sequence[PlannedRun]) -> bool:
        """Whether memory lasts to the end of all of them: replay buffers grow, so free memory now says little.

        A single run is always admitted.
        """
        return not running or sum(estimate(each).memory for each in (run, *running)) <= self.memory


def run_all(
    runs: Sequence[PlannedRun], out: Path, machine: Machine, retries: int, refresh: Callable[[], None]
) -> dict[str, Outcome]:
    """Make all `runs`, calling `refresh` about once a second; on a stop signal, running processes save and end."""
    free = shares(cores(), machine.workers)
    waiting = list(runs)
    running: dict[Future[Outcome], tuple[PlannedRun, Share]] = {}
    outcomes: dict[str, Outcome] = {}

    def next_run() -> PlannedRun | None:
        """The first that memory admits and that no other sweep works on."""
        others = [run for run, _ in running.values()]
        return next((r for r in waiting if machine.admits(r, others) and not lock.holder(out / r.name)), None)

    with stop_signals() as stop, ThreadPoolExecutor(machine.workers) as pool:
        while running or (waiting and not stop.requested):
            while free and not stop.requested and (run := next_run()):
                waiting.remove(run)
                share = free.pop(0)
                future = pool.submit(run_with_retries, run, out, share, retries, lambda: stop.requested, False)
                running[future] = run, share
            if not running:
                time.sleep(POLL_SECONDS)
            for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                run, share = running.pop(future)
                free.append(share)
                if future.result().state == "locked":
                    waiting.append(run)
                else:
                    outcomes[run.name] = future.result()
            refresh()
    return outcomes


def train_seeds(commands: Mapping[int, Sequence[str]]) -> dict[int, int]:
    """Run the argv of every seed, as many at a time as there are cores; returns the exit statuses by seed.

    Output is printed with the seed in front. On a stop signal, running processes save and end.
    """
    workers = min(len(commands), len(cores()))
    free = shares(cores(), workers)
    running: dict[int, subprocess.Popen[str]] = {}

    def run(seed: int) -> int:
        share = free.pop()
        try:
            if stop.requested:
                return STOPPED
            with start(commands[seed], share, subprocess.PIPE) as process:
                running[seed] = process
                assert process.stdout is not None
                for line in process.stdout:
                    print(f"seed {seed}: {line}", end="", flush=True)
            return process.returncode
        finally:
            free.append(share)

    with stop_signals() as stop, ThreadPoolExecutor(workers) as pool:
        futures = {seed: pool.submit(run, seed) for seed in commands}
        while wait(futures.values(), timeout=POLL_SECONDS).not_done:
            if stop.requested:
                for process in running.values():
                    process.terminate()
                break
        return {seed: future.result() for seed, future in futures.items()}
