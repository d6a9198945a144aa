"""The state of every run of a plan, read from its folder and its log alone, and the table that shows it.

A run's log holds the output of its processes, between lines that tell how each started and ended. It stands
outside the run's folder, since a run that fails at once has none.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from simbav2.checkpoint import lock
from simbav2.checkpoint.files import damage, is_finished, read_json
from simbav2.config import other_schedule
from simbav2.errors import CheckpointError, printable
from simbav2.experiments.report.runs import FAILURE
from simbav2.experiments.sweep.plan import Plan, PlannedRun
from simbav2.runtime import STOPPED
from simbav2.training.console import number

LOGS = "logs"
ATTEMPT, EXIT_STATUS = "--- attempt", "--- exit status"
_TAIL = 4096  # bytes that surely hold the last lines
_HEADER = 6  # lines of the terminal that are not for runs

State = Literal["running", "failed", "stopped", "waiting", "finished"]
# In the order of the table.
_STYLES = {"running": "bold", "failed": "red", "stopped": "yellow", "waiting": "dim", "finished": "green"}


class Log(NamedTuple):
    last_line: str  # of the latest attempt's output
    status: int | None  # its exit status; None while it runs, or if nobody saw its end

    def error(self, folder: Path) -> str:
        """Why the attempt failed: the run's own record, else the signal that killed it, else its last line."""
        try:
            recorded = str(read_json(folder / FAILURE)["error"]) if (folder / FAILURE).is_file() else ""
        except (CheckpointError, KeyError):
            recorded = ""
        killed = f"killed by {signal.Signals(-self.status).name}" if self.status and self.status < 0 else ""
        return printable(recorded or killed or self.last_line.removeprefix("simbav2: "))


def log_path(out: Path, name: str) -> Path:
    return out / LOGS / f"{name}.log"


def read_log(out: Path, name: str) -> Log:
    *before, last = ["", *(line for line in _tail(log_path(out, name)) if line.strip())]
    if not last.startswith(EXIT_STATUS):
        return Log(last, None)
    return Log(before[-1] if before else "", int(last.removeprefix(EXIT_STATUS)))


def _tail(path: Path) -> list[str]:
    """The last whole lines of a file; none if there is no file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [line.rstrip("\n") for line in lines[size > _TAIL :] if line.endswith("\n")]


class Status(NamedTuple):
    state: State
    until: int | None  # simulator steps; None for as many as the data set asks for
    env_step: int = 0
    result: float | None = None  # the mean return of the latest evaluation
    note: str = ""  # who works on it, what went wrong, or which other schedule it was made with

    @property
    def steps(self) -> str:
        return "?" if self.until is None else f"{self.until:,}"


def status(run: PlannedRun, out: Path) -> Status:
    folder = out / run.name
    try:
        until = _until(run, folder)
        if until is not None and is_finished(folder, until):
            summary = read_json(folder / "summary.json")
            other = None
            # Runs that differ only in their schedule share a folder; a damaged config does not touch the result.
            with suppress(CheckpointError), damage(folder / "config.json"):
                other = other_schedule(dict(read_json(folder / "config.json").get("schedule", {})), run.config)
            note = f"made with {other}" if other else ""
            return Status("finished", until, summary["env_steps"], summary.get("final_return"), note)
    except CheckpointError as error:
        return Status("failed", run.until, note=str(error))
    # Only the last rows are read: runs are looked at once a second.
    progress, evaluations = _last_rows(folder / "progress.csv"), _last_rows(folder / "evaluations.csv")
    step = int(progress[-1][0]) if progress else 0
    try:
        result = fmean(float(row[2]) for row in evaluations if row[0] == evaluations[-1][0])
    except ValueError:  # no row yet, or a damaged one, which the run will report
        result = None
    if (holder := lock.holder(folder)) is not None:
        return Status("running", until, step, result, holder)
    log = read_log(out, run.name)
    # A run that ended by itself says why; the exit status tells of those that could not. A SIGTERM before the run
    # started is a stop like any other.
    if (folder / FAILURE).exists() or log.status not in (None, 0, STOPPED, -signal.SIGTERM):
        return Status("failed", until, step, result, log.error(folder))
    return Status("stopped" if (folder / "config.json").exists() else "waiting", until, step, result)


def _until(run: PlannedRun, folder: Path) -> int | None:
    """Where the run ends, from the plan or from the run's own config."""
    if run.until is not None or not (folder / "config.json").exists():
        return run.until
    with damage(folder / "config.json"):
        return int(read_json(folder / "config.json")["env_steps"])


def _last_rows(file: Path) -> list[list[str]]:
    """The last rows of a CSV file that start with a step."""
    cells = [line.split(",") for line in _tail(file)]
    return [row for row in cells if len(row) > 2 and row[0].isdigit()]


def summary(statuses: Iterable[Status]) -> str:
    """Such as `2 running, 10 finished`."""
    counts = Counter[str](each.state for each in statuses)
    return ", ".join(f"{counts[state]} {state}" for state in _STYLES if counts[state])


def line(run: PlannedRun, status: Status) -> str:
    """Such as `running   dmc/walker-walk · paper · seed 0: step 1,000 of 60,000, return 14.2`."""
    facts = [f"step {status.env_step:,} of {status.steps}"] if status.env_step else []
    facts += [f"return {number(status.result)}"] if status.result is not None else []
    facts += [status.note] if status.note else []
    return printable(f"{status.state:<9} {run.title}" + (f": {', '.join(facts)}" if facts else ""))


class SweepTable:
    """All runs of a plan: a live table on a terminal, elsewhere a line for every change. A context manager."""

    def __init__(self, plan: Plan, out: Path, console: Console | None = None) -> None:
        self.plan, self.out, self.console = plan, out, console or Console()
        self.statuses = {run.name: status(run, out) for run in plan.runs}
        self._live = Live(console=self.console, auto_refresh=False, get_renderable=self._table)

    def __enter__(self) -> SweepTable:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        else:
            self._print(f"{self.plan.name}: {self.summary()}")
        return self

    def __exit__(self, *error: object) -> None:
        self.refresh()
        if self.console.is_terminal:
            self._live.stop()

    def refresh(self) -> None:
        for run in self.plan.runs:
            before = self.statuses[run.name]
            if before.state == "finished":
                continue
            now = self.statuses[run.name] = status(run, self.out)
            if now.state != before.state and not self.console.is_terminal:
                self._print(line(run, now))
        if self.console.is_terminal:
            self._live.refresh()

    def summary(self) -> str:
        return summary(self.statuses.values())

    def _print(self, text: str) -> None:
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def _table(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("run", "", "step", "return", "state"):
            justify: JustifyMethod = "right" if heading in ("step", "return") else "left"
            table.add_column(heading, justify=justify, header_style="dim", no_wrap=True)
        # Running and failed runs first, as many as fit.
        order = list(_STYLES)
        ordered = sorted(self.plan.runs, key=lambda run: order.index(self.statuses[run.name].state))
        shown = ordered[: max(1, self.console.height - _HEADER)]
        for run in shown:
            table.add_row(*self._row(run))
        more = [Text(f"and {len(ordered) - len(shown)} more", style="dim")] if len(shown) < len(ordered) else []
        return Group(Text(f"{self.plan.name}: {self.summary()}"), table, *more)

    def _row(self, run: PlannedRun) -> Iterator[Text | ProgressBar]:
        now = self.statuses[run.name]
        note = f": {now.note}" if now.state == "failed" else ""
        yield Text(printable(run.title))
        yield ProgressBar(total=now.until or 1, completed=now.env_step, width=20)
        yield Text(f"{now.env_step:,} / {now.steps}")
        yield Text(number(now.result))
        yield Text(printable(now.state + note), style=_STYLES[now.state])
