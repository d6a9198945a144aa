"""Tables with one row per task: the full table of each suite, and SimbaV2 by updates per decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.paper_tables.scaling import scaling_families
from simbav2.experiments.report.paper_tables.suites import (
    PARTIAL,
    TITLES,
    UNITS,
    normalized_mean,
    suite_tasks,
)
from simbav2.experiments.report.published import UTD, Published, aggregates, task_scores
from simbav2.experiments.report.published import methods as published_methods
from simbav2.experiments.report.scores import Method, in_order, known_tasks, metric
from simbav2.experiments.report.tables import Cell, Row, Table, interval, number


def suite_table(suite: str, methods: Sequence[Method]) -> Table | None:
    """The full table of a suite: every task, every published method, ours last."""
    ids = suite_tasks(suite)
    ours = [method for method in methods if method.covered(ids)]
    if not ours:
        return None
    names = [name for name in published_methods("full") if any(task in task_scores("full", name) for task in ids)]
    columns = {name: task_scores("full", name) for name in names}
    return _task_table(
        name=f"full-{suite}",
        title=f"{TITLES[suite]}, task by task",
        caption=f"Final {'success rate in percent' if SUITES[suite].metric == 'success' else 'return'} after"
        " training, with its 95 % interval (published: the paper's; ours: the bootstrap over runs). Aggregates are"
        f" of normalised scores ({UNITS[suite]}); the published ones as printed.",
        ids=ids,
        published=columns,
        printed={name: _printed(name, suite) for name in names},
        ours={method.label: method for method in ours},
    )


def utd_table(methods: Sequence[Method]) -> Table | None:
    """SimbaV2 by updates per decision, where we have a method at two rates or more."""
    ours = {
        f"{label}, {utd:g} per decision": method
        for label, family in scaling_families(methods, "updates_per_decision").items()
        for utd, method in family.items()
        if method.covered(suite_tasks("all"))
    }
    if not ours:
        return None
    ids = in_order(task for method in ours.values() for task in method.covered(suite_tasks("all")))
    return _task_table(
        name="utd",
        title="Scaling of updates",
        caption="Final return or success by updates per decision, with its 95 % interval; first the paper's.",
        ids=ids,
        published={f"published, {utd} per decision": task_scores("utd", variant=utd) for utd in UTD},
        printed={},
        ours=ours,
    )


def other_table(methods: Sequence[Method]) -> Table | None:
    """Tasks outside the benchmark: nothing published, no normalised score."""
    every = in_order(task for method in methods for task in method.trials)
    ids = [task for task in every if task not in known_tasks() and not task.startswith("d4rl/")]
    ours = {method.label: method for method in methods if method.covered(ids)}
    if not ours:
        return None
    covered = tuple(task for task in ids if any(method.covered([task]) for method in ours.values()))
    return _task_table(
        "other",
        "Other environments",
        "Final return with its 95 % interval by the bootstrap over runs.",
        ids=covered,
        published={},
        printed={},
        ours=ours,
    )


def _printed(method: str, suite: str) -> dict[str, Published]:
    found = {name: aggregates("full", statistic=name.lower()).get(method, {}).get(suite) for name in _AGGREGATES}
    return {name: value for name, value in found.items() if value is not None}


_AGGREGATES = {"IQM": statistics.iqm, "Median": statistics.median, "Mean": statistics.mean}


def _task_table(
    name: str,
    title: str,
    caption: str,
    ids: Sequence[str],
    published: Mapping[str, Mapping[str, Published]],
    printed: Mapping[str, Mapping[str, Published]],
    ours: Mapping[str, Method],
) -> Table:
    rows = []
    for task in ids:
        cells = [_task_cell(task, values.get(task)) for values in published.values()]
        cells += [_trials_cell(task, method) for method in ours.values()]
        rows.append(Row(task, tuple(cells)))
    if all(task in known_tasks() for task in ids):
        for label, statistic in _AGGREGATES.items():
            cells = [_aggregate_cell(label, method, values, ids, printed) for method, values in published.items()]
            for method in ours.values():
                own = method.covered(ids)
                values = method.scores(own, holes=True).values
                value = float(statistic(values))
                low, high = statistics.bootstrap_interval(values, statistic, np.random.default_rng(0))
                partial = f" ({len(own)} of {len(ids)})" if len(own) < len(ids) else ""
                note = f"{label} {PARTIAL}." if partial else ""
                cells.append(Cell(interval(value, low, high) + partial, value, low, high, note=note))
            rows.append(Row(label, tuple(cells), "Normalised"))
    first = len(published)
    columns = (*published, *ours)
    return Table(name, title, caption, ("task", *columns), tuple(rows), frozenset(range(first, len(columns))))


def _aggregate_cell(
    label: str,
    method: str,
    values: Mapping[str, Published],
    ids: Sequence[str],
    printed: Mapping[str, Mapping[str, Published]],
) -> Cell:
    """As printed; where the rows are not a suite of the paper's, the mean of the rows, the rest unknown."""
    value = printed.get(method, {}).get(label)
    if value is not None:
        return Cell(
            interval(value.mean, value.low, value.high), value.mean, value.low, value.high, note=value.note
        )
    mean = normalized_mean(values, ids) if label == "Mean" and not printed else math.nan
    return Cell(number(mean), mean)


def _task_cell(task: str, value: Published | None) -> Cell:
    if value is None:
        return Cell()
    return _scored_cell(task, value.mean, value.low, value.high, value.note)


def _trials_cell(task: str, method: Method) -> Cell:
    terminal_observations = [
        trial.final for trial in method.trials.get(task, ()) if trial.complete and trial.final is not None
    ]
    if not terminal_observations:
        return Cell()
    values = np.array(terminal_observations)[:, None]
    low, high = statistics.bootstrap_interval(values, statistics.mean, np.random.default_rng(0))
    return _scored_cell(task, float(values.mean()), low, high)


def _scored_cell(task: str, value: float, low: float, high: float, note: str = "") -> Cell:
    success = metric(task) == "success"
    unit = 100 if success else 1
    digits = 1 if success or abs(value) < 100 else 0
    return Cell(interval(value * unit, low * unit, high * unit, digits), value, low, high, note=note)
