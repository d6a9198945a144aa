"""How our figures look, and learning curves in that look.

Colours are Okabe and Ito's, told apart by the colour-blind; series differ in dash and marker too, so that they are
told apart in grey. The page puts its own colours, light or dark, in the place of those in `THEME`. Sizes are those
of a two-column paper: one column is 3.35 inches, the page 6.9.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simbav2.experiments.report.published import Published, published_score
from simbav2.experiments.report.scores import Curve, Method, clock, mean_curve, metric, suite_curve
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


class Panels(NamedTuple):
    """A figure with a grid of axes [rows, columns], room for their words, and a legend of some lines below."""

    figure: Figure
    axes: Any


def panels(
    rows: int,
    columns: int,
    width: float,
    height: float,
    entries: int,
    legend_columns: int = 1,
    titled: bool = False,
    sharey: bool = False,
) -> Panels:
    """Panels `height` inches tall on a figure `width` inches wide.

    Margins are set by hand: they are known beforehand, and asking matplotlib to find them takes several times as
    long as drawing.
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
    return Panels(figure, axes)


def save(figure: Figure, stem: Path) -> str:
    """Write `stem`.png and `stem`.svg; return the SVG."""
    figure.savefig(f"{stem}.png", dpi=DPI)
    figure.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
    return Path(f"{stem}.svg").read_text(encoding="utf-8")


def look(index: int) -> dict[str, Any]:
    """Of the line of a series; no two of the first sixty are alike."""
    return {
        "color": SERIES[index % len(SERIES)],
        "linestyle": DASHES[index % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
        "linewidth": 1.4,
        "markersize": 3.6,
        "markeredgecolor": THEME["card"],
        "markeredgewidth": 0.5,
    }


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


# Learning curves --------------------------------------------------------------------------------------------

BAND = "shaded: 95 % interval over seeds (of one seed: its episodes)"


def draw_task(task: str, methods: Mapping[int, Method], stem: Path) -> str:
    """The learning curves of one task. `methods` are those that have it, by their place among all."""
    with style():
        figure, ((axes,),) = panels(1, 1, 4.8, 2.4, len(methods), titled=True)
        curves = {index: mean_curve(method.trials[task]) for index, method in methods.items()}
        lines = {}
        for index, method in methods.items():
            trials = method.trials[task]
            for trial in trials if len(trials) > 1 else ():
                colour = SERIES[index % len(SERIES)]
                axes.plot(trial.curve.env_step, trial.curve.mean, color=colour, linewidth=0.5, alpha=0.5)
            lines[f"{method.label} ({curves[index].averaged})"] = _draw_curve(axes, curves[index], index)
        _draw_published(axes, published_score(task), words=True)
        _finish_axes(axes, list(curves.values()))
        axes.set_xlabel(clock(chain(*(method.trials[task] for method in methods.values()))))
        axes.set_ylabel(metric(task) if any(map(len, curves.values())) else f"{metric(task)}, not evaluated yet")
        axes.set_title(short(task), fontsize=9, fontweight="bold")
        legend(figure, lines, BAND)
        return save(figure, stem)


def draw_suite(suite: str, ids: Sequence[str], methods: Mapping[int, Method], stem: Path) -> str:
    """Small multiples: the mean of the suite, then each of its tasks."""
    with style():
        across = min(4, len(ids) + 1)
        figure, grid = panels(-(-(len(ids) + 1) // across), across, PAGE, 0.95, len(methods), 2, titled=True)
        places = iter(grid.flat)
        lines: dict[str, Line2D] = {}
        _draw_panel(next(places), f"mean of {suite}", _suite_curves(ids, methods), None, "normalised score")
        for task in ids:
            axes = next(places)
            owners = {index: method for index, method in methods.items() if task in method.trials}
            curves = {index: mean_curve(method.trials[task]) for index, method in owners.items()}
            drawn = _draw_panel(axes, task.partition("/")[2], curves, published_score(task), metric(task))
            lines |= {methods[index].label: line for index, line in drawn.items()}
        for axes in places:
            axes.set_visible(False)
        for axes in grid[:, 1:].flat:
            if axes.get_ylabel() == metric(ids[0]):
                axes.set_ylabel("")
        legend(figure, lines, f"over simulator steps; {BAND}; grey: SimbaV2 in the paper", columns=2)
        return save(figure, stem)


def _suite_curves(ids: Sequence[str], methods: Mapping[int, Method]) -> dict[int, Curve]:
    """Of the methods that have every task."""
    whole = {index: method for index, method in methods.items() if all(task in method.trials for task in ids)}
    curves = {index: suite_curve(method, ids) for index, method in whole.items()}
    return {index: curve for index, curve in curves.items() if curve is not None}


def _draw_panel(
    axes: Axes, title: str, curves: Mapping[int, Curve], published: Published | None, label: str
) -> dict[int, Line2D]:
    lines = {index: _draw_curve(axes, curve, index) for index, curve in curves.items()}
    _draw_published(axes, published, words=False)
    _finish_axes(axes, list(curves.values()))
    axes.set_title(short(title, 26))
    axes.set_ylabel(label)
    axes.tick_params(labelsize=6.5)
    return lines


def _draw_curve(axes: Axes, curve: Curve, index: int) -> Line2D:
    axes.fill_between(
        curve.env_step, curve.low, curve.high, color=SERIES[index % len(SERIES)], alpha=0.18, linewidth=0
    )
    (line,) = axes.plot(
        curve.env_step, curve.mean, clip_on=False, markevery=max(1, len(curve) // 8), **look(index)
    )
    return line


def _finish_axes(axes: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    low, high = axes.get_ylim()
    axes.set_ylim(0 if axes.dataLim.y0 >= 0 else low, high)
    axes.set_xlim(0, max((curve.env_step[-1] for curve in curves if len(curve)), default=1) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    steps_axis(axes)


def _draw_published(axes: Axes, published: Published | None, words: bool) -> None:
    if published is None:
        return
    low, high = axes.get_ylim()
    room = 0.1 * (max(high, published.high) - low) if words else 0.0
    axes.set_ylim(low, max(high, published.high + room))
    axes.axhspan(published.low, published.high, color=THEME["muted"], alpha=0.15, linewidth=0)
    axes.axhline(published.mean, color=THEME["muted"], linewidth=0.9, linestyle=(0, (4, 2)))
    if words:  # at the left, where curves are still low
        axes.annotate(
            f"SimbaV2 paper, 1M steps: {published.mean:,g}",
            (0, published.high),
            xycoords=("axes fraction", "data"),
            xytext=(3, 2),
            textcoords="offset points",
            color=THEME["muted"],
        )
