"""The style of our figures.

Colours are Okabe and Ito's, for colour-blind readers; series also differ in dash and marker, for print in grey.
The page replaces the colours in `THEME` by its own, light or dark. Sizes are those of a two-column paper: one
column is 3.35 inches, the page 6.9.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simbav2.experiments.report.statistics import Floats
from simbav2.experiments.report.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = "osD^v"
HATCHES = ("", "///", "...", "xxx", "---")  # of bars
THEME = {
    "card": "#ffffff",
    "ink": "#1b1f24",
    "muted": "#656d76",
    "line": "#e3e6ea",
    **{f"series-{index}": colour for index, colour in enumerate(SERIES)},
}
STYLE: dict[Any, Any] = {
    "font.size": 7.5,
    "text.color": THEME["ink"],
    "axes.edgecolor": THEME["muted"],
    "axes.labelcolor": THEME["ink"],
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": THEME["line"],
    "grid.linewidth": 0.6,
    "xtick.color": THEME["muted"],
    "ytick.color": THEME["muted"],
    "xtick.labelcolor": THEME["ink"],
    "ytick.labelcolor": THEME["ink"],
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.0,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.0,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.facecolor": THEME["card"],
    "axes.facecolor": THEME["card"],
    "text.parse_math": False,  # names come from outside
    "svg.fonttype": "none",  # text stays text: small, searchable, in the reader's font
    "svg.hashsalt": "simbav2",  # the same data give the same bytes
}
COLUMN, PAGE = 3.35, 6.9  # inches
ENTRY = 0.16  # every entry of a legend adds to the height
DPI = 200


class Drawn(NamedTuple):
    """A figure that has been written."""

    name: str
    title: str
    caption: str
    svg: str


@contextmanager
def style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name from outside may hold any character; a box in its place is good enough.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panels(
    rows: int,
    columns: int,
    width: float,
    height: float,
    entries: int,
    legend_columns: int = 1,
    titled: bool = False,
    sharey: bool = False,
) -> tuple[Figure, Any]:
    """A figure `width` inches wide with axes [rows, columns], each `height` inches tall, above a legend.

    Margins are set by hand: asking matplotlib to find them takes several times as long as drawing.
    """
    from matplotlib.figure import Figure

    left, right, top, between, apart = 0.64, 0.12, 0.27, 0.5, 0.46
    bottom = 0.42 + ENTRY * (-(-entries // legend_columns) + titled)
    total = top + rows * height + (rows - 1) * apart + bottom
    figure = Figure(figsize=(width, total))
    across = (width - left - right - (columns - 1) * between) / columns
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharey=sharey,
        gridspec_kw={
            "left": left / width,
            "right": 1 - right / width,
            "top": 1 - top / total,
            "bottom": bottom / total,
            "wspace": between / across,
            "hspace": apart / height,
        },
    )
    return figure, axes


def save(figure: Figure, stem: Path) -> str:
    """Write `stem`.png and `stem`.svg; return the SVG."""
    figure.savefig(f"{stem}.png", dpi=DPI)
    figure.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
    return Path(f"{stem}.svg").read_text(encoding="utf-8")


def colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def line_style(index: int) -> dict[str, Any]:
    """Of the line of a series; no two of the first sixty are alike."""
    return {
        "color": colour(index),
        "linestyle": DASHES[index % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
        "linewidth": 1.4,
        "markersize": 3.6,
        "markeredgecolor": THEME["card"],
        "markeredgewidth": 0.5,
    }


def draw_band(axes: Axes, x: Floats, low: Floats, high: Floats, index: int, gid: str | None = None) -> None:
    axes.fill_between(x, low, high, color=colour(index), alpha=0.18, linewidth=0, gid=gid)


def draw_interval(axes: Axes, x: float, low: float, high: float, index: int) -> None:
    if math.isfinite(low):
        axes.plot([x, x], [low, high], color=colour(index), linewidth=1)


def short(name: str, length: int = 50) -> str:
    shown = printable(name)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def legend(figure: Figure, lines: Mapping[str, Line2D], title: str | None = None, columns: int = 1) -> None:
    figure.legend(
        list(lines.values()),
        [short(label) for label in lines],
        title=title,
        loc="lower left",
        bbox_to_anchor=(0, 0),
        borderaxespad=0.3,
        ncols=columns,
        alignment="left",
        title_fontsize=7.5,
    )


def steps_axis(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def log_axis(axis: Axis, low: float, high: float) -> None:
    """A logarithmic axis from `low` to `high`, with a few ticks whose labels need no mathematics."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = math.log10(high / low)
    many = (1.0,) if decades > 1.5 else (1.0, 3.0) if decades > 0.5 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=many, numticks=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _magnitude(value)))
    axis.set_minor_locator(NullLocator())


def _magnitude(value: float) -> str:
    """`3·10¹⁶`, or the plain number where that is short."""
    if not value or 1e-3 < abs(value) < 1e4:
        return f"{value:.3g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    front = f"{value / 10**power:.2g}"
    raised = str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"10{raised}" if front == "1" else f"{front}·10{raised}"
