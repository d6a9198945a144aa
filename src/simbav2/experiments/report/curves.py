"""Learning curves: one figure for the tasks of a suite, and one for every other task.

Every curve is drawn once. The page shows these figures; its script adds the values under the pointer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import plots
from simbav2.experiments.report.plots import THEME, Drawn
from simbav2.experiments.report.published import Published, published_score
from simbav2.experiments.report.scores import (
    Curve,
    Method,
    Trial,
    in_order,
    mean_curve,
    metric,
    step_unit,
    suite_curve,
    suite_of,
    suite_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

BAND = "shaded: 95 % interval over seeds (of one seed: its episodes)"


class Panel(NamedTuple):
    title: str
    score: str  # what the y axis shows
    steps: str  # what the x axis shows
    curves: Mapping[int, Curve]  # by the place of the method among all
    seeds: Mapping[int, Sequence[Trial]]
    published: Published | None


class Place(NamedTuple):
    """Where a panel is in its figure, in fractions of the figure from its upper left corner."""

    left: float
    top: float
    width: float
    height: float
    last_step: float  # at the right end of the x axis


class CurveFigure(NamedTuple):
    suite: str  # its title
    drawn: Drawn
    panels: tuple[tuple[Panel, Place], ...]


def draw_learning_curves(found: Sequence[Method], folder: Path) -> tuple[CurveFigure, ...]:
    groups: dict[str, list[str]] = {}  # the tasks of each figure
    titles: dict[str, str] = {}
    for suite, ids in _by_suite(found).items():
        names = {f"curves-{suite}": ids} if suite in SUITES and len(ids) > 1 else _names(ids)
        groups |= names
        titles |= dict.fromkeys(names, suite_title(suite))
    made = []
    for name, ids in groups.items():
        shown = [*(mean_panel(ids, found) if len(ids) > 1 else ()), *(task_panel(task, found) for task in ids)]
        title = ids[0] if len(ids) == 1 else f"{titles[name]}, {len(ids)} tasks"
        svg, places = draw_curves(shown, [method.label for method in found], folder / name)
        drawn = Drawn(name, title, f"Over {shown[-1].steps}. {costs(found, ids)}".strip(), svg)
        made.append(CurveFigure(titles[name], drawn, tuple(zip(shown, places, strict=True))))
    return tuple(made)


def costs(found: Sequence[Method], ids: Iterable[str]) -> str:
    """For a caption: what an update of each method on these tasks costs, and how fast it was."""
    own = {each.label: each.on(ids).cost for each in found}
    return " ".join(f"{label}: {cost}." for label, cost in own.items() if cost)


def _by_suite(found: Sequence[Method]) -> dict[str, list[str]]:
    """All tasks under their suite, those of no suite under `other`."""
    suites: dict[str, list[str]] = {}
    for task in in_order(task for method in found for task in method.trials):
        suites.setdefault(suite_of(task) or "other", []).append(task)
    return suites


def _names(ids: Iterable[str]) -> dict[str, list[str]]:
    """A file name for each task: harmless, and different even where the tasks' names are alike."""
    names: dict[str, list[str]] = {}
    for task in ids:
        stem = "curve-" + (re.sub(r"[^A-Za-z0-9._]+", "-", task).strip("-.")[:80] or "task")
        tries = [stem, *(f"{stem}-{number}" for number in range(2, len(names) + 3))]
        taken = {name.lower() for name in names}
        names[next(each for each in tries if each.lower() not in taken)] = [task]
    return names


def task_panel(task: str, found: Sequence[Method]) -> Panel:
    trials = {index: method.trials[task] for index, method in enumerate(found) if task in method.trials}
    curves = {index: mean_curve(each) for index, each in trials.items()}
    return Panel(task, metric(task), step_unit(chain(*trials.values())), curves, trials, published_score(task))


def mean_panel(ids: Sequence[str], found: Sequence[Method]) -> Iterator[Panel]:
    """The mean over tasks of the methods that have all of them, where there is such a method."""
    means = {index: suite_curve(method, ids) for index, method in enumerate(found)}
    curves = {index: curve for index, curve in means.items() if curve is not None}
    if curves:
        yield Panel(f"mean of {len(ids)} tasks", "normalised score", "simulator steps", curves, {}, None)


def draw_curves(shown: Sequence[Panel], labels: Sequence[str], stem: Path) -> tuple[str, list[Place]]:
    """Write `stem`.png and `stem`.svg; return the SVG and where its panels are."""
    alone = len(shown) == 1
    across = min(3, len(shown))
    methods = sorted({index for panel in shown for index in panel.curves})
    with plots.style():
        size = (4.8, 2.4) if alone else (plots.PAGE, 1.1)
        columns = 1 if alone else 2
        figure, grid = plots.panels(-(-len(shown) // across), across, *size, len(methods), columns, titled=True)
        lines: dict[int, Line2D] = {}
        for number, (axes, panel) in enumerate(zip(grid.flat, shown, strict=False)):
            lines |= _draw_panel(axes, panel, number, alone)
        for axes in grid.flat[len(shown) :]:
            axes.set_visible(False)
        for axes in grid[:, 1:].flat:
            if axes.get_ylabel() == shown[-1].score:  # the panel at the left says it
                axes.set_ylabel("")
        averaged = {index: f" ({curve.averaged})" if alone else "" for index, curve in shown[0].curves.items()}
        named = {f"{labels[index]}{averaged.get(index, '')}": lines[index] for index in methods}
        title = BAND if alone else f"over {shown[-1].steps}; {BAND}; grey: SimbaV2 in the paper"
        plots.legend(figure, named, title, columns)
        places = []
        for axes, _ in zip(grid.flat, shown, strict=False):
            box = axes.get_position()
            places.append(Place(box.x0, 1 - box.y1, box.width, box.height, float(axes.get_xlim()[1])))
        return plots.save(figure, stem), places


def _draw_panel(axes: Axes, panel: Panel, number: int, alone: bool) -> dict[int, Line2D]:
    lines = {}
    for index, curve in panel.curves.items():
        part = f"panel-{number}-series-{index}-"  # by which the page's script finds what to hide
        trials = panel.seeds.get(index, ())
        for seed, trial in enumerate(trials if len(trials) > 1 else ()):
            (line,) = axes.plot(trial.curve.env_step, trial.curve.mean, color=plots.colour(index), alpha=0.4)
            line.set(linewidth=0.4, gid=f"{part}seed-{seed}")
        plots.draw_band(axes, curve.env_step, curve.low, curve.high, index, f"{part}band")
        often = max(1, len(curve) // 8)
        (lines[index],) = axes.plot(
            curve.env_step,
            curve.mean,
            clip_on=False,
            markevery=often,
            gid=f"{part}mean",
            **plots.line_style(index),
        )
    _draw_published(axes, panel.published, annotated=alone)
    _finish_axes(axes, list(panel.curves.values()))
    evaluated = any(map(len, panel.curves.values()))
    axes.set_ylabel(panel.score if evaluated else f"{panel.score}, not evaluated yet")
    if alone:
        axes.set_xlabel(panel.steps)
        axes.set_title(plots.short(panel.title), fontsize=9, fontweight="bold")
    else:
        axes.set_title(plots.short(panel.title.rpartition("/")[2], 32))
        axes.tick_params(labelsize=6.5)
    return lines


def _finish_axes(axes: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    low, high = axes.get_ylim()
    axes.set_ylim(0 if axes.dataLim.y0 >= 0 else low, high)
    axes.set_xlim(0, max((curve.env_step[-1] for curve in curves if len(curve)), default=1) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    plots.steps_axis(axes)


def _draw_published(axes: Axes, published: Published | None, annotated: bool) -> None:
    if published is None:
        return
    low, high = axes.get_ylim()
    room = 0.1 * (max(high, published.high) - low) if annotated else 0.0
    axes.set_ylim(low, max(high, published.high + room))
    axes.axhspan(published.low, published.high, color=THEME["muted"], alpha=0.15, linewidth=0)
    axes.axhline(published.mean, color=THEME["muted"], linewidth=0.9, linestyle=(0, (4, 2)))
    if annotated:  # at the left, where curves are still low
        axes.annotate(
            f"SimbaV2 paper, 1M steps: {published.mean:,g}",
            (0, published.high),
            xycoords=("axes fraction", "data"),
            xytext=(3, 2),
            textcoords="offset points",
            color=THEME["muted"],
        )
