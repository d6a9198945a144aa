"""The paper's tables with our methods beside the published ones, our methods among themselves, all runs.

A table is made only where there are runs for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from simbav2.envs.tasks import SUITES, TASKS, normalized_score
from simbav2.experiments.report import statistics
from simbav2.experiments.report.methods import scaling_families
from simbav2.experiments.report.published import (
    ABLATIONS,
    UTD,
    Protocol,
    Published,
    aggregates,
    method_names,
    normalized_mean,
    offline_scores,
    published_mean,
    published_score,
    seeds,
    successors,
    task_scores,
)
from simbav2.experiments.report.runs import RunRecord
from simbav2.experiments.report.scores import (
    COLUMNS,
    Method,
    Trial,
    in_order,
    metric,
    run_curve,
    suite_of,
    suite_tasks,
    suite_title,
)
from simbav2.experiments.report.statistics import Sample, not_worse
from simbav2.experiments.report.tables import (
    BEST,
    GOOD,
    Cell,
    Row,
    Table,
    change_mark,
    interval,
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
        utd_table(methods),
        *(suite_table(suite, methods) for suite in SUITES),
        other_table(methods),
        successors_table(methods),
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
            values = method.scores(ids)
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
            ours, theirs = (method.scores(ids) for method in (one, other))
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
    values = method.scores(ids)
    value, (low, high) = float(statistics.mean(values)), statistics.normal_interval(values)
    cell = Cell(plus_minus(value, (high - low) / 2), value, low, high)
    if len(ids) == len(wanted):
        return cell, Sample.of(values)
    note = f"Mean {PARTIAL}."
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
    own, base = (float(statistics.mean(each.scores(ids))) for each in (method, default))
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


# One row per task --------------------------------------------------------------------------------------------


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


PROTOCOL = {name: name.replace("_", " ").replace("env", "simulator") for name in Protocol._fields}


def _protocol(trial: Trial) -> Protocol:
    """Of one of our runs; of a file of curves nothing is known."""
    if trial.run is None:
        return Protocol()
    config, updates = trial.run.config, trial.run.updates_per_env_step
    episodes = config.schedule.evaluation_episodes
    return Protocol(config.action_repeat, config.discount, config.replay.batch_size, updates, episodes)


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
    values = method.scores(own)
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


# The list of runs --------------------------------------------------------------------------------------------


RESULTS = (
    *("status", "warnings", "steps", "final return", "success", "normalised score", "published"),
    *("updates/s", "time"),
)


def runs_table(found: Sequence[Method]) -> Table:
    return Table(
        name="runs",
        title="Runs",
        caption="Every run with its result at the last evaluation. On recorded data, an update counts as a step.",
        headings=("task", "method", "seed", *RESULTS),
        rows=tuple(
            Row(run.task, (Cell(method.label), Cell(str(run.seed), run.seed), *results(run)), ours=True)
            for method in found
            for run in method.runs
        ),
    )


def results(run: RunRecord) -> tuple[Cell, ...]:
    """One cell for each of `RESULTS`."""
    curves = {name: run_curve(run, name).mean for name in ("return", "success")}
    final = {name: float(values[-1]) if len(values) else math.nan for name, values in curves.items()}
    normalized = normalized_score(run.task, final[metric(run.task)])
    score = math.nan if normalized is None else normalized
    published, seconds, speed = published_score(run.task), run.fact("seconds"), run.fact("updates_per_second")
    return (
        Cell(run.status),
        Cell(str(len(run.warnings)) if run.warnings else "–", len(run.warnings)),
        Cell(f"{run.env_steps:,}", run.env_steps),
        Cell(number(final["return"], 1), final["return"]),
        Cell("–" if math.isnan(final["success"]) else f"{final['success']:.0%}", final["success"]),
        Cell(number(score), score),
        Cell(_published_text(published, run.task), published.mean if published else math.nan),
        Cell(number(speed, 1), speed),
        Cell(duration(seconds), seconds),
    )


def _published_text(published: Published | None, task: str) -> str:
    if published is None:
        return "–"
    if metric(task) == "success":
        return interval(100 * published.mean, 100 * published.low, 100 * published.high, digits=1) + " %"
    return interval(published.mean, published.low, published.high, digits=0)


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"
