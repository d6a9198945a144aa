"""Seeing one run through: attempts, each from the last checkpoint, until it is finished or given up.

All that is known of a run is in its folder and its log, so whoever comes next, on whatever machine, goes on.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from simbav2.checkpoint import lock
from simbav2.experiments.sweep import log
from simbav2.experiments.sweep.plan import Run
from simbav2.experiments.sweep.process import Share, start
from simbav2.experiments.sweep.status import finished

BAD_INPUT = 2  # the exit status that no further attempt would change
PAUSE = 0.2  # seconds between looks


class Outcome(NamedTuple):
    state: Literal["finished", "failed", "stopped", "elsewhere"]
    error: str = ""


def never() -> bool:
    return False


def see_through(
    run: Run, out: Path, share: Share, retries: int, stop: Callable[[], bool] = never, patient: bool = True
) -> Outcome:
    """Attempt `run` until it is finished, at most `retries` times more; `stop` is asked all the while.

    While somebody else is at it, wait; unless `patient`, leave it to them.
    """
    try:
        return _see_through(run, out, share, retries, stop, patient)
    except OSError as error:  # no log can be written, no process started
        return Outcome("failed", f"{error.filename or out}: {error.strerror or error}")


def _see_through(
    run: Run, out: Path, share: Share, retries: int, stop: Callable[[], bool], patient: bool
) -> Outcome:
    folder = out / run.name
    failures = 0
    while True:
        # Somebody else is at it: another sweep, or a process that has yet to notice that its parent is gone.
        while lock.holder(folder) is not None:
            if stop():
                return Outcome("stopped")
            if not patient:
                return Outcome("elsewhere")
            time.sleep(PAUSE)
        if finished(run, folder):
            return Outcome("finished")
        status = _attempt(run, out, share, stop)
        if finished(run, folder):
            return Outcome("finished")
        if stop():
            return Outcome("stopped")
        if lock.holder(folder) is not None:
            continue
        failures += 1
        if failures > retries or status == BAD_INPUT:
            return Outcome("failed", log.read(out, run.name).error(folder))


def _attempt(run: Run, out: Path, share: Share, stop: Callable[[], bool]) -> int:
    """One process, its output in the run's log; its exit status."""
    with log.appended(out, run.name) as file:
        file.write(f"{log.BEGUN} on {socket.gethostname()}, {datetime.now():%Y-%m-%d %H:%M:%S}\n")
        file.flush()
        process = start(run.words(out), share, file)
        try:
            while process.poll() is None and not stop():
                time.sleep(PAUSE)
        finally:  # asked to stop, it saves itself
            process.terminate()
            status = process.wait()
            file.write(f"{log.ENDED} {status}\n")
    return status
