"""Scores and curves. Runs are averaged only when their whole configs agree apart from the seed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from simbav2.analysis.runs import Floats, Run
from simbav2.envs.tasks import Task, tasks


@cache
def _tasks() -> dict[str, Task]:
    return {task.id: task for task in tasks()}


def metric(task_id: str) -> str:
    """What a task is scored by: `return` or `success`."""
    task = _tasks().get(task_id)
    return "return" if task is None else task.metric


def normalized_score(task_id: str, value: float) -> float | None:
    """(x - random) / (reference - random), or None for a task outside the benchmark."""
    task = _tasks().get(task_id)
    return None if task is None else task.normalized(value)


@dataclass(frozen=True)
class Curve:
    """A mean over time with the lowest and highest of what was averaged; all [evaluations]."""

    env_step: Floats
    mean: Floats
    low: Floats
    high: Floats
    averaged: str  # over what: "10 evaluation episodes", "3 seeds"

    def __len__(self) -> int:
        return len(self.env_step)


def run_curve(run: Run, measure: str) -> Curve:
    """`measure` (`return` or `success`) of one run, over the episodes of each evaluation."""
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


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed, and what tells them from the other groups of their task."""

    label: str
    runs: tuple[Run, ...]

    @property
    def task(self) -> str:
        return self.runs[0].task

    @property
    def measure(self) -> str:
        return metric(self.task)

    @property
    def curve(self) -> Curve:
        """Of a single run, over its episodes; of several, over the runs, where all of them were evaluated.

        Elsewhere the mean would jump whenever a run enters or leaves it.
        """
        curves = [run_curve(run, self.measure) for run in self.runs]
        curves = [curve for curve in curves if len(curve)]
        if len(curves) < 2:
            return curves[0] if curves else run_curve(self.runs[0], self.measure)
        shared = sorted(set.intersection(*(set(curve.env_step) for curve in curves)))
        # [runs, evaluations]
        means = np.array([curve.mean[np.isin(curve.env_step, shared)] for curve in curves])
        return Curve(np.array(shared), means.mean(0), means.min(0), means.max(0), f"{len(curves)} seeds")


def groups(runs: Iterable[Run]) -> tuple[Group, ...]:
    """All runs, sorted by task, in groups that may be averaged."""
    alike: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        alike[run.task, run.preset, json.dumps(_settings(run), sort_keys=True)].append(run)
    siblings: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for task, preset, settings in alike:
        siblings[task, preset].append(json.loads(settings))
    return tuple(
        Group(
            label=_label(preset, json.loads(settings), siblings[task, preset]),
            runs=tuple(sorted(alike[task, preset, settings], key=lambda run: run.seed)),
        )
        for task, preset, settings in sorted(alike)
    )


def _settings(run: Run) -> dict[str, Any]:
    """All that must agree between runs that are averaged: the same settings under the same versions."""
    return leaves({**run.config, "seed": None, "versions": run.versions})


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of a nested mapping by its dotted name."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        nested = isinstance(value, Mapping)
        found |= leaves(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return found


def _label(preset: str, own: dict[str, Any], siblings: list[dict[str, Any]]) -> str:
    """The preset and, of the settings in which groups of this preset differ, the first few."""
    names = sorted(set().union(*siblings))
    unlike = [name for name in names if len({str(each.get(name, "unset")) for each in siblings}) > 1]
    told = [f"{name} {own.get(name, 'unset')}" for name in unlike[:3]]
    return ", ".join([preset, *told, *(["…"] if len(unlike) > 3 else [])])
