"""Scores and curves. Runs are averaged only when their whole configs agree apart from the seed.

A `Method` is one configuration on any number of tasks, a `Trial` one seed of it on one task. Trials come from run
folders or from files in the authors' result format; from here on there is no difference.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from simbav2.envs.tasks import Task, normalized_score, tasks
from simbav2.errors import InputError
from simbav2.experiments.report.runs import Floats, Run
from simbav2.experiments.report.statistics import bootstrap_band

# Resolved from the task, so they may differ between the tasks of one method; what was set by hand is in `given`.
TASK_FIELDS = ("task", "action_repeat", "discount", "critic.num_critics", "updates_per_decision")
# Follow from the data set, so they differ between the data sets of one method.
DATA_FIELDS = ("data.source", "data.file", "data.transitions", "data.sha256", "env_steps")


@cache
def known_tasks() -> dict[str, Task]:
    return {task.id: task for task in tasks()}


def metric(task_id: str) -> str:
    """What a task is scored by: `return` or `success`."""
    task = known_tasks().get(task_id)
    return "return" if task is None else task.metric


# Curves -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A mean over time with a band around it; all [evaluations]."""

    env_step: Floats
    mean: Floats
    low: Floats
    high: Floats
    averaged: str  # over what: "10 evaluation episodes", "3 seeds"

    def __len__(self) -> int:
        return len(self.env_step)


@dataclass(frozen=True)
class Trial:
    """One seed of a method on a task: its score, by the task's metric, at every evaluation."""

    task: str
    seed: int
    curve: Curve
    complete: bool  # it came to its end
    run: Run | None = None  # None: from a file of curves

    @property
    def final(self) -> float | None:
        return float(self.curve.mean[-1]) if len(self.curve) else None


def clock(trials: Iterable[Trial]) -> str:
    """What their curves run over; files of curves hold online training only."""
    clocks = {trial.run.clock if trial.run else "simulator steps" for trial in trials}
    return max(clocks, key=len)  # the words for both, where some went on online


def run_curve(run: Run, measure: str) -> Curve:
    """`measure` (`return` or `success`) of one run, over the episodes of each evaluation, lowest to highest."""
    records = run.evaluations
    order = np.argsort(records.env_step, kind="stable")
    values = (records.success if measure == "success" else records.returns)[order]
    steps, starts, counts = np.unique(records.env_step[order], return_index=True, return_counts=True)
    most = int(counts.max(initial=0))
    return Curve(
        env_step=steps,
        mean=np.add.reduceat(values, starts) / counts,
        low=np.minimum.reduceat(values, starts),
        high=np.maximum.reduceat(values, starts),
        averaged=f"{most} evaluation episode{'s' * (most != 1)}",
    )


def mean_curve(trials: Sequence[Trial]) -> Curve:
    """Of a single trial its own; of several the mean with its 95 % interval, where all of them were evaluated.

    Elsewhere the mean would jump whenever a trial enters or leaves it.
    """
    curves = [trial.curve for trial in trials if len(trial.curve)]
    if len(curves) < 2:
        return curves[0] if curves else trials[0].curve
    steps, values = _aligned(curves)
    low, high = bootstrap_band([values], _generator())
    return Curve(steps, values.mean(0), low, high, f"{len(curves)} seeds")


def suite_curve(method: Method, ids: Sequence[str]) -> Curve | None:
    """The mean normalised score over tasks; None where they share no evaluation."""
    trials = [trial for task in ids for trial in method.trials[task] if len(trial.curve)]
    if not trials:
        return None
    steps, _ = _aligned([trial.curve for trial in trials])
    values = []
    for task in ids:
        own = [trial.curve for trial in method.trials[task] if len(trial.curve)]
        if own:
            rows = [curve.mean[np.isin(curve.env_step, steps)] for curve in own]
            values.append(np.array([[normalized_score(task, each) for each in row] for row in rows], float))
    if not len(steps) or len(values) < len(ids):
        return None
    low, high = bootstrap_band(values, _generator())
    seeds = max(len(each) for each in values)
    averaged = f"{len(ids)} task{'s' * (len(ids) != 1)}, {seeds} seed{'s' * (seeds != 1)}"
    return Curve(steps, np.mean([each.mean(0) for each in values], axis=0), low, high, averaged)


def _aligned(curves: Sequence[Curve]) -> tuple[Floats, Floats]:
    """The steps that all curves share, and their means there [curves, steps]."""
    shared = np.array(sorted(set.intersection(*(set(curve.env_step) for curve in curves))))
    return shared, np.array([curve.mean[np.isin(curve.env_step, shared)] for curve in curves])


def _generator() -> np.random.Generator:
    """The same data give the same band."""
    return np.random.default_rng(0)


# Methods ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """One configuration: trials that differ in nothing but the seed, on each of its tasks."""

    label: str
    preset: str
    ablation: str | None
    settings: Mapping[str, Any]  # by dotted name, those that all its runs share; empty for a file of curves
    trials: Mapping[str, tuple[Trial, ...]]  # by task, in the benchmark's order

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(trial.run for trials in self.trials.values() for trial in trials if trial.run is not None)

    def scores(self, ids: Sequence[str] | None = None, holes: bool = False) -> Scores:
        """Normalised final scores of the complete trials on `ids`; None for all tasks of the benchmark it has."""
        if ids is None:
            ids = [task for task in self.trials if task in known_tasks()]
        cells: dict[str, dict[str, float]] = {}
        for task in ids:
            cells[task] = {}
            for trial in self.trials.get(task, ()):
                score = None if trial.final is None else normalized_score(task, trial.final)
                if trial.complete and score is not None:
                    cells[task][unused(f"seed {trial.seed}", cells[task])] = score
        return Scores.of(cells, holes, self.label)

    def covered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The tasks among `ids` on which it has a complete, scored trial."""
        return tuple(
            task for task in ids if any(t.complete and t.final is not None for t in self.trials.get(task, ()))
        )


@dataclass(frozen=True)
class Scores:
    """Normalised final scores [runs, tasks] and the names of both; NaN only where holes were allowed."""

    values: Floats
    runs: tuple[str, ...]
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, cells: Mapping[str, Mapping[str, float]], holes: bool = False, name: str = "scores") -> Scores:
        """From {task: {run: score}}. A run that lacks a task is refused by name unless `holes` are allowed."""
        runs = tuple(dict.fromkeys(run for row in cells.values() for run in row))
        for task, row in cells.items() if not holes else ():
            missing = [run for run in runs if run not in row] or ([] if row else ["any run"])
            if missing:
                raise InputError(f"{name}: {missing[0]} has no score on {task}; add the run, or allow holes")
        values = np.full((len(runs), len(cells)), np.nan)
        for column, row in enumerate(cells.values()):
            for run, score in row.items():
                values[runs.index(run), column] = score
        return cls(values, runs, tuple(cells))


def methods(runs: Iterable[Run], curves: Iterable[Method] = ()) -> tuple[Method, ...]:
    """All runs, sorted by preset, in methods that may be averaged, and then those that come as `curves`."""
    loose: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        loose[_key(run, (*TASK_FIELDS, *DATA_FIELDS) if run.dataset else TASK_FIELDS)].append(run)
    alike: list[list[Run]] = []
    for members in loose.values():
        strict: dict[str, list[Run]] = defaultdict(list)
        for run in members:
            strict[_key(run)].append(run)
        per_task = [group[0].task for group in strict.values()]
        # Two configurations on one task are two methods, whatever it is that tells them apart.
        alike += [members] if len(set(per_task)) == len(per_task) else list(strict.values())
    alike.sort(key=lambda group: (group[0].preset, str(group[0].ablation or ""), _key(group[0])))
    found: dict[str, Method] = {}
    for group, name in zip(alike, _labels(alike), strict=True):
        label = unused(name, found)
        found[label] = Method(label, group[0].preset, group[0].ablation, _shared(group), _trials(group))
    for method in curves:
        label = unused(method.label, found)
        found[label] = Method(label, method.preset, None, method.settings, method.trials)
    return tuple(found.values())


def _key(run: Run, without: Sequence[str] = ()) -> str:
    """All that must agree between runs that are averaged: the same settings under the same versions."""
    settings = leaves({**run.config, "seed": None, "versions": run.versions, "given": _given(run)})
    return json.dumps({name: value for name, value in settings.items() if name not in without}, sort_keys=True)


def _given(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.given.items() if name != "seed"}


def _shared(group: Sequence[Run]) -> dict[str, Any]:
    """The settings in which all runs of a group agree."""
    first, *others = (leaves({**run.config, "seed": None, "versions": run.versions}) for run in group)
    return {
        name: value
        for name, value in first.items()
        if name != "seed" and all(name in other and other[name] == value for other in others)
    }


def _trials(group: Sequence[Run]) -> dict[str, tuple[Trial, ...]]:
    by_task: dict[str, list[Trial]] = defaultdict(list)
    for run in sorted(group, key=lambda run: (run.seed, str(run.folder))):
        curve = run_curve(run, metric(run.task))
        by_task[run.task].append(Trial(run.task, run.seed, curve, run.summary is not None, run))
    return {task: tuple(by_task[task]) for task in in_order(by_task)}


def in_order(ids: Iterable[str]) -> tuple[str, ...]:
    """Tasks of the benchmark in its order, then all others by name."""
    place = {task: index for index, task in enumerate(known_tasks())}
    return tuple(sorted(set(ids), key=lambda task: (place.get(task, len(place)), task)))


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of a nested mapping by its dotted name."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        nested = isinstance(value, Mapping)
        found |= leaves(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return found


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """The preset, the ablation change and what was set by hand; where that tells no difference, what does.

    What was set by hand alike for all of several methods is left out; `common_settings` has it.
    """
    common = _common([_given(group[0]) for group in groups])
    given = [{name: each for name, each in _given(group[0]).items() if name not in common} for group in groups]
    plain = [_label(group[0], own) for group, own in zip(groups, given, strict=True)]
    labels = []
    for group, name, set_by_hand in zip(groups, plain, given, strict=True):
        alike = [_shared(other) for other, same in zip(groups, plain, strict=True) if same == name]
        fields = sorted(set().union(*alike) - {"task"})
        unlike = [field for field in fields if len({str(each.get(field, "unset")) for each in alike}) > 1]
        # The data set stands beside the label already, and with it all that follows from it.
        follows = (*TASK_FIELDS, *DATA_FIELDS) if group[0].dataset else ()
        unlike = [field for field in unlike if field not in follows] or unlike
        own = _shared(group)
        labels.append(_label(group[0], {field: own.get(field, "unset") for field in unlike} | set_by_hand))
    return labels


def common_settings(found: Sequence[Method]) -> dict[str, Any]:
    """What was set by hand alike for all methods, where there are several: their labels do not say it."""
    return _common([_given(method.runs[0]) for method in found if method.runs])


def _common(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if len(given) < 2:
        return {}
    first, *others = given
    return {name: each for name, each in first.items() if all(name in own and own[name] == each for own in others)}


def _label(run: Run, told: Mapping[str, Any]) -> str:
    shown = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in told.items()
    ]
    ablation = [f"ablation {run.ablation}"] if run.ablation else []
    return ", ".join([run.preset, *ablation, *shown[:3], *(["…"] if len(shown) > 3 else [])])


def unused(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    tries = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(each for each in tries if each not in taken)
