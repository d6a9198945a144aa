"""Width, depth and update scaling: one panel per suite, one line per family of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.compute import parameters
from simbav2.experiments.report.figures.points import (
    SCORE,
    UTD_FIELD,
    annotate,
    cost_axis,
    on,
    our_point,
    run_compute,
)
from simbav2.experiments.report.paper_tables.scaling import scaling_families
from simbav2.experiments.report.paper_tables.suites import TITLES, normalized_mean, suite_tasks
from simbav2.experiments.report.plots import (
    COLUMN,
    PAGE,
    SERIES,
    THEME,
    Drawn,
    legend,
    look,
    panels,
    save,
    short,
)
from simbav2.experiments.report.published import UTD, task_scores
from simbav2.experiments.report.scores import Method

if TYPE_CHECKING:
    from matplotlib.lines import Line2D


SCALING = {"critic.width": "critic width", "critic.depth": "critic depth", UTD_FIELD: "updates per decision"}


def draw_scaling(found: Sequence[Method], field: str, folder: Path) -> Drawn | None:
    """The figures of width, depth and update scaling: one panel per suite, one line per family of methods."""
    families = {
        label: family
        for label, family in scaling_families(found, field).items()
        if all(run_compute(run) is not None for method in family.values() for run in method.runs)
    }
    parts: dict[str, dict[str, dict[float, tuple[Method, tuple[str, ...]]]]] = {}
    for suite in SUITES:
        for label, family in families.items():
            shared = set.intersection(*(set(method.covered(suite_tasks(suite))) for method in family.values()))
            if shared:
                ids = tuple(task for task in suite_tasks(suite) if task in shared)
                parts.setdefault(suite, {})[label] = {value: (method, ids) for value, method in family.items()}
    if not parts:
        return None
    labels = list(families)
    width = max(COLUMN, min(PAGE, 2.3 * len(parts)))
    figure, (row,) = panels(1, len(parts), width, 1.7, len(labels) + (field == UTD_FIELD), titled=True)
    lines: dict[str, Line2D] = {}
    for axes, (suite, own) in zip(row, parts.items(), strict=True):
        for label, members in own.items():
            index = labels.index(label)
            x, y = [], []
            for value, (method, ids) in members.items():
                point = our_point(method, ids)
                scores = method.scores(ids, holes=True).values
                size = _size(method, ids) if field != UTD_FIELD else value
                x.append(size)
                y.append(float(statistics.mean(scores)))
                if point is not None and math.isfinite(point.low):
                    axes.plot([size] * 2, [point.low, point.high], color=SERIES[index % len(SERIES)], linewidth=1)
                annotate(axes, f"{value:g}", size, y[-1])
            (lines[short(label)],) = axes.plot(x, y, **look(index))
        if field == UTD_FIELD:
            ids = next(iter(next(iter(own.values())).values()))[1]
            means = [normalized_mean(task_scores("utd", variant=utd), ids) for utd in UTD]
            (lines["SimbaV2 (paper)"],) = axes.plot(
                list(map(float, UTD)), means, "--*", color=THEME["muted"], linewidth=1
            )
        sizes = [each for line in axes.lines for each in np.asarray(line.get_xdata(), float)]
        cost_axis(axes, SCALING[field] if field == UTD_FIELD else "parameters of the critic", sizes)
        if field == UTD_FIELD:
            axes.set_xticks(sorted(set(sizes)), [f"{each:g}" for each in sorted(set(sizes))])
        axes.set_title(f"{TITLES[suite]}, {on(ids)[3:]}")
    figure.axes[0].set_ylabel(SCORE)
    legend(figure, lines, f"small numbers: {SCALING[field]}")
    name = {"critic.width": "width", "critic.depth": "depth", UTD_FIELD: "updates"}[field]
    return Drawn(
        f"scaling-{name}",
        f"Scaling of {SCALING[field]}",
        f"Mean normalised score by {SCALING[field]}, for methods that differ in nothing else, on the tasks that"
        " all of them have. Bars: 95 % interval by the stratified bootstrap.",
        save(figure, folder / f"scaling-{name}"),
    )


def _size(method: Method, ids: Sequence[str]) -> float:
    """Weights of the critics, the mean over tasks."""
    counts = [
        parameters(
            run.config["critic"],
            run.environment["observation_size"] + run.environment["action_size"],
            [run.config.get("value", {}).get("atoms", 1)],
        )
        for run in method.runs
        if run.task in ids
    ]
    return float(np.mean(counts))
