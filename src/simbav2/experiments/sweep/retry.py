"""One run of a plan, attempted until it is finished or has failed too often; each attempt resumes the last.

The run's folder and its log hold all state, so any other process on any machine can continue.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from simbav2.checkpoint import lock
from simbav2.experiments.sweep.plan import PlannedRun
from simbav2.experiments.sweep.status import ATTEMPT, EXIT_STATUS, log_path, read_log, status
from simbav2.experiments.sweep.worker import Share, start

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
