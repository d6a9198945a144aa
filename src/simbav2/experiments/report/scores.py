"""Scores and curves of methods on tasks.

A `Method` is one configuration on any number of tasks, a `Trial` one seed of it on one task. Trials come from run
folders or from files of curves; from here on there is no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simbav2.envs.tasks import SUITES, TASKS, normalized_score, tasks
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

    def on(self, ids: Iterable[str]) -> Method:
        """The part of it that is about these tasks."""
        return replace(self, trials={task: self.trials[task] for task in ids if task in self.trials})

    @property
    def cost(self) -> str:
        """Of an update, counted from the configs; its speed and compilation as measured; empty where unknown."""
        counted = [run.compute for run in self.runs if run.compute]
        per_step = [run.updates_per_env_step or math.nan for run in self.runs]
        found = {
            "{} GFLOP per update": [each.update / 1e9 for each in counted],
            "{}M weights": [(each.actor_weights + each.critic_weights) / 1e6 for each in counted],
            "updates per simulator step: {}": [] if any(run.dataset for run in self.runs) else per_step,
            "measured per second: {}": [run.fact("updates_per_second") for run in self.runs],
            "compiled in {} s": [run.fact("compile_seconds") for run in self.runs],
        }
        return ", ".join(text.format(_range(values)) for text, values in found.items() if _range(values))

    def finals(self, task: str) -> list[Trial]:
        """The finished trials with a finite score."""
        return [each for each in self.trials.get(task, ()) if each.complete and math.isfinite(each.final)]

    def covered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The tasks among `ids` on which it has a finished trial with a score."""
        return tuple(task for task in ids if self.finals(task))

    def scores(self, ids: Sequence[str]) -> Floats:
        """Normalised final scores of the finished trials [runs, tasks]; NaN where a run lacks a task."""
        rows: dict[str, list[float]] = {}
        for column, task in enumerate(ids):
            taken: set[str] = set()
            for trial in self.finals(task):
                score = normalized_score(task, trial.final)
                if score is not None:
                    run = unused(f"seed {trial.seed}", taken)
                    taken.add(run)
                    rows.setdefault(run, [math.nan] * len(ids))[column] = score
        return np.array(list(rows.values()), float).reshape(-1, len(ids))


def _range(values: Iterable[float]) -> str:
    """`14` or `14 to 28`, with three digits, of the values that are known."""
    known = sorted(value for value in values if math.isfinite(value))
    ends = dict.fromkeys(f"{value:.3g}" for value in (known[:1] + known[-1:]))
    return " to ".join(ends)


def unused(name: str, taken: Iterable[str]) -> str:
    """`name`, or with the first number that makes it new."""
    taken = set(taken)
    tries = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(each for each in tries if each not in taken)
