"""The paper's tables by suite, with our methods beside the published ones, and our methods among themselves.

A table is made only where there are runs for it. `task_tables` has those with one row per task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from simbav2.envs.tasks import SUITES, normalized_score
from simbav2.experiments.report import statistics, task_tables
from simbav2.experiments.report.published import (
    ABLATIONS,
    Published,
    aggregates,
    offline_scores,
    published_mean,
    seeds,
)
from simbav2.experiments.report.scores import COLUMNS, Method, suite_of, suite_tasks, suite_title
from simbav2.experiments.report.statistics import Sample, not_worse
from simbav2.experiments.report.tables import (
    BEST,
    GOOD,
    Cell,
    Row,
    Table,
    change_mark,
    interval_cell,
    number,
    plus_minus,
)

SUITE_HEADINGS = tuple(f"{suite_title(suite)} ({len(suite_tasks(suite))})" for suite in COLUMNS)


def all_tables(methods: Sequence[Method]) -> tuple[Table, ...]:
    made = (
        summary_table(methods),
        improvement_table(methods),
        online_table(methods),
        ablation_table(methods),
        offline_table(methods),
        task_tables.utd_table(methods),
        *(task_tables.suite_table(suite, methods) for suite in SUITES),
        task_tables.other_table(methods),
        task_tables.successors_table(methods),
    )
    return tuple(table for table in made if table is not None)


# Our methods among themselves ---------------------------------------------------------------------------------


def summary_table(methods: Sequence[Method]) -> Table | None:
    """Aggregates with the stratified bootstrap, and what the paper reports for the very same tasks."""
    rows = []
    for suite in COLUMNS:
        for method in methods:
            ids = method.covered(suite_tasks(suite))
            if not ids or (suite == "all" and len(set(map(suite_of, ids))) < 2):
                continue
            values = method.scores(ids, holes=True).values
            counts = np.isfinite(values).sum(0)
            low, high = int(counts.min()), int(counts.max())
            runs = str(low) if low == high else f"{low} to {high}"
            cells = [Cell(str(len(ids)), len(ids)), Cell(runs, values.size)]
            generator = np.random.default_rng(0)
            for statistic in statistics.STATISTICS.values():
                bounds = statistics.bootstrap_interval(values, statistic, generator)
                cells.append(interval_cell(float(statistic(values)), *bounds))
            same = published_mean(ids)
            cells.append(Cell(number(same), same))
            rows.append(Row(method.label, tuple(cells), group=suite_title(suite), ours=bool(method.runs)))
    if not rows:
        return None
    return Table(
        name="summary",
        title="Normalised scores",
        caption="Final normalised scores of finished runs: 0 is a random policy, 1 the reference of the suite. In"
        " brackets the 95 % interval by the stratified bootstrap over runs, where a task has at least two. IQM is"
        " the mean of the middle half of all runs; the optimality gap is how far scores stay below 1.",
        headings=("method", "tasks", "runs per task", *statistics.STATISTICS, "SimbaV2 paper, same tasks"),
        rows=tuple(rows),
    )


def improvement_table(methods: Sequence[Method]) -> Table | None:
    """Every pair that shares a task, on the tasks that it shares."""
    rows = []
    for one, other in combinations(methods, 2):
        ids = one.covered(other.covered(suite_tasks("all")))
        if ids:
            ours, theirs = (method.scores(ids, holes=True).values for method in (one, other))
            value = float(statistics.probability_of_improvement(ours, theirs))
            cell = interval_cell(value, *statistics.bootstrap_improvement(ours, theirs))
            rows.append(Row(one.label, (Cell(other.label), Cell(str(len(ids)), len(ids)), cell)))
    if not rows:
        return None
    return Table(
        name="improvement",
        title="Probability of improvement",
        caption="The probability that a run of the first method scores higher than a run of the second on a task"
        " drawn at random from those that both have; 95 % interval by the stratified bootstrap.",
        headings=("method", "over", "tasks", "probability"),
        rows=tuple(rows),
    )


# Table 1: the best is highlighted, and what is not worse ------------------------------------------------------


def online_table(methods: Sequence[Method]) -> Table | None:
    own = [method for method in methods if method.ablation is None and method.covered(suite_tasks("all"))]
    if not own:
        return None
    rows: list[Row] = []
    for variant, title in {"low": "(a) Low UTD (≤ 2)", "high": "(b) High UTD (≥ 8)"}.items():
        published = aggregates("online", variant)
        ours = [method for method in own if (_utd(method) > 4) == (variant == "high")]
        columns = [
            [_published_entry(name, suite, values.get(suite)) for name, values in published.items()]
            + [suite_cell(method, suite) for method in ours]
            for suite in COLUMNS
        ]
        labels = [(name, False) for name in published] + [(each.label, bool(each.runs)) for each in ours]
        rows += _ranked(labels, columns, title)
    return Table(
        name="online",
        title="Online RL (table 1)",
        caption="Mean normalised score after training, ± the paper's 95 % interval, 1.96 s / √n over all runs of"
        " all tasks; † marks intervals that the paper made from the means of tasks. Bold: the highest of its part."
        " Italic: not statistically worse than the highest (Welch's t-test, two-sided, level 0.05). The test is"
        " ours for all rows, so some highlights differ from the paper's.",
        headings=("method", *SUITE_HEADINGS),
        rows=tuple(rows),
    )


Entry = tuple[Cell, Sample | None]  # a cell without a sample is not ranked


def _ranked(labels: Sequence[tuple[str, bool]], columns: Sequence[Sequence[Entry]], group: str = "") -> list[Row]:
    """Rows by label (and whether it is ours), each column with its highest and what is not worse highlighted."""
    marked = [_highlighted(column) for column in columns]
    return [
        Row(label, tuple(column[index] for column in marked), group, ours)
        for index, (label, ours) in enumerate(labels)
    ]


def _highlighted(column: Sequence[Entry]) -> list[Cell]:
    best = max((sample for _, sample in column if sample), key=lambda sample: sample.mean, default=None)
    cells = []
    for cell, sample in column:
        if sample is not None and best is not None and not_worse(sample, best):
            cell = cell._replace(mark=BEST if sample.mean == best.mean else GOOD)
        cells.append(cell)
    return cells


def _utd(method: Method) -> float:
    """The most updates per decision that it takes on any task; 2, as in the paper, where that is not known."""
    return max((run.config.updates_per_decision or 2 for run in method.runs), default=2)


def _published_entry(method: str, suite: str, value: Published | None) -> Entry:
    if value is None:
        return Cell(), None
    suites = SUITES if suite == "all" else (suite,)
    # Where the paper does not say how many seeds there were, five is its usual number.
    runs = (1 if value.approximate else seeds().get((method, each), 5) for each in suites)
    count = sum(many * len(suite_tasks(each)) for many, each in zip(runs, suites, strict=True))
    return published_cell(value), Sample(value.mean, value.standard_error, count)


def published_cell(value: Published) -> Cell:
    text = plus_minus(value.mean, (value.high - value.low) / 2) + ("†" if value.approximate else "")
    return Cell(text, value.mean, value.low, value.high, note=value.note)


def suite_cell(method: Method, suite: str) -> Entry:
    """Of one of our methods; the sample only where it has the whole suite."""
    wanted = suite_tasks(suite)
    ids = method.covered(wanted)
    if not ids:
        return Cell(), None
    values = method.scores(ids, holes=True).values
    value, (low, high) = float(statistics.mean(values)), statistics.normal_interval(values)
    cell = Cell(plus_minus(value, (high - low) / 2), value, low, high)
    if len(ids) == len(wanted):
        return cell, Sample.of(values)
    note = f"Mean {task_tables.PARTIAL}."
    return cell._replace(text=f"{cell.text} ({len(ids)} of {len(wanted)})", note=note), None


# Table 2: what single changes to SimbaV2 cost -----------------------------------------------------------------


def ablation_table(methods: Sequence[Method]) -> Table | None:
    """Ours are compared with our own run of the same preset without the change, on the tasks that both have."""
    ours = [method for method in methods if method.ablation is not None]
    if not ours:
        return None
    base = aggregates("ablation")["SimbaV2"]
    rows = [Row("SimbaV2", tuple(published_cell(base[suite]) for suite in COLUMNS), "Published")]
    for letter, ablation in ABLATIONS.items():
        values = aggregates("ablation", letter)["SimbaV2"]
        marked = (
            published_cell(values[suite])._replace(mark=change_mark(values[suite].mean, base[suite].mean))
            for suite in COLUMNS
        )
        rows.append(Row(f"({letter}) {ablation}", tuple(marked), "Published"))
    for method in ours:
        default = _without_ablation(method, methods)
        cells = tuple(_ablation_cell(method, default, suite) for suite in COLUMNS)
        title = f"Ours, against {default.label}" if default else "Ours, with nothing to compare"
        name = ABLATIONS.get(str(method.ablation), "unknown change")
        rows.append(Row(f"({method.ablation}) {name}: {method.label}", cells, title, ours=True))
    return Table(
        name="ablation",
        title="Ablation study (table 2)",
        caption="Mean normalised score of SimbaV2 with one change each. Highlighted is the change relative to the"
        " default: ▲ from 2 %, ▲▲ from 5 %, ▲▲▲ from 10 % up; ▼ from 2 %, ▼▼ from 5 %, ▼▼▼ from 10 % down.",
        headings=("ablation", *SUITE_HEADINGS),
        rows=tuple(rows),
    )


def _without_ablation(method: Method, methods: Sequence[Method]) -> Method | None:
    """The default it is a change of: the same preset without one, and of those the one most alike."""

    def unlike(other: Method) -> int:
        names = set(method.settings) | set(other.settings)
        return sum(method.settings.get(name) != other.settings.get(name) for name in names)

    same = (each for each in methods if each.preset == method.preset and each.ablation is None and each.runs)
    return min(same, key=unlike, default=None)


def _ablation_cell(method: Method, default: Method | None, suite: str) -> Cell:
    cell, _ = suite_cell(method, suite)
    ids = method.covered(suite_tasks(suite))
    if default is None or not ids or default.covered(ids) != ids:
        return cell
    own, base = (float(statistics.mean(each.scores(ids, holes=True).values)) for each in (method, default))
    return cell._replace(mark=change_mark(own, base))


# Offline training on D4RL -------------------------------------------------------------------------------------

OFFLINE_TRIALS = 10  # of the paper's offline table


def offline_table(methods: Sequence[Method]) -> Table | None:
    published = offline_scores()
    datasets = tuple(name for name in published["SimbaV2+BC"] if name != "average")
    ours = [method for method in methods if any(_offline_finals(method, dataset) for dataset in datasets)]
    if not ours:
        return None
    columns = []
    for dataset in (*datasets, "average"):
        values = [each[dataset] for each in published.values()]
        deviations = [value.high - value.mean for value in values]
        # The caption: "the environment's average variance was used for methods without reported variance".
        usual = math.sqrt(np.nanmean(np.square(deviations)))
        column: list[Entry] = []
        for value, deviation in zip(values, deviations, strict=True):
            error = (usual if math.isnan(deviation) else deviation) / math.sqrt(OFFLINE_TRIALS)
            text = plus_minus(value.mean, deviation, digits=1)
            cell = Cell(text, value.mean, value.low, value.high, note=value.note)
            column.append((cell, Sample(value.mean, error, OFFLINE_TRIALS)))
        columns.append(
            column + [_offline_entry(method, datasets if dataset == "average" else (dataset,)) for method in ours]
        )
    labels = [(name, False) for name in published] + [(method.label, True) for method in ours]
    return Table(
        name="offline",
        title="Offline RL (D4RL)",
        caption="D4RL score after offline training, ± one standard deviation over runs. Bold: the highest. Italic:"
        " not statistically worse than the highest (Welch's t-test, two-sided, level 0.05). The paper does not say"
        " what its ± is; read as a standard deviation it gives the paper's own highlights most often.",
        headings=("method", *(name.removeprefix("d4rl/").removesuffix("-v2") for name in datasets), "average"),
        rows=tuple(_ranked(labels, columns)),
    )


def _offline_entry(method: Method, datasets: Sequence[str]) -> Entry:
    """The mean of runs; over several data sets the mean of their means, with the deviation of a run's mean."""
    per_set = [np.array(_offline_finals(method, dataset)) for dataset in datasets]
    if not all(map(len, per_set)):
        return Cell(), None
    samples = [Sample.of(scores) for scores in per_set]
    mean = float(np.mean([sample.mean for sample in samples]))
    count = min(sample.size for sample in samples)
    error = math.sqrt(sum(sample.standard_error**2 for sample in samples)) / len(samples)
    deviation = error * math.sqrt(count)
    cell = Cell(plus_minus(mean, deviation, digits=1), mean, mean - deviation, mean + deviation)
    return cell, Sample(mean, error, count)


def _offline_finals(method: Method, dataset: str) -> list[float]:
    """The final scores of finished runs that learned from data alone, without training online afterwards."""
    found = []
    for trial in method.finals(dataset):
        score = normalized_score(dataset, trial.final)
        if score is not None and not (trial.run and "then_online" in trial.run.given):
            found.append(score)
    return found
