"""Methods as points in the plane of cost and score, on tasks that all of them have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simbav2.experiments.report import statistics
from simbav2.experiments.report.compute import Compute, published_compute, training_compute
from simbav2.experiments.report.paper_tables.suites import normalized_mean, suite_tasks
from simbav2.experiments.report.plots import (
    SERIES,
    THEME,
    log_axis,
    look,
)
from simbav2.experiments.report.published import UTD, task_scores
from simbav2.experiments.report.runs import Run
from simbav2.experiments.report.scores import Method, known_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


UTD_FIELD = "updates_per_decision"
SCORE = "mean normalised score"


class Point(NamedTuple):
    """A method in the plane of cost and score; means over tasks."""

    label: str
    note: str  # set in small grey letters: updates per decision
    score: float
    low: float
    high: float
    training: float  # floating-point operations
    action: float  # floating-point operations
    hours: float = math.nan
    milliseconds: float = math.nan  # of one action


def run_compute(run: Run) -> Compute | None:
    """None where the sizes of its environment are not known."""
    updates = (run.summary or {}).get("updates")
    try:
        sizes = run.environment["observation_size"], run.environment["action_size"]
        return training_compute(run.config, *sizes, updates)
    except (KeyError, TypeError, AttributeError):  # a config of another time
        return None


def common_ground(found: Sequence[Method]) -> tuple[tuple[Method, ...], tuple[str, ...]]:
    """The methods and the tasks they all have, so that as much as possible can be compared."""
    best: tuple[tuple[Method, ...], tuple[str, ...]] = ((), ())
    for method in (each for each in found if each.runs):
        ids = method.covered(suite_tasks("all"))
        able = tuple(other for other in found if ids and other.covered(ids) == ids)
        if len(able) * len(ids) > len(best[0]) * len(best[1]):
            best = able, ids
    return best


def our_point(method: Method, ids: Sequence[str]) -> Point | None:
    values = method.scores(ids, holes=True).values
    low, high = statistics.bootstrap_interval(values, statistics.mean, np.random.default_rng(0))
    runs = [run for run in method.runs if run.task in ids and run.summary is not None]
    computed = [compute for compute in map(run_compute, runs) if compute is not None]
    if not computed:
        return None
    utd = {run.config.get(UTD_FIELD) for run in runs}
    return Point(
        label=method.label,
        note=f"{utd.pop():g}" if len(utd) == 1 and None not in utd else "",
        score=float(statistics.mean(values)),
        low=low,
        high=high,
        training=float(np.mean([compute.training for compute in computed])),
        action=float(np.mean([compute.action for compute in computed])),
        hours=_mean_of(runs, "seconds") / 3600,
        milliseconds=_mean_of(runs, "seconds_per_action") * 1000,
    )


def _mean_of(runs: Sequence[Run], name: str) -> float:
    values = [(run.summary or {}).get(name) for run in runs]
    numbers = [value for value in values if isinstance(value, int | float)]
    return float(np.mean(numbers)) if numbers else math.nan


def published_point(method: str, utd: str, ids: Sequence[str]) -> Point | None:
    """SimbaV2 at a rate of updates, or Simba at two; None where the paper lacks one of the tasks."""
    if method == "SimbaV2":
        values, kind = task_scores("utd", variant=utd), "hyperspherical"
    else:
        values, kind = task_scores("full", method), "prelayernorm"
    score = normalized_mean(values, ids)
    if math.isnan(score):
        return None
    computed = [published_compute(known_tasks()[task], float(utd), kind) for task in ids]
    training, action = (
        float(np.mean([getattr(each, name) for each in computed])) for name in ("training", "action")
    )
    return Point(f"{method} (paper)", utd, score, math.nan, math.nan, training, action)


def published_points(ids: Sequence[str]) -> dict[str, list[Point]]:
    wanted = [("SimbaV2", utd) for utd in UTD] + [("Simba", "2")]
    points: dict[str, list[Point]] = {}
    for method, utd in wanted:
        point = published_point(method, utd, ids)
        if point is not None:
            points.setdefault(point.label, []).append(point)
    return points


def cost_axis(axes: Axes, label: str, costs: Sequence[float]) -> None:
    """A logarithmic axis of cost, with room around a single point too."""
    known = [cost for cost in costs if math.isfinite(cost) and cost > 0]
    axes.set_xscale("log")
    if known:
        low, high = min(known), max(known)
        room = max(1.2, (high / low) ** 0.12)
        axes.set_xlim(low / room, high * room)
        log_axis(axes.xaxis, low / room, high * room)
    axes.set_xlabel(label)
    axes.margins(y=0.14)


def draw_point(axes: Axes, index: int, x: float, point: Point) -> Line2D:
    if math.isfinite(point.low):
        axes.plot([x, x], [point.low, point.high], color=SERIES[index % len(SERIES)], linewidth=1)
    (line,) = axes.plot([x], [point.score], **{**look(index), "linestyle": "none", "markersize": 6})
    return line


def annotate(axes: Axes, words: str, x: float, y: float) -> None:
    """On the side of the point where there is room: call it when the axis of cost is set."""
    middle, _ = axes.transAxes.transform((0.5, 0))
    place, _ = axes.transData.transform((x, y))
    axes.annotate(
        words,
        (x, y),
        (4 if place < middle else -4, -2),
        textcoords="offset points",
        ha="left" if place < middle else "right",
        va="top",
        color=THEME["muted"],
        fontsize=6.5,
    )


def on(ids: Sequence[str]) -> str:
    return f"on {len(ids)} task{'s' * (len(ids) != 1)}"
