"""Figure 2: suites side by side, then what training and acting cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.figures.points import (
    SCORE,
    annotate,
    common_ground,
    cost_axis,
    draw_point,
    our_point,
    published_points,
)
from simbav2.experiments.report.paper_tables.suites import TITLES, normalized_mean, spanned
from simbav2.experiments.report.plots import (
    HATCHES,
    PAGE,
    SERIES,
    THEME,
    Drawn,
    legend,
    look,
    panels,
    save,
)
from simbav2.experiments.report.published import methods, task_scores
from simbav2.experiments.report.scores import Method, known_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def draw_summary(found: Sequence[Method], folder: Path) -> Drawn | None:
    """Figure 2: suites side by side, then what training and acting cost."""
    able, ids = common_ground(found)
    places = {index: method for index, method in enumerate(found) if method in able}
    if not places:
        return None
    suites = {suite: [task for task in ids if known_tasks()[task].suite == suite] for suite in SUITES}
    suites = {suite: own for suite, own in suites.items() if own}
    if len(spanned(ids)) > 1:
        suites["all"] = list(ids)
    peers = [name for name in methods("full") if not math.isnan(normalized_mean(task_scores("full", name), ids))]
    figure, grid = panels(2, 2, PAGE, 1.7, len(places), 2)
    for axes in grid[0]:  # the first row is one wide panel
        axes.remove()
    top = figure.add_subplot(grid[0, 0].get_gridspec()[0, :])
    lines = _draw_bars(top, places, suites, peers)
    points = {index: our_point(method, ids) for index, method in places.items()}
    ours = {index: point for index, point in points.items() if point is not None}
    published = [point for each in published_points(ids).values() for point in each if point.note == "2"]
    training, acting = grid[1]
    timed = bool(ours) and all(math.isfinite(point.milliseconds) for point in ours.values())
    acts = [point.milliseconds if timed else point.action for point in ours.values()]
    acts += [] if timed else [point.action for point in published]
    cost_axis(
        training, "training compute of a run (FLOP)", [point.training for point in (*ours.values(), *published)]
    )
    cost_axis(acting, "time of one action (ms)" if timed else "compute of one action (FLOP)", acts)
    for index, point in ours.items():
        draw_point(training, index, point.training, point)
        draw_point(acting, index, point.milliseconds if timed else point.action, point)
    for point in published:
        for axes, x in ((training, point.training), (acting, point.action)):
            if axes is training or not timed:
                axes.plot([x], [point.score], "*", color=THEME["muted"], markersize=6)
                annotate(axes, point.label, x, point.score)
    training.set_ylabel(SCORE)
    training.set_title("(b) training")
    acting.set_title("(c) inference")
    legend(figure, lines, columns=2)
    return Drawn(
        "summary",
        "Benchmark summary (figure 2)",
        "(a) Mean normalised score by suite on the tasks that were run (their number in parentheses), beside the"
        " methods that the paper has values for on all of them; bars: 95 % interval by the stratified bootstrap."
        " (b, c) The same score against the cost of training and of acting.",
        save(figure, folder / "summary"),
    )


def _draw_bars(
    axes: Axes, places: Mapping[int, Method], suites: Mapping[str, Sequence[str]], peers: Sequence[str]
) -> dict[str, Line2D]:
    many = len(places) + len(peers)
    width = 0.85 / many
    lines: dict[str, Line2D] = {}
    for order, (index, method) in enumerate(places.items()):
        for place, ids in enumerate(suites.values()):
            values = method.scores(ids, holes=True).values
            score = float(statistics.mean(values))
            low, high = statistics.bootstrap_interval(values, statistics.mean, np.random.default_rng(0))
            x = place + (order - (many - 1) / 2) * width
            axes.bar(
                x,
                score,
                0.9 * width,
                color=SERIES[index % len(SERIES)],
                hatch=HATCHES[index % len(HATCHES)],
                edgecolor=THEME["card"],
                linewidth=0,
            )
            if math.isfinite(low):
                axes.plot([x, x], [low, high], color=THEME["ink"], linewidth=0.8)
        (lines[method.label],) = axes.plot([], [], **{**look(index), "linestyle": "none"})
    for order, name in enumerate(peers, start=len(places)):
        for place, ids in enumerate(suites.values()):
            x = place + (order - (many - 1) / 2) * width
            score = normalized_mean(task_scores("full", name), ids)
            axes.bar(x, score, 0.9 * width, color=THEME["line"], edgecolor=THEME["muted"], linewidth=0.4)
            words: dict[str, Any] = {
                "rotation": 90,
                "ha": "center",
                "va": "bottom",
                "fontsize": 5.5,
                "color": THEME["ink"],
            }
            axes.annotate(name, (x, 0), (0, 2), textcoords="offset points", **words)
    labels = [f"{TITLES[suite]} ({len(ids)})" for suite, ids in suites.items()]
    axes.set_xticks(range(len(suites)), labels)
    axes.set_ylabel(SCORE)
    axes.set_title("(a) performance; grey: the paper's values")
    return lines
