"""What a person sees of a run: a live panel on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass
class Status:
    title: str
    about: str
    env_step: int
    until: int
    training_return: float | None = None
    success: float | None = None
    updates_per_second: float | None = None
    env_steps_per_second: float | None = None
    evaluations: list[tuple[int, float]] = field(default_factory=list)  # (env_step, mean return)
    warnings: list[tuple[str, str]] = field(default_factory=list)  # (what is wrong, what to try)

    @property
    def seconds_left(self) -> float | None:
        if not self.env_steps_per_second:
            return None
        return (self.until - self.env_step) / self.env_steps_per_second


def clock(seconds: float | None) -> str:
    """3:07 or 1:02:09."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def sparkline(values: list[float], width: int = 40) -> str:
    """The last `width` values as block characters, the lowest and highest of them at the ends of the scale."""
    values = values[-width:]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[int((value - low) / span * (len(_BLOCKS) - 1))] for value in values)


def diagnostics_table(diagnostics: Mapping[str, float]) -> list[str]:
    """The norms of every network's two groups of layers, a line each; nothing where none were taken."""
    columns = ("feature_norm", "parameter_norm", "gradient_norm", "effective_learning_rate")
    groups = [f"{network}/{group}" for network in ("actor", "critic") for group in ("encoder", "predictor")]
    rows = [
        f"{group.replace('/', ' '):<18}" + "".join(f"{diagnostics[f'{group}/{name}']:>12.3g}" for name in columns)
        for group in groups
        if f"{group}/{columns[0]}" in diagnostics
    ]
    head = f"{'norms':<18}{'features':>12}{'parameters':>12}{'gradients':>12}{'g/parameter':>12}"
    return [head, *rows] if rows else []


class Display:
    """Shows a `Status`; a context manager, so that the terminal is always restored."""

    def __init__(self, status: Status, console: Console | None = None) -> None:
        self.status = status
        self.console = console or Console()
        self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self._panel)
        self._last_line = 0.0

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live.start()
        else:
            opening = f"{escape(self.status.title)}\n{escape(self.status.about)}"
            self.console.print(opening, highlight=False, soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def refresh(self, evaluated: bool = False) -> None:
        """Plain output gets a line for every evaluation and otherwise one a minute."""
        if self.console.is_terminal or not (evaluated or time.monotonic() - self._last_line > 60):
            return
        self._last_line = time.monotonic()
        status = self.status
        latest = status.evaluations[-1][1] if status.evaluations else None
        parts = [
            f"step {status.env_step:,}/{status.until:,}",
            f"return {number(latest)}" if evaluated else f"training return {number(status.training_return)}",
        ]
        if status.success is not None:
            parts.append(f"success {status.success:.0%}")
        parts += [f"{number(status.updates_per_second)} updates/s", f"{clock(status.seconds_left)} left"]
        self.console.print("  ".join(parts), highlight=False, soft_wrap=True)

    def warn(self, text: str, remedy: str) -> None:
        self.status.warnings.append((text, remedy))
        if not self.console.is_terminal:
            self.console.print(f"warning: {escape(text)}\n    → {escape(remedy)}", highlight=False, soft_wrap=True)

    def _panel(self) -> Panel:
        status = self.status
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=status.until, completed=status.env_step, width=36),
            f"{status.env_step:,} / {status.until:,} steps",
            f"{clock(status.seconds_left)} left",
        )
        facts = Table.grid(padding=(0, 3))
        for _ in range(2):
            facts.add_column(style="dim")
            facts.add_column(min_width=12)
        latest = status.evaluations[-1][1] if status.evaluations else None
        best = max((value for _, value in status.evaluations), default=None)
        success = "–" if status.success is None else f"{status.success:.0%}"
        facts.add_row("return", Text(number(latest), style="bold green"), "best", number(best))
        facts.add_row("in training", number(status.training_return), "success", success)
        rates = number(status.updates_per_second), number(status.env_steps_per_second)
        facts.add_row("updates/s", rates[0], "steps/s", rates[1])
        rows: list[Table | Text] = [Text(status.about, style="dim"), Text(), bar, Text(), facts]
        if len(status.evaluations) > 1:
            rows += [Text(), Text(sparkline([value for _, value in status.evaluations]), style="green")]
        for text, remedy in status.warnings[-3:]:
            rows += [Text(), Text(f"⚠ {text}", style="yellow"), Text(f"  → {remedy}", style="dim")]
        return Panel(Group(*rows), title=escape(status.title), title_align="left", expand=False, padding=(1, 2))
