"""Learning curves in the long CSV of the field, one row per evaluation, as several groups release theirs:

    exp_name,env_name,seed,metric,env_step,value

Columns may stand in any order and others may stand between them; rows of other metrics are left out.
"""

from __future__ import annotations

import csv
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from simbav2.envs.tasks import tasks
from simbav2.errors import InputError
from simbav2.experiments.report.scores import Curve, Method, Trial, in_order, metric, run_curve

COLUMNS = ("exp_name", "env_name", "seed", "metric", "env_step", "value")
# How the metric is called: `avg_return` by SimbaV2's authors.
METRICS = {
    f"{prefix}{name}": name
    for name in ("return", "success")
    for prefix in ("avg_", "", "mean_", "eval_", "eval/avg_", "eval/")
} | {"episode_return": "return", "success_rate": "success"}


def read_curves(file: str | os.PathLike[str]) -> tuple[Method, ...]:
    """One method for each `exp_name`; steps are taken as they stand."""
    rows: dict[tuple[str, str], dict[int, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    path = Path(file)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path} lacks the column {missing[0]!r}; expected {','.join(COLUMNS)}")
            for row in reader:
                task = _task_id(row["env_name"] or "")
                if METRICS.get(row["metric"]) == metric(task):
                    seed, step, value = (float(row[name]) for name in ("seed", "env_step", "value"))
                    rows[row["exp_name"], task][int(seed)][step] = value
    except InputError:
        raise
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
    """Our id for a task as others spell it (`dog_trot`, `h1-walk-v0`, `dmc-dog-trot`), or the name itself."""
    return _spellings().get(_plain(name), name)


@cache
def _spellings() -> dict[str, str]:
    return {_plain(name): task.id for task in tasks() for name in (task.name, task.id, task.id.replace("/", "-"))}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").removesuffix("-v0")


def write_curves(found: Sequence[Method], file: Path) -> None:
    """Every evaluation of all methods; tasks by our ids, means over episodes as `avg_return` and `avg_success`."""
    with file.open("w", encoding="utf-8", errors="replace", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(COLUMNS)
        for method in found:
            for trial in (trial for trials in method.trials.values() for trial in trials):
                for name, curve in _curves(trial):
                    for step, value in zip(curve.env_step, curve.mean, strict=True):
                        if not math.isnan(value):
                            where = (method.label, trial.task, trial.seed, f"avg_{name}")
                            table.writerow((*where, int(step), value))


def _curves(trial: Trial) -> Iterator[tuple[str, Curve]]:
    if trial.run is None:
        yield metric(trial.task), trial.curve
    else:
        yield from ((name, run_curve(trial.run, name)) for name in ("return", "success"))
