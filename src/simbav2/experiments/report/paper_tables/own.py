"""Our methods among themselves: aggregates with intervals, and who beats whom."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from simbav2.experiments.report import statistics
from simbav2.experiments.report.paper_tables.suites import (
    COLUMNS,
    TITLES,
    published_mean,
    spanned,
    suite_tasks,
)
from simbav2.experiments.report.scores import Method
from simbav2.experiments.report.tables import Cell, Row, Table, interval, number


def summary_table(methods: Sequence[Method]) -> Table | None:
    """Aggregates with the stratified bootstrap, and what the paper reports for the very same tasks."""
    rows = []
    for suite in COLUMNS:
        for method in methods:
            ids = method.covered(suite_tasks(suite))
            if not ids or (suite == "all" and len(spanned(ids)) < 2):
                continue
            values = method.scores(ids, holes=True).values
            generator = np.random.default_rng(0)
            cells = [Cell(str(len(ids)), len(ids)), Cell(_span(np.isfinite(values).sum(0)), values.size)]
            for statistic in statistics.STATISTICS.values():
                value = float(statistic(values))
                low, high = statistics.bootstrap_interval(values, statistic, generator)
                cells.append(Cell(interval(value, low, high), value, low, high))
            same = published_mean(ids)
            cells.append(Cell(number(same), same))
            rows.append(Row(method.label, tuple(cells), group=TITLES[suite], ours=bool(method.runs)))
    if not rows:
        return None
    headings = ("method", "tasks", "runs per task", *statistics.STATISTICS, "SimbaV2 paper, same tasks")
    return Table(
        name="summary",
        title="Normalised scores",
        caption="Final normalised scores of finished runs: 0 is a random policy, 1 the reference of the suite. In"
        " brackets the 95 % interval by the stratified bootstrap over runs, where a task has at least two. IQM is"
        " the mean of the middle half of all runs; the optimality gap is how far scores stay below 1.",
        headings=headings,
        rows=tuple(rows),
    )


def _span(counts: np.ndarray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def improvement_table(methods: Sequence[Method]) -> Table | None:
    """Every pair that shares a task, on the tasks that it shares."""
    rows = []
    for one, other in combinations(methods, 2):
        ids = one.covered(other.covered(suite_tasks("all")))
        if not ids:
            continue
        ours, theirs = (method.scores(ids, holes=True).values for method in (one, other))
        value = float(statistics.probability_of_improvement(ours, theirs))
        low, high = statistics.bootstrap_improvement(ours, theirs, np.random.default_rng(0))
        cells = (
            Cell(other.label),
            Cell(str(len(ids)), len(ids)),
            Cell(interval(value, low, high), value, low, high),
        )
        rows.append(Row(one.label, cells))
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
