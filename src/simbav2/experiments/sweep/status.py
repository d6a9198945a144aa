"""Where a run of a plan is, told by its folder and its log alone: there is no other state to lose."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from simbav2.checkpoint import lock
from simbav2.checkpoint.files import damage, is_finished, read_json
from simbav2.config import other_schedule
from simbav2.errors import CheckpointError
from simbav2.experiments.report.runs import FAILURE
from simbav2.experiments.sweep import log
from simbav2.experiments.sweep.plan import Run

State = Literal["running", "failed", "stopped", "waiting", "finished"]
STOPPED = 130  # the shell's status for Ctrl-C
STATES: tuple[State, ...] = ("running", "failed", "stopped", "waiting", "finished")


class Status(NamedTuple):
    state: State
    until: int | None  # simulator steps; None where only the run will find out
    env_step: int = 0
    result: float | None = None  # the mean return of the latest evaluation
    note: str = ""  # who works on it, what went wrong, or with which other schedule it was made


def look(run: Run, out: Path) -> Status:
    folder = out / run.name
    try:
        until = _until(run, folder)
        if until is not None and is_finished(folder, until):
            summary = read_json(folder / "summary.json")
            note = _other_schedule(run, folder)
            return Status("finished", until, summary["env_steps"], summary.get("final_return"), note)
    except CheckpointError as error:
        return Status("failed", run.until, note=str(error))
    step, result = _last_step(folder), _last_return(folder)
    if (holder := lock.holder(folder)) is not None:
        return Status("running", until, step, result, holder)
    written = log.read(out, run.name)
    # A run that ended by itself says why; the exit status tells of those that could not. A SIGTERM before the run
    # had begun is a stop like any other.
    if (folder / FAILURE).exists() or written.status not in (None, 0, STOPPED, -signal.SIGTERM):
        return Status("failed", until, step, result, written.error(folder))
    begun = (folder / "config.json").exists()
    return Status("stopped" if begun else "waiting", until, step, result)


def finished(run: Run, folder: Path) -> bool:
    try:
        until = _until(run, folder)
        return until is not None and is_finished(folder, until)
    except CheckpointError:
        return False  # whoever goes on with it will say what is wrong


def _until(run: Run, folder: Path) -> int | None:
    """Where the run ends, as planned or as its own config tells."""
    if run.until is not None or not (folder / "config.json").exists():
        return run.until
    with damage(folder / "config.json"):
        return int(read_json(folder / "config.json")["env_steps"])


def _other_schedule(run: Run, folder: Path) -> str:
    """Runs that differ only in their schedule share a folder: say so where the plan asks for another one."""
    try:
        with damage(folder / "config.json"):
            other = other_schedule(dict(read_json(folder / "config.json").get("schedule", {})), run.config)
    except CheckpointError:
        return ""  # the result does not depend on it
    return f"made with {other}" if other else ""


def told(statuses: Iterable[Status]) -> str:
    """Such as `2 running, 10 finished`."""
    counts = Counter(status.state for status in statuses)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def _last_step(folder: Path) -> int:
    rows = _rows(folder / "progress.csv")
    return int(rows[-1][0]) if rows else 0


def _last_return(folder: Path) -> float | None:
    rows = _rows(folder / "evaluations.csv")
    try:
        return fmean(float(row[2]) for row in rows if row[0] == rows[-1][0])
    except ValueError:  # no row yet, or a damaged one, which the run will find out
        return None


def _rows(file: Path) -> list[list[str]]:
    """The last rows of one of the run's tables, as far as they are rows of numbers."""
    cells = [line.split(",") for line in log.tail(file)]
    return [row for row in cells if len(row) > 2 and row[0].isdigit()]
