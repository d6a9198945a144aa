"""The paper's figures from our runs, with the published values where there are any.

Methods are compared on tasks that all of them have; a figure says how many, and is left out where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simbav2.config import presets
from simbav2.envs.tasks import SUITES, TASKS
from simbav2.experiments.compute import count_compute
from simbav2.experiments.report import plots, statistics
from simbav2.experiments.report.curves import costs
from simbav2.experiments.report.methods import scaling_families
from simbav2.experiments.report.plots import THEME, Drawn
from simbav2.experiments.report.published import UTD, method_names, normalized_mean, task_scores
from simbav2.experiments.report.runs import Metric, RunRecord
from simbav2.experiments.report.scores import Method, suite_curve, suite_of, suite_tasks, suite_title
from simbav2.experiments.report.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

UTD_FIELD = "updates_per_decision"
SCORE = "mean normalised score"
TRAINING = "training compute of a run (FLOP)"


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
    weights: float = math.nan  # of the critics


def common_tasks(found: Sequence[Method]) -> tuple[dict[int, Method], tuple[str, ...]]:
    """Methods, by their place among all, and the tasks that all of them have: as much as can be compared."""
    best: tuple[dict[int, Method], tuple[str, ...]] = ({}, ())
    for method in (each for each in found if each.runs):
        ids = method.covered(suite_tasks("all"))
        able = {index: other for index, other in enumerate(found) if ids and other.covered(ids) == ids}
        if len(able) * len(ids) > len(best[0]) * len(best[1]):
            best = able, ids
    return best


def our_point(method: Method, ids: Sequence[str]) -> Point | None:
    values = method.scores(ids)
    runs = [run for run in method.runs if run.task in ids and run.summary is not None]
    computed = [run.compute for run in runs if run.compute is not None]
    if not computed:
        return None
    utd = {run.config.updates_per_decision for run in runs}
    return Point(
        label=method.label,
        note=f"{utd.pop():g}" if len(utd) == 1 and None not in utd else "",
        score=float(statistics.mean(values)),
        **statistics.bootstrap_interval(values, statistics.mean)._asdict(),
        training=_mean([run.training_compute for run in runs]),
        action=_mean([compute.action for compute in computed]),
        hours=_mean([run.fact("seconds") for run in runs]) / 3600,
        milliseconds=_mean([run.fact("seconds_per_action") for run in runs]) * 1000,
        weights=_mean([compute.critic_weights for compute in computed]),
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def published_points(ids: Sequence[str]) -> dict[str, list[Point]]:
    """SimbaV2 at four rates of updates and Simba at two, where the paper has all of the tasks."""
    wanted = [("SimbaV2", utd, task_scores("utd", variant=utd), presets.simbav2) for utd in UTD]
    wanted.append(("Simba", "2", task_scores("full", "Simba"), presets.simba))
    points: dict[str, list[Point]] = {}
    for method, utd, values, preset in wanted:
        score = normalized_mean(values, ids)
        if math.isnan(score):
            continue
        training, action = [], []
        for task in (TASKS[each] for each in ids):
            config = replace(preset, updates_per_decision=float(utd)).resolve(task)
            compute = count_compute(config, task.observation_size, task.action_size)
            training.append(compute.update * config.updates)
            action.append(compute.action)
        label = f"{method} (paper)"
        point = Point(label, utd, score, math.nan, math.nan, _mean(training), _mean(action))
        points.setdefault(label, []).append(point)
    return points


# Parts of the figures -----------------------------------------------------------------------------------------


def cost_axis(axes: Axes, label: str, costs: Sequence[float]) -> None:
    """A logarithmic axis of cost, with room around a single point too."""
    known = [cost for cost in costs if math.isfinite(cost) and cost > 0]
    axes.set_xscale("log")
    if known:
        low, high = min(known), max(known)
        room = max(1.2, (high / low) ** 0.12)
        axes.set_xlim(low / room, high * room)
        plots.log_axis(axes.xaxis, low / room, high * room)
    axes.set_xlabel(label)
    axes.margins(y=0.14)


def draw_point(axes: Axes, index: int, x: float, point: Point) -> Line2D:
    plots.draw_interval(axes, x, point.low, point.high, index)
    (line,) = axes.plot([x], [point.score], **{**plots.line_style(index), "linestyle": "none", "markersize": 6})
    return line


def annotate(axes: Axes, text: str, x: float, y: float) -> None:
    """On the side of the point where there is room: call it when the axis of cost is set."""
    middle, _ = axes.transAxes.transform((0.5, 0))
    place, _ = axes.transData.transform((x, y))
    axes.annotate(
        text,
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


# Figure 1: compute and performance ----------------------------------------------------------------------------


def draw_compute(found: Sequence[Method], folder: Path) -> Drawn | None:
    places, ids = common_tasks(found)
    points = {index: our_point(method, ids) for index, method in places.items()}
    ours = {index: point for index, point in points.items() if point is not None}
    if not ours:
        return None
    timed = any(math.isfinite(point.hours) for point in ours.values())
    published = published_points(ids)
    many = 2 if timed else 1
    figure, (row,) = plots.panels(
        1, many, plots.PAGE if timed else plots.COLUMN, 1.9, len(ours) + len(published), many, True, sharey=True
    )
    every = [*ours.values(), *(point for each in published.values() for point in each)]
    cost_axis(row[0], TRAINING, [point.training for point in every])
    lines: dict[str, Line2D] = {}
    for (label, each), dash in zip(published.items(), ("-", "--"), strict=False):
        x, y = [point.training for point in each], [point.score for point in each]
        grey = {"color": THEME["muted"], "linewidth": 1, "marker": "*", "markersize": 6}
        (lines[label],) = row[0].plot(x, y, linestyle=dash, **grey)
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
    plots.legend(figure, lines, "small numbers: updates per decision", columns=many)
    return Drawn(
        "compute",
        "Compute and performance (figure 1)",
        f"Mean normalised score {on(ids)} against the compute of training one run, counted from the config,"
        " and against measured time. Bars: 95 % interval by the stratified bootstrap. Grey stars: the values of"
        f" the paper on the same tasks after 1M steps, their compute counted the same way. {costs(found, ids)}",
        plots.save(figure, folder / "compute"),
    )


# Figure 2: suites side by side, then what training and acting cost --------------------------------------------


def draw_summary(found: Sequence[Method], folder: Path) -> Drawn | None:
    places, ids = common_tasks(found)
    if not places:
        return None
    figure, grid = plots.panels(2, 2, plots.PAGE, 1.7, len(places), 2)
    for axes in grid[0]:  # the first row is one wide panel
        axes.remove()
    top = figure.add_subplot(grid[0, 0].get_gridspec()[0, :])
    lines = _draw_bars(top, places, ids)
    points = {index: our_point(method, ids) for index, method in places.items()}
    ours = {index: point for index, point in points.items() if point is not None}
    published = [point for each in published_points(ids).values() for point in each if point.note == "2"]
    training, acting = grid[1]
    timed = bool(ours) and all(math.isfinite(point.milliseconds) for point in ours.values())
    acts = [point.milliseconds if timed else point.action for point in ours.values()]
    acts += [] if timed else [point.action for point in published]
    cost_axis(training, TRAINING, [point.training for point in (*ours.values(), *published)])
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
    plots.legend(figure, lines, columns=2)
    return Drawn(
        "summary",
        "Benchmark summary (figure 2)",
        "(a) Mean normalised score by suite on the tasks that were run (their number in parentheses), beside the"
        " methods that the paper has values for on all of them; bars: 95 % interval by the stratified bootstrap."
        " (b, c) The same score against the cost of training and of acting.",
        plots.save(figure, folder / "summary"),
    )


def _draw_bars(axes: Axes, places: Mapping[int, Method], ids: Sequence[str]) -> dict[str, Line2D]:
    suites = {suite: [task for task in ids if suite_of(task) == suite] for suite in SUITES}
    suites = {suite: own for suite, own in suites.items() if own}
    if len(suites) > 1:
        suites["all"] = list(ids)
    peers = [
        name for name in method_names("full") if not math.isnan(normalized_mean(task_scores("full", name), ids))
    ]
    many = len(places) + len(peers)
    width = 0.85 / many
    lines: dict[str, Line2D] = {}
    for order, (index, method) in enumerate(places.items()):
        bar: dict[str, Any] = {"color": plots.colour(index), "edgecolor": THEME["card"], "linewidth": 0}
        bar["hatch"] = plots.HATCHES[index % len(plots.HATCHES)]
        for place, own in enumerate(suites.values()):
            values = method.scores(own)
            low, high = statistics.bootstrap_interval(values, statistics.mean)
            x = place + (order - (many - 1) / 2) * width
            axes.bar(x, float(statistics.mean(values)), 0.9 * width, **bar)
            if math.isfinite(low):
                axes.plot([x, x], [low, high], color=THEME["ink"], linewidth=0.8)
        (lines[method.label],) = axes.plot([], [], **{**plots.line_style(index), "linestyle": "none"})
    upright: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 5.5}
    for order, name in enumerate(peers, start=len(places)):
        for place, own in enumerate(suites.values()):
            x = place + (order - (many - 1) / 2) * width
            score = normalized_mean(task_scores("full", name), own)
            axes.bar(x, score, 0.9 * width, color=THEME["line"], edgecolor=THEME["muted"], linewidth=0.4)
            axes.annotate(name, (x, 0), (0, 2), textcoords="offset points", color=THEME["ink"], **upright)
    labels = [f"{suite_title(suite)} ({len(own)})" for suite, own in suites.items()]
    axes.set_xticks(range(len(suites)), labels)
    axes.set_ylabel(SCORE)
    axes.set_title("(a) performance; grey: the paper's values")
    return lines


# Scaling of width, depth and updates: one panel per suite, one line per family of methods ---------------------

SCALING = {"critic.width": "critic width", "critic.depth": "critic depth", UTD_FIELD: "updates per decision"}


def draw_scaling(found: Sequence[Method], field: str, folder: Path) -> Drawn | None:
    families = scaling_families(found, field)
    shared: dict[str, dict[str, tuple[str, ...]]] = {}  # by suite and family, the tasks that all its methods have
    for suite in SUITES:
        for label, family in families.items():
            ids = suite_tasks(suite)
            for method in family.values():
                ids = method.covered(ids)
            if ids and all(our_point(method, ids) for method in family.values()):
                shared.setdefault(suite, {})[label] = ids
    if not shared:
        return None
    labels = list(families)
    by_updates = field == UTD_FIELD
    width = max(plots.COLUMN, min(plots.PAGE, 2.3 * len(shared)))
    figure, (row,) = plots.panels(1, len(shared), width, 1.7, len(labels) + by_updates, titled=True)
    lines: dict[str, Line2D] = {}
    for axes, (suite, own) in zip(row, shared.items(), strict=True):
        for label, ids in own.items():
            index = labels.index(label)
            x, y = [], []
            for value, method in families[label].items():
                point = our_point(method, ids)
                assert point is not None
                x.append(value if by_updates else point.weights)
                y.append(point.score)
                plots.draw_interval(axes, x[-1], point.low, point.high, index)
                annotate(axes, f"{value:g}", x[-1], y[-1])
            (lines[plots.short(label)],) = axes.plot(x, y, **plots.line_style(index))
        if by_updates:
            means = [normalized_mean(task_scores("utd", variant=utd), next(iter(own.values()))) for utd in UTD]
            (lines["SimbaV2 (paper)"],) = axes.plot(
                list(map(float, UTD)), means, "--*", color=THEME["muted"], linewidth=1
            )
        sizes = sorted({float(each) for line in axes.lines for each in np.asarray(line.get_xdata())})
        cost_axis(axes, SCALING[field] if by_updates else "weights of the critics", sizes)
        if by_updates:
            axes.set_xticks(sizes, [f"{each:g}" for each in sizes])
        axes.set_title(f"{suite_title(suite)}, {on(next(iter(own.values())))[3:]}")
    figure.axes[0].set_ylabel(SCORE)
    plots.legend(figure, lines, f"small numbers: {SCALING[field]}")
    name = {"critic.width": "width", "critic.depth": "depth", UTD_FIELD: "updates"}[field]
    return Drawn(
        f"scaling-{name}",
        f"Scaling of {SCALING[field]}",
        f"Mean normalised score by {SCALING[field]}, for methods that differ in nothing else, on the tasks that"
        " all of them have. Bars: 95 % interval by the stratified bootstrap.",
        plots.save(figure, folder / f"scaling-{name}"),
    )


# Performance profiles -----------------------------------------------------------------------------------------


def draw_profile(found: Sequence[Method], folder: Path) -> Drawn | None:
    places, ids = common_tasks(found)
    if not places:
        return None
    scores = {index: method.scores(ids) for index, method in places.items()}
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
