"""The paper's figures from our runs, with the published values where there are any.

Methods are compared on tasks that all of them have; a figure says how many, and is left out where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import plots, statistics
from simbav2.experiments.report.cost_figures import (
    SCALING,
    common_tasks,
    draw_compute,
    draw_scaling,
    draw_summary,
    on,
)
from simbav2.experiments.report.plots import THEME, Drawn
from simbav2.experiments.report.runs import Metric, RunRecord
from simbav2.experiments.report.scores import Method, suite_curve, suite_of, suite_title
from simbav2.experiments.report.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def draw_all(found: Sequence[Method], folder: Path) -> tuple[Drawn, ...]:
    """Draw the figures there are runs for into `folder`."""
    with plots.style():
        drawn = [
            draw_compute(found, folder),
            draw_summary(found, folder),
            draw_profile(found, folder),
            draw_diagnostics(found, folder),
            *(draw_scaling(found, field, folder) for field in SCALING),
        ]
    return tuple(figure for figure in drawn if figure is not None)


# Performance profiles -----------------------------------------------------------------------------------------


def draw_profile(found: Sequence[Method], folder: Path) -> Drawn | None:
    places, ids = common_tasks(found)
    if not places:
        return None
    scores = {index: method.scores(ids, holes=True).values for index, method in places.items()}
    top = max(1.0, max(float(np.nanmax(values)) for values in scores.values()))
    thresholds = np.linspace(0, 1.05 * top, 120)
    figure, ((axes,),) = plots.panels(1, 1, plots.COLUMN, 1.8, len(places))
    lines = {}
    for index, values in scores.items():
        if len(values) > 1:
            plots.draw_band(axes, thresholds, *statistics.bootstrap_profile(values, thresholds), index)
        profile = statistics.performance_profile(values, thresholds)
        (lines[places[index].label],) = axes.plot(thresholds, profile, markevery=15, **plots.line_style(index))
    axes.set_xlabel("normalised score τ")
    axes.set_ylabel("share of runs above τ")
    axes.set_title(on(ids))
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, thresholds[-1])
    plots.legend(figure, lines)
    return Drawn(
        "profile",
        "Performance profiles",
        f"The share of all runs {on(ids)} that score more than τ; shaded: 95 % interval by the stratified"
        " bootstrap. A curve that is higher everywhere belongs to the better method.",
        plots.save(figure, folder / "profile"),
    )


# Figure 4: training diagnostics -------------------------------------------------------------------------------

DIAGNOSTICS = {
    "feature_norm": "feature norm",
    "parameter_norm": "parameter norm",
    "gradient_norm": "gradient norm",
    "effective_learning_rate": "effective lr",
}
PARTS = {"encoder": "-", "predictor": (0, (2, 1.2))}


def draw_diagnostics(found: Sequence[Method], folder: Path) -> Drawn | None:
    """The score and four diagnostics of the critic, encoder and predictor apart."""
    places = {index: method for index, method in enumerate(found) if _diagnosed(method, list(SUITES))}
    suites = [suite for suite in SUITES if any(_diagnosed(method, [suite]) for method in places.values())]
    if not suites:
        return None
    figure, grid = plots.panels(len(suites), 5, plots.PAGE, 0.95, len(places) + len(PARTS), 2, titled=True)
    lines: dict[str, Line2D] = {}
    for suite, row in zip(suites, grid, strict=True):
        for index, method in places.items():
            runs = _diagnosed(method, [suite])
            curve = suite_curve(method, [task for task in method.trials if suite_of(task) == suite])
            if not runs or curve is None:
                continue
            plots.draw_band(row[0], curve.env_step, curve.low, curve.high, index)
            (lines[method.label],) = row[0].plot(curve.env_step, curve.mean, **_line(index, "-", len(curve)))
            for axes, name in zip(row[1:], DIAGNOSTICS, strict=True):
                for part, dash in PARTS.items():
                    _draw_metric(axes, [run.metrics.get(f"critic/{part}/{name}") for run in runs], index, dash)
        row[0].set_ylabel(suite_title(suite))
        for axes, title in zip(row, ("normalised score", *DIAGNOSTICS.values()), strict=True):
            axes.set_title(title, fontsize=7)
            axes.tick_params(labelsize=6)
            plots.steps_axis(axes)
        for axes in row[1:]:
            axes.set_yscale("log")
            plots.log_axis(axes.yaxis, *axes.get_ylim())
    for part, dash in PARTS.items():
        drawn = grid[0, 0].plot([], [], color=THEME["ink"], linestyle=dash, linewidth=1)
        (lines[f"{part} of the critic"],) = drawn
    plots.legend(figure, lines, "over simulator steps; shaded: 95 % interval over runs", columns=2)
    return Drawn(
        "diagnostics",
        "Training diagnostics (figure 4)",
        "The score and four diagnostics of the critic over training, weighted over layers by their share of the"
        " parameters: norms of features, parameters and gradients, and the effective learning rate. Solid:"
        " encoder; dotted: predictor. Shaded: 95 % interval over runs.",
        plots.save(figure, folder / "diagnostics"),
    )


def _diagnosed(method: Method, suites: Sequence[str]) -> list[RunRecord]:
    return [
        run for run in method.runs if suite_of(run.task) in suites and "critic/encoder/feature_norm" in run.metrics
    ]


def _draw_metric(axes: Axes, metrics: Sequence[Metric | None], index: int, dash: object) -> None:
    """The mean over runs, at the steps that all of them reached."""
    known = [metric for metric in metrics if metric is not None and len(metric.value)]
    if not known:
        return
    low, high = (max(each.env_step[0] for each in known), min(each.env_step[-1] for each in known))
    steps: Floats = np.linspace(low, high, 40)
    values = np.array([np.interp(steps, each.env_step, each.value) for each in known])
    if len(known) > 1:
        plots.draw_band(axes, steps, *statistics.bootstrap_band([values], samples=300), index)
    axes.plot(steps, values.mean(0), **_line(index, dash, len(steps)))


def _line(index: int, dash: object, points: int) -> dict[str, Any]:
    """Dashes tell the parts of the critic apart here, and markers the methods."""
    return {**plots.line_style(index), "linestyle": dash, "linewidth": 1.2, "markevery": max(1, points // 4)}
