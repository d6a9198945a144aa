"""Figure 4: the score and the four measures of the critic, encoder and predictor apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.paper_tables.suites import TITLES
from simbav2.experiments.report.plots import (
    PAGE,
    SERIES,
    THEME,
    Drawn,
    legend,
    log_axis,
    look,
    panels,
    save,
    steps_axis,
)
from simbav2.experiments.report.runs import Measure, Run
from simbav2.experiments.report.scores import Method, known_tasks, suite_curve
from simbav2.experiments.report.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


MEASURES = {
    "feature_norm": "feature norm",
    "parameter_norm": "parameter norm",
    "gradient_norm": "gradient norm",
    "effective_learning_rate": "effective lr",
}
PARTS = {"encoder": "-", "predictor": (0, (2, 1.2))}


def draw_measures(found: Sequence[Method], folder: Path) -> Drawn | None:
    """Figure 4: the score and the four measures of the critic, encoder and predictor apart."""
    places = {index: method for index, method in enumerate(found) if _measured(method, list(SUITES))}
    suites = [suite for suite in SUITES if any(_measured(method, [suite]) for method in places.values())]
    if not suites:
        return None
    figure, grid = panels(len(suites), 5, PAGE, 0.95, len(places) + len(PARTS), 2, titled=True)
    lines: dict[str, Line2D] = {}
    for suite, row in zip(suites, grid, strict=True):
        for index, method in places.items():
            runs = _measured(method, [suite])
            curve = suite_curve(method, [task for task in method.trials if _suite(task) == suite])
            if not runs or curve is None:
                continue
            colour = SERIES[index % len(SERIES)]
            row[0].fill_between(curve.env_step, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
            (lines[method.label],) = row[0].plot(curve.env_step, curve.mean, **_line(index, "-", len(curve)))
            for axes, name in zip(row[1:], MEASURES, strict=True):
                for part, dash in PARTS.items():
                    _draw_measure(axes, [run.measures.get(f"critic/{part}/{name}") for run in runs], index, dash)
        row[0].set_ylabel(TITLES[suite])
        for axes, title in zip(row, ("normalised score", *MEASURES.values()), strict=True):
            axes.set_title(title, fontsize=7)
            axes.tick_params(labelsize=6)
            steps_axis(axes)
        for axes in row[1:]:
            axes.set_yscale("log")
            log_axis(axes.yaxis, *axes.get_ylim())
    for part, dash in PARTS.items():
        (lines[f"{part} of the critic"],) = grid[0, 0].plot(
            [], [], color=THEME["ink"], linestyle=dash, linewidth=1
        )
    legend(figure, lines, "over simulator steps; shaded: 95 % interval over runs", columns=2)
    return Drawn(
        "measures",
        "Training measures (figure 4)",
        "The score and four measures of the critic over training, weighted over layers by their share of the"
        " parameters: norms of features, parameters and gradients, and the effective learning rate. Solid:"
        " encoder; dotted: predictor. Shaded: 95 % interval over runs.",
        save(figure, folder / "measures"),
    )


def _suite(task: str) -> str | None:
    return known_tasks()[task].suite if task in known_tasks() else None


def _measured(method: Method, suites: Sequence[str]) -> list[Run]:
    return [
        run for run in method.runs if _suite(run.task) in suites and "critic/encoder/feature_norm" in run.measures
    ]


def _draw_measure(axes: Axes, measures: Sequence[Measure | None], index: int, dash: object) -> None:
    """The mean over runs, where all of them were measured."""
    known = [measure for measure in measures if measure is not None and len(measure.value)]
    if not known:
        return
    low, high = (max(each.env_step[0] for each in known), min(each.env_step[-1] for each in known))
    steps: Floats = np.linspace(low, high, 40)
    values = np.array([np.interp(steps, each.env_step, each.value) for each in known])
    if len(known) > 1:
        band = statistics.bootstrap_band([values], np.random.default_rng(0), samples=300)
        axes.fill_between(steps, *band, color=SERIES[index % len(SERIES)], alpha=0.18, linewidth=0)
    axes.plot(steps, values.mean(0), **_line(index, dash, len(steps)))


def _line(index: int, dash: object, points: int) -> dict[str, Any]:
    """Dashes tell the parts of the critic apart here, so markers must do for the methods."""
    return {**look(index), "linestyle": dash, "linewidth": 1.2, "markevery": max(1, points // 4)}
