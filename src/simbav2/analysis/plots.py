"""How our figures look, and learning curves in that look.

Colours are Okabe and Ito's, told apart by the colour-blind; series differ in dash and marker too, so that they are
told apart in grey. The page puts its own colours, light or dark, in the place of those in `THEME`. Sizes are those
of a two-column paper: one column is 3.35 inches, the page 6.9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simbav2.analysis.published import Published, published_score
from simbav2.analysis.scores import Curve, System, mean_curve, metric, suite_curve
from simbav2.analysis.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = "osD^v"
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
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.05,
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


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, stem: Path) -> str:
    """Write `stem`.png and `stem`.svg; return the SVG."""
    # Its layout is worked out once, not once for every format.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
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
        loc="outside lower left",
        ncols=columns,
        alignment="left",
        title_fontsize=7.5,
    )


def steps_axis(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


# Learning curves --------------------------------------------------------------------------------------------

BAND = "line: mean; shaded: 95 % interval over seeds (one seed: lowest to highest episode)"


def draw_task(task: str, systems: Mapping[int, System], stem: Path) -> str:
    """The learning curves of one task. `systems` are those that have it, by their place among all."""
    with style():
        figure = new_figure(4.8, 3.0 + ENTRY * len(systems))
        axes = figure.add_subplot()
        curves = {index: mean_curve(system.trials[task]) for index, system in systems.items()}
        lines = {}
        for index, system in systems.items():
            trials = system.trials[task]
            for trial in trials if len(trials) > 1 else ():
                colour = SERIES[index % len(SERIES)]
                axes.plot(trial.curve.env_step, trial.curve.mean, color=colour, linewidth=0.5, alpha=0.5)
            lines[f"{system.label} ({curves[index].averaged})"] = _draw_curve(axes, curves[index], index)
        _draw_published(axes, published_score(task), words=True)
        _finish_axes(axes, list(curves.values()))
        axes.set_xlabel("simulator steps")
        axes.set_ylabel(metric(task) if any(map(len, curves.values())) else f"{metric(task)}, not evaluated yet")
        axes.set_title(short(task), fontsize=9, fontweight="bold")
        legend(figure, lines, BAND)
        return save(figure, stem)


def draw_suite(suite: str, ids: Sequence[str], systems: Mapping[int, System], stem: Path) -> str:
    """Small multiples: the mean of the suite, then each of its tasks."""
    with style():
        across = min(4, len(ids) + 1)
        down = -(-(len(ids) + 1) // across)
        rows = -(-len(systems) // 2)
        figure = new_figure(PAGE, 1.45 * down + 0.4 + ENTRY * rows)
        grid = figure.subplots(down, across, squeeze=False)
        panels = iter(grid.flat)
        lines: dict[str, Line2D] = {}
        _draw_panel(next(panels), f"mean of {suite}", _suite_curves(ids, systems), None, "normalised score")
        for task in ids:
            axes = next(panels)
            owners = {index: system for index, system in systems.items() if task in system.trials}
            curves = {index: mean_curve(system.trials[task]) for index, system in owners.items()}
            drawn = _draw_panel(axes, task.partition("/")[2], curves, published_score(task), metric(task))
            lines |= {systems[index].label: line for index, line in drawn.items()}
        for axes in panels:
            axes.set_visible(False)
        for axes in grid[:, 1:].flat:
            if axes.get_ylabel() == metric(ids[0]):
                axes.set_ylabel("")
        figure.supxlabel("simulator steps", fontsize=7.5)
        legend(figure, lines, f"{BAND}; grey: SimbaV2 in the paper", columns=2)
        return save(figure, stem)


def _suite_curves(ids: Sequence[str], systems: Mapping[int, System]) -> dict[int, Curve]:
    """Of the systems that have every task."""
    whole = {index: system for index, system in systems.items() if all(task in system.trials for task in ids)}
    curves = {index: suite_curve(system, ids) for index, system in whole.items()}
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
