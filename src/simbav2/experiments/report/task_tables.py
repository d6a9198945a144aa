"""Tables with one row per task: each suite in full, SimbaV2 by updates per decision, methods published since."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from simbav2.envs.tasks import SUITES, TASKS, normalized_score
from simbav2.experiments.report import statistics
from simbav2.experiments.report.methods import scaling_families
from simbav2.experiments.report.published import (
    UTD,
    Protocol,
    Published,
    aggregates,
    method_names,
    normalized_mean,
    successors,
    task_scores,
)
from simbav2.experiments.report.scores import (
    Method,
    Trial,
    in_order,
    metric,
    suite_tasks,
    suite_title,
)
from simbav2.experiments.report.tables import Cell, Row, Table, interval, interval_cell, number, plus_minus

PARTIAL = "of the tasks that were run; not comparable with a whole suite, and not highlighted"
AGGREGATES = {"IQM": statistics.iqm, "Median": statistics.median, "Mean": statistics.mean}


def suite_table(suite: str, methods: Sequence[Method]) -> Table | None:
    """The full table of a suite: every task, every published method, ours last."""
    ids = suite_tasks(suite)
    columns = {name: task_scores("full", name) for name in method_names("full")}
    columns = {name: values for name, values in columns.items() if any(task in values for task in ids)}
    return _task_table(
        name=f"full-{suite}",
        title=f"{suite_title(suite)}, task by task",
        caption=f"Final {'success rate in percent' if SUITES[suite].metric == 'success' else 'return'} after"
        " training, with its 95 % interval (published: the paper's; ours: the bootstrap over runs). Aggregates"
        f" are of normalised scores ({SUITES[suite].unit}); the published ones as printed.",
        ids=ids,
        published=columns,
        printed={name: _printed(name, suite) for name in columns},
        ours={method.label: method for method in methods if method.covered(ids)},
    )


def utd_table(methods: Sequence[Method]) -> Table | None:
    """SimbaV2 by updates per decision, where we have a method at two rates or more."""
    ours = {
        f"{label}, {utd:g} per decision": method
        for label, family in scaling_families(methods, "updates_per_decision").items()
        for utd, method in family.items()
        if method.covered(suite_tasks("all"))
    }
    return _task_table(
        name="utd",
        title="Scaling of updates",
        caption="Final return or success by updates per decision, with its 95 % interval; first the paper's.",
        ids=in_order(task for method in ours.values() for task in method.covered(suite_tasks("all"))),
        published={f"published, {utd} per decision": task_scores("utd", variant=utd) for utd in UTD},
        printed={},
        ours=ours,
    )


def other_table(methods: Sequence[Method]) -> Table | None:
    """Tasks outside the benchmark: nothing published, no normalised score."""
    covered = in_order(task for method in methods for task in method.covered(method.trials))
    ids = [task for task in covered if task not in TASKS and not task.startswith("d4rl/")]
    return _task_table(
        name="other",
        title="Other environments",
        caption="Final return with its 95 % interval by the bootstrap over runs.",
        ids=ids,
        published={},
        printed={},
        ours={method.label: method for method in methods if method.covered(ids)},
    )


def successors_table(methods: Sequence[Method]) -> Table | None:
    """Methods published since, beside ours on the same task at the same budget, each with its protocol.

    There is one row for each of them and no mean over tasks: protocols differ from suite to suite.
    """
    rows: list[Row] = []
    for task in in_order(task for method in methods for task in method.covered(method.trials)):
        for budget in sorted({_budget(trial) for method in methods for trial in method.finals(task)}):
            rows += _successor_rows(task, budget, methods)
    if not rows:
        return None
    names = tuple(PROTOCOL.values())
    return Table(
        name="successors",
        title="Methods published since, at the same budget",
        caption="Final return or success in percent of finished runs, ± one standard deviation over seeds, beside"
        " FlashSAC, XQC, DR.Q, FoG, MR.Q, TD-MPC2 and PPO on the same task after as many simulator steps, from"
        " the curves that the FlashSAC and DR.Q repositories release (the last evaluation within the last tenth"
        " before the budget). The last column says where the protocol of a published result differs from that of"
        " our runs; nothing is averaged across protocols.",
        headings=("method", "return or success", "normalised score", "seeds", *names, "protocol differs in"),
        rows=tuple(rows),
    )


def _budget(trial: Trial) -> int:
    """Steps at its last evaluation."""
    return int(trial.curve.env_step[-1])


def _successor_rows(task: str, budget: int, methods: Sequence[Method]) -> Iterator[Row]:
    """Ours, then the published; none where there is no run of ours or nothing published."""
    finals = {each.label: [trial for trial in each.finals(task) if _budget(trial) == budget] for each in methods}
    ours = {label: trials for label, trials in finals.items() if trials}
    published, group = successors(task, budget), f"{task}, {budget:,} simulator steps"
    if not published or not any(trial.run for trials in ours.values() for trial in trials):
        return
    for label, trials in ours.items():
        values = np.array([trial.final for trial in trials])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        cells = _protocol_cells(task, float(values.mean()), deviation, len(values), _protocol(trials[0]))
        yield Row(label, (*cells, Cell()), group, ours=trials[0].run is not None)
    protocols = [_protocol(trials[0]) for trials in ours.values()]
    for each in published:
        cells = _protocol_cells(task, each.mean, each.deviation, each.seeds, each.protocol)
        yield Row(each.method, (*cells, Cell(_differences(each.protocol, protocols))), group)


PROTOCOL = {
    "action_repeat": "action repeat",
    "discount": "discount",
    "batch_size": "batch size",
    "updates_per_env_step": "updates per simulator step",
    "evaluation_episodes": "evaluation episodes",
}


def _protocol(trial: Trial) -> Protocol:
    """Of one of our runs; of a file of curves nothing is known."""
    if trial.run is None:
        return Protocol()
    config = trial.run.config
    updates, repeat = config.updates_per_decision, config.action_repeat
    per_step = updates / repeat if updates and repeat else None
    episodes = config.schedule.evaluation_episodes
    return Protocol(repeat, config.discount, config.replay.batch_size, per_step, episodes)


def _protocol_cells(task: str, mean: float, deviation: float, seeds: int, protocol: Protocol) -> list[Cell]:
    success = metric(task) == "success"
    unit, digits = (100, 1) if success else (1, 0 if abs(mean) >= 100 else 1)
    score = normalized_score(task, mean)
    shown = Cell(plus_minus(mean * unit, deviation * unit, digits), mean, mean - deviation, mean + deviation)
    cells = [shown, Cell() if score is None else Cell(number(score), score), Cell(str(seeds), seeds)]
    return cells + [Cell(_stated(each), math.nan if each is None else each) for each in protocol]


def _stated(value: float | None) -> str:
    return "not stated" if value is None else f"{value:g}"


def _differences(published: Protocol, ours: Sequence[Protocol]) -> str:
    """Such as `batch size 512 (ours 256); not stated: discount`."""
    parts, unknown = [], []
    for field, name in PROTOCOL.items():
        value = getattr(published, field)
        known = sorted({getattr(each, field) for each in ours} - {None})
        if value is None:
            unknown.append(name)
        elif known and any(not math.isclose(value, own, rel_tol=1e-6) for own in known):
            parts.append(f"{name} {value:g} (ours {' and '.join(f'{own:g}' for own in known)})")
    if unknown:
        parts.append(f"not stated: {', '.join(unknown)}")
    return "; ".join(parts) or "nothing"


def _printed(method: str, suite: str) -> dict[str, Published]:
    found = {name: aggregates("full", statistic=name.lower()).get(method, {}).get(suite) for name in AGGREGATES}
    return {name: value for name, value in found.items() if value is not None}


def _task_table(
    name: str,
    title: str,
    caption: str,
    ids: Sequence[str],
    published: Mapping[str, Mapping[str, Published]],
    printed: Mapping[str, Mapping[str, Published]],
    ours: Mapping[str, Method],
) -> Table | None:
    """One column for each of `published` and `ours`; None where there is none of ours."""
    if not ours:
        return None
    rows = []
    for task in ids:
        cells = [_task_cell(task, values.get(task)) for values in published.values()]
        rows.append(Row(task, (*cells, *(_trials_cell(task, method) for method in ours.values()))))
    for label in AGGREGATES if all(task in TASKS for task in ids) else ():
        cells = [_printed_cell(label, method, values, ids, printed) for method, values in published.items()]
        cells += [_aggregate_cell(label, method, ids) for method in ours.values()]
        rows.append(Row(label, tuple(cells), "Normalised"))
    first, columns = len(published), (*published, *ours)
    return Table(name, title, caption, ("task", *columns), tuple(rows), frozenset(range(first, len(columns))))


def _aggregate_cell(label: str, method: Method, ids: Sequence[str]) -> Cell:
    own, statistic = method.covered(ids), AGGREGATES[label]
    values = method.scores(own, holes=True).values
    cell = interval_cell(float(statistic(values)), *statistics.bootstrap_interval(values, statistic))
    if len(own) == len(ids):
        return cell
    return cell._replace(text=f"{cell.text} ({len(own)} of {len(ids)})", note=f"{label} {PARTIAL}.")


def _printed_cell(
    label: str,
    method: str,
    values: Mapping[str, Published],
    ids: Sequence[str],
    printed: Mapping[str, Mapping[str, Published]],
) -> Cell:
    """As printed; where the rows are not a suite of the paper's, the mean of the rows, the rest unknown."""
    value = printed.get(method, {}).get(label)
    if value is not None:
        return interval_cell(value.mean, value.low, value.high, note=value.note)
    mean = normalized_mean(values, ids) if label == "Mean" and not printed else math.nan
    return Cell(number(mean), mean)


def _task_cell(task: str, value: Published | None) -> Cell:
    return Cell() if value is None else scored_cell(task, value.mean, value.low, value.high, value.note)


def _trials_cell(task: str, method: Method) -> Cell:
    finals = method.finals(task)
    if not finals:
        return Cell()
    values = np.array([[trial.final] for trial in finals], float)
    return scored_cell(task, float(values.mean()), *statistics.bootstrap_interval(values, statistics.mean))


def scored_cell(task: str, value: float, low: float, high: float, note: str = "") -> Cell:
    """A return, or a success rate in percent."""
    success = metric(task) == "success"
    digits = 1 if success or abs(value) < 100 else 0
    unit = 100 if success else 1
    return Cell(interval(value * unit, low * unit, high * unit, digits), value, low, high, note=note)
