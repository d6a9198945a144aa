"""Curves in the authors' result format, one row per evaluation: `exp_name,env_name,seed,metric,env_step,value`."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from simbav2.envs.tasks import tasks
from simbav2.errors import InputError
from simbav2.experiments.report.scores import Curve, Method, Trial, in_order, metric

COLUMNS = ("exp_name", "env_name", "seed", "metric", "env_step", "value")


def read_curves(file: str | os.PathLike[str]) -> tuple[Method, ...]:
    """Methods from a CSV file with the columns of the authors' results; steps are taken as they stand."""
    rows: dict[tuple[str, str], dict[int, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    path = Path(file)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path} lacks the column {missing[0]!r}; expected {','.join(COLUMNS)}")
            for row in reader:
                task = _task_id(row["env_name"] or "")
                if row["metric"] == f"avg_{metric(task)}":
                    seed, step, value = (float(row[name]) for name in ("seed", "env_step", "value"))
                    rows[row["exp_name"], task][int(seed)][step] = value
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; expected numbers") from error
    if not rows:
        raise InputError(f"{path} has no row with the metric avg_return or avg_success")
    names = dict.fromkeys(name for name, _ in rows)
    return tuple(
        Method(
            label=name,
            preset=name,
            ablation=None,
            settings={},
            trials={
                task: tuple(_read_trial(task, seed, points) for seed, points in rows[name, task].items())
                for task in in_order(task for each, task in rows if each == name)
            },
        )
        for name in names
    )


def _read_trial(task: str, seed: int, points: Mapping[float, float]) -> Trial:
    steps = np.array(sorted(points))
    values = np.array([points[step] for step in steps])
    return Trial(task, seed, Curve(steps, values, values, values, "1 seed"), complete=True)


def _task_id(name: str) -> str:
    """Our id for a task as the authors spell it (`dog_trot`, `h1-walk-v0`), or the name itself."""
    return _spellings().get(_plain(name), name)


@cache
def _spellings() -> dict[str, str]:
    return {_plain(task.name): task.id for task in tasks()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").removesuffix("-v0")
