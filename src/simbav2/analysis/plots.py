"""Learning curves, as a paper would print them.

Colours are Okabe and Ito's, told apart by the colour-blind; lines differ in dash and marker too, so that they
are told apart in grey. The page puts its own colours, light or dark, in the place of those in `THEME`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simbav2.analysis.published import published_score
from simbav2.analysis.scores import Group, run_curve

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
    "font.size": 8.5,
    "text.color": THEME["ink"],
    "axes.edgecolor": THEME["muted"],
    "axes.labelcolor": THEME["ink"],
    "axes.linewidth": 0.6,
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
    "figure.facecolor": THEME["card"],
    "axes.facecolor": THEME["card"],
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.06,
    "text.parse_math": False,  # names come from outside
    "svg.fonttype": "none",  # text stays text: small, searchable, in the reader's font
    "svg.hashsalt": "simbav2",  # the same data give the same bytes
}
WIDTH, HEIGHT, ENTRY = 4.8, 3.1, 0.17  # inches; a phone's width; every entry of the legend adds to the height
DPI = 200


def draw_learning_curve(groups: Sequence[Group], stem: Path) -> str:
    """Draw the groups of one task into `stem`.png and `stem`.svg; return the SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name from outside may hold any character; a box in its place is good enough.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH, HEIGHT + ENTRY * len(groups)), layout="constrained")
        _draw(figure, groups)
        figure.savefig(f"{stem}.png", dpi=DPI)
        figure.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
    return Path(f"{stem}.svg").read_text(encoding="utf-8")


def _draw(figure: Figure, groups: Sequence[Group]) -> None:
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    task, measure = groups[0].task, groups[0].measure
    runs = [run for group in groups for run in group.runs]
    singles = [curve for curve in (run_curve(run, measure) for run in runs) if len(curve)]
    axes = figure.add_subplot()
    handles = [_draw_group(axes, group, index) for index, group in enumerate(groups)]
    _draw_published(axes, task)
    low, high = axes.get_ylim()
    axes.set_ylim(0 if axes.dataLim.y0 >= 0 else low, high)
    axes.set_xlim(0, max((curve.env_step[-1] for curve in singles), default=runs[0].planned_env_steps) or 1)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.set_xlabel("simulator steps")
    averaged = " or ".join(dict.fromkeys(curve.averaged for curve in singles))
    axes.set_ylabel(f"{measure}, {averaged or 'not evaluated yet'}")
    figure.suptitle(_short(task), x=0.02, ha="left", fontsize=10, fontweight="bold")
    labels = [f"{_short(group.label)} ({group.curve.averaged})" for group in groups]
    meaning = "line: mean; shaded: lowest to highest"
    look = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "alignment": "left"}
    figure.legend(handles, labels, title=meaning, loc="outside lower left", **look)


def _draw_group(axes: Axes, group: Group, index: int) -> Line2D:
    colour, curve = SERIES[index % len(SERIES)], group.curve
    if len(group.runs) > 1:
        for run in group.runs:
            single = run_curve(run, group.measure)
            axes.plot(single.env_step, single.mean, color=colour, linewidth=0.5, alpha=0.5)
    axes.fill_between(curve.env_step, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    (line,) = axes.plot(
        curve.env_step,
        curve.mean,
        color=colour,
        linestyle=DASHES[index % len(DASHES)],
        linewidth=1.6,
        marker=MARKERS[index % len(MARKERS)],
        markersize=4,
        markeredgecolor=THEME["card"],
        markeredgewidth=0.6,
        clip_on=False,
        markevery=max(1, len(curve) // 12),
    )
    return line


def _draw_published(axes: Axes, task: str) -> None:
    published = published_score(task)
    if published is None:
        return
    low, high = axes.get_ylim()
    room = 0.1 * (max(high, published.high) - low)  # for the words above the line
    axes.set_ylim(low, max(high, published.high + room))
    axes.axhspan(published.low, published.high, color=THEME["muted"], alpha=0.15, linewidth=0)
    axes.axhline(published.mean, color=THEME["muted"], linewidth=0.9, linestyle=(0, (4, 2)))
    # At the left, where curves are still low.
    axes.annotate(
        f"SimbaV2 paper, 1M steps: {published.mean:,g}",
        (0, published.high),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=8,
        color=THEME["muted"],
    )


def printable(name: str) -> str:
    """A name from outside, fit to be shown: one line, without control characters or halves of characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= 50 else f"{shown[:49]}…"
