"""Scores and curves of methods on tasks.

A `Method` is one configuration on any number of tasks, a `Trial` one seed of it on one task. Trials come from run
folders or from files of curves; from here on there is no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simbav2.envs.tasks import SUITES, TASKS, normalized_score, tasks
from simbav2.errors import InputError
from simbav2.experiments.report.runs import Floats, RunRecord
from simbav2.experiments.report.statistics import bootstrap_band

COLUMNS = ("mujoco", "dmc-easy", "dmc-hard", "myosuite", "hbench", "all")  # of the paper's tables


def suite_title(suite: str) -> str:
    """`all` is the paper's last column; a task outside the suites is of another one."""
    return "All" if suite == "all" else SUITES[suite].title if suite in SUITES else "Other"


# Tasks ------------------------------------------------------------------------------------------------------


def suite_of(task_id: str) -> str | None:
    """The suite of a task; None for a task outside the benchmark."""
    task = TASKS.get(task_id)
    return None if task is None else task.suite


def suite_tasks(suite: str) -> tuple[str, ...]:
    return tuple(task.id for task in tasks(None if suite == "all" else suite))


def in_order(ids: Iterable[str]) -> tuple[str, ...]:
    """Tasks of the benchmark in its order, then all others by name."""
    place = {task: index for index, task in enumerate(TASKS)}
    return tuple(sorted(set(ids), key=lambda task: (place.get(task, len(place)), task)))


def metric(task_id: str) -> str:
    """What a task is scored by: `return` or `success`."""
    task = TASKS.get(task_id)
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
    complete: bool  # the run is finished
    run: RunRecord | None = None  # None: from a file of curves

    @property
    def final(self) -> float:
        """NaN before the first evaluation."""
        return float(self.curve.mean[-1]) if len(self.curve) else math.nan


def step_unit(trials: Iterable[Trial]) -> str:
    """What the x axis of their curves is; files of curves hold online training only."""
    units = {trial.run.step_unit if trial.run else "simulator steps" for trial in trials}
    return max(units, key=len)  # the words for both, where some continued online


def run_curve(run: RunRecord, name: str) -> Curve:
    """`return` or `success` of one run, over the episodes of each evaluation, lowest to highest."""
    records = run.evaluations
    order = np.argsort(records.env_step, kind="stable")
    values = (records.success if name == "success" else records.returns)[order]
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
    steps = _shared_steps(curves)
    values = _at(steps, curves)
    return Curve(steps, values.mean(0), *bootstrap_band([values]), f"{len(curves)} seeds")


def suite_curve(method: Method, ids: Sequence[str]) -> Curve | None:
    """The mean normalised score over tasks; None where a task is missing or they share no evaluation."""
    curves = {task: [each.curve for each in method.trials.get(task, ()) if len(each.curve)] for task in ids}
    if not ids or not all(curves.values()):
        return None
    steps = _shared_steps([curve for each in curves.values() for curve in each])
    if not len(steps):
        return None
    values = []
    for task, own in curves.items():
        rows = _at(steps, own)
        values.append(np.array([[normalized_score(task, each) for each in row] for row in rows], float))
    seeds = max(map(len, values))
    averaged = f"{len(ids)} task{'s' * (len(ids) != 1)}, {seeds} seed{'s' * (seeds != 1)}"
    return Curve(steps, np.mean([each.mean(0) for each in values], axis=0), *bootstrap_band(values), averaged)


def _shared_steps(curves: Sequence[Curve]) -> Floats:
    return np.array(sorted(set.intersection(*(set(curve.env_step) for curve in curves))))


def _at(steps: Floats, curves: Sequence[Curve]) -> Floats:
    """The means of curves at steps that all of them have [curves, steps]."""
    return np.array([curve.mean[np.isin(curve.env_step, steps)] for curve in curves])


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
    def runs(self) -> tuple[RunRecord, ...]:
        return tuple(trial.run for trials in self.trials.values() for trial in trials if trial.run is not None)

    def finals(self, task: str) -> list[Trial]:
        """The finished trials with a finite score."""
        return [each for each in self.trials.get(task, ()) if each.complete and math.isfinite(each.final)]

    def covered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The tasks among `ids` on which it has a finished trial with a score."""
        return tuple(task for task in ids if self.finals(task))

    def scores(self, ids: Sequence[str] | None = None, holes: bool = False) -> Scores:
        """Normalised final scores of the finished trials on `ids`; None for all tasks of the benchmark it has."""
        if ids is None:
            ids = [task for task in self.trials if task in TASKS]
        cells: dict[str, dict[str, float]] = {task: {} for task in ids}
        for task, row in cells.items():
            for trial in self.finals(task):
                score = normalized_score(task, trial.final)
                if score is not None:
                    row[unused(f"seed {trial.seed}", row)] = score
        return Scores.of(cells, holes, self.label)


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


def unused(name: str, taken: Iterable[str]) -> str:
    """`name`, or with the first number that makes it new."""
    taken = set(taken)
    tries = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(each for each in tries if each not in taken)
