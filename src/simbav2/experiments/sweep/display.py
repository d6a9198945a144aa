"""What a person sees of a sweep: a live table of all runs on a terminal, a line for every change anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from simbav2.errors import printable
from simbav2.experiments.sweep.plan import Plan, Run
from simbav2.experiments.sweep.status import STATES, Status, look, told
from simbav2.training.console import number

_STYLES = {"running": "bold", "failed": "red", "stopped": "yellow", "waiting": "dim", "finished": "green"}
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("run", "left"),
    ("", "left"),
    ("step", "right"),
    ("return", "right"),
    ("state", "left"),
)
_ROOM = 6  # lines of the terminal that are not for runs


class SweepTable:
    """Looks at the runs' folders; a context manager, so that the terminal is given back whatever happens."""

    def __init__(self, plan: Plan, out: Path, console: Console | None = None) -> None:
        self.plan = plan
        self.out = out
        self.statuses = {run.name: look(run, out) for run in plan.runs}
        self.console = console or Console()
        self._live = Live(console=self.console, auto_refresh=False, get_renderable=self._table)

    def __enter__(self) -> SweepTable:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        else:
            self._say(f"{self.plan.name}: {self.told()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh()
        if self.console.is_terminal:
            self._live.stop()

    def refresh(self) -> None:
        for run in self.plan.runs:
            before = self.statuses[run.name]
            if before.state == "finished":
                continue
            now = self.statuses[run.name] = look(run, self.out)
            if now.state != before.state and not self.console.is_terminal:
                self._say(line(run, now))
        if self.console.is_terminal:
            self._live.refresh()

    def told(self) -> str:
        return told(self.statuses.values())

    def _say(self, text: str) -> None:
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def _table(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading, justify in _COLUMNS:
            table.add_column(heading, justify=justify, header_style="dim", no_wrap=True)
        # What goes on and what went wrong first, as many as there is room for.
        ordered = sorted(self.plan.runs, key=lambda run: STATES.index(self.statuses[run.name].state))
        shown = ordered[: max(1, self.console.height - _ROOM)]
        for run in shown:
            table.add_row(*_cells(run, self.statuses[run.name]))
        more = [Text(f"and {len(ordered) - len(shown)} more", style="dim")] if len(shown) < len(ordered) else []
        return Group(Text(f"{self.plan.name}: {self.told()}"), table, *more)


def _cells(run: Run, status: Status) -> Sequence[Text | ProgressBar]:
    note = f": {status.note}" if status.state == "failed" else ""
    return (
        Text(printable(run.title)),
        ProgressBar(total=status.until or 1, completed=status.env_step, width=20),
        Text(f"{status.env_step:,} / {_steps(status)}"),
        Text(number(status.result)),
        Text(printable(status.state + note), style=_STYLES[status.state]),
    )


def _steps(status: Status) -> str:
    return "?" if status.until is None else f"{status.until:,}"


def line(run: Run, status: Status) -> str:
    """Such as `running   dmc/walker-walk · paper · seed 0: step 1,000 of 60,000, return 14.2`."""
    facts = [f"step {status.env_step:,} of {_steps(status)}"] if status.env_step else []
    facts += [f"return {number(status.result)}"] if status.result is not None else []
    facts += [status.note] if status.note else []
    return printable(f"{status.state:<9} {run.title}" + (f": {', '.join(facts)}" if facts else ""))
