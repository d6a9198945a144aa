"""Figure 1: what compute buys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simbav2.experiments.report.figures.points import (
    SCORE,
    annotate,
    common_ground,
    cost_axis,
    draw_point,
    on,
    our_point,
    published_points,
)
from simbav2.experiments.report.plots import (
    COLUMN,
    PAGE,
    THEME,
    Drawn,
    legend,
    panels,
    save,
)
from simbav2.experiments.report.scores import Method

if TYPE_CHECKING:
    from matplotlib.lines import Line2D


def draw_compute(found: Sequence[Method], folder: Path) -> Drawn | None:
    """Figure 1: what compute buys."""
    able, ids = common_ground(found)
    points = {index: our_point(method, ids) for index, method in enumerate(found) if method in able}
    ours = {index: point for index, point in points.items() if point is not None}
    if not ours:
        return None
    timed = any(math.isfinite(point.hours) for point in ours.values())
    published = published_points(ids)
    many = 2 if timed else 1
    figure, (row,) = panels(
        1, many, PAGE if timed else COLUMN, 1.9, len(ours) + len(published), many, True, sharey=True
    )
    every = [*ours.values(), *(point for each in published.values() for point in each)]
    cost_axis(row[0], "training compute of a run (FLOP)", [point.training for point in every])
    lines: dict[str, Line2D] = {}
    for (label, each), dash in zip(published.items(), ("-", "--"), strict=False):
        x, y = [point.training for point in each], [point.score for point in each]
        colour = THEME["muted"]
        (lines[label],) = row[0].plot(x, y, linestyle=dash, marker="*", markersize=6, color=colour, linewidth=1)
        for point in each:
            annotate(row[0], point.note, point.training, point.score)
    for index, point in ours.items():
        lines[point.label] = draw_point(row[0], index, point.training, point)
        annotate(row[0], point.note, point.training, point.score)
        if timed:
            draw_point(row[1], index, point.hours, point)
    row[0].set_ylabel(SCORE)
    row[0].set_title(on(ids))
    if timed:
        cost_axis(row[1], "measured time of a run (hours)", [point.hours for point in ours.values()])
        row[1].set_title("on the machine of each run")
    legend(figure, lines, "small numbers: updates per decision", columns=many)
    return Drawn(
        "compute",
        "Compute and performance (figure 1)",
        f"Mean normalised score {on(ids)} against the compute of training one run, counted from the config,"
        " and against measured time. Bars: 95 % interval by the stratified bootstrap. Grey stars: the values of"
        " the paper on the same tasks after 1M steps, their compute counted the same way.",
        save(figure, folder / "compute"),
    )
