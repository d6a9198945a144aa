"""What the paper prints, as tidy data: task ids and units are ours, and a row we doubt says so in its `note`.

`published/tasks.csv` holds the values task by task: table `full` (all methods), `utd` (SimbaV2 at `variant`
updates per decision) and `ablation_full` (SimbaV2 with the change `variant`, a to m).
`published/aggregates.csv` holds what the paper makes of them, normalised: `online` is its table 1 (`variant` low
or high UTD), `ablation` its table 2. Values stand as printed, except for two cells of cheetah-run that the paper
exchanged; `docs/published-numbers.md` lists everything that does not add up.

`published/successors.csv` holds methods published after or beside SimbaV2, task by task at fixed budgets, and
`published/protocols.csv` how each of them was run. An empty cell there is not known to us.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simbav2.envs.tasks import normalized_score
from simbav2.experiments.report.scores import metric

FOLDER = Path(__file__).parent / "published"
Z = 1.96  # half-widths of the paper's intervals are so many standard errors

ABLATIONS = {
    "a": "L2 Normalize → No L2 Normalize",
    "b": "Shifting → No Shifting",
    "c": "Shift constant: 3 → 1",
    "d": "Shift Projection → Resize Projection",
    "e": "Categorical Loss → MSE Loss",
    "f": "Reward Scaling → No Scaling",
    "g": "Reward Bounding → No Bounding",
    "h": "Soft Target → Hard Target",
    "i": "LR Decay → No LR Decay",
    "j": "Scaler init: √(2/d) → 1",
    "k": "Scaler scale: √(2/d) → 1",
    "l": "LERP init: 1/(L+1) → 0.5",
    "m": "LERP scale: 1/√d → 1",
}
UTD = ("1", "2", "4", "8")


class Published(NamedTuple):
    """A mean with its 95 % interval; NaN where the paper gives none."""

    mean: float
    low: float
    high: float
    approximate: bool = False  # the interval is made from the means of tasks, not from runs
    note: str = ""

    @property
    def standard_error(self) -> float:
        return (self.high - self.low) / (2 * Z)


def published_score(task_id: str) -> Published | None:
    """SimbaV2 at two updates per decision after 1M simulator steps, or None where the paper has no value."""
    return task_scores("utd", variant="2").get(task_id)


def published_mean(ids: Iterable[str]) -> float:
    """SimbaV2's normalised mean on these tasks, from the paper's values task by task."""
    return normalized_mean(task_scores("utd", variant="2"), ids)


def normalized_mean(values: Mapping[str, Published], ids: Iterable[str]) -> float:
    """NaN where one of the tasks has no value."""
    scores = [normalized_score(task, values[task].mean) if task in values else None for task in ids]
    return float(np.mean([math.nan if score is None else score for score in scores]))


@cache
def task_scores(table: str, method: str = "SimbaV2", variant: str = "") -> dict[str, Published]:
    """By task id: returns, or success rates between 0 and 1 where success is the metric."""
    wanted = (table, method, variant)
    return {
        row["task"]: _published(row)
        for row in _rows("tasks.csv")
        if (row["table"], row["method"], row["variant"]) == wanted
    }


@cache
def aggregates(table: str, variant: str = "", statistic: str = "mean") -> dict[str, dict[str, Published]]:
    """By method and suite (`all` is the paper's last column), in the order of the paper."""
    found: dict[str, dict[str, Published]] = {}
    for row in _rows("aggregates.csv"):
        if (row["table"], row["variant"], row["statistic"]) == (table, variant, statistic):
            found.setdefault(row["method"], {})[row["suite"]] = _published(row)
    return found


@cache
def offline_scores() -> dict[str, dict[str, Published]]:
    """D4RL scores by method and data set (`average` is the paper's last column)."""
    found: dict[str, dict[str, Published]] = {}
    for row in _rows("offline.csv"):
        mean, half = float(row["mean"]), float(row["interval"] or "nan")
        value = Published(mean, mean - half, mean + half, note=row["note"])
        found.setdefault(row["method"], {})[row["dataset"]] = value
    return found


class Protocol(NamedTuple):
    """How a result was made, beside the method itself; None where it is not stated."""

    action_repeat: float | None = None
    discount: float | None = None
    batch_size: float | None = None
    updates_per_env_step: float | None = None  # of the simulator
    evaluation_episodes: float | None = None


class Successor(NamedTuple):
    """A method published after or beside SimbaV2: mean and standard deviation over seeds at one budget."""

    method: str
    mean: float
    deviation: float
    seeds: int
    protocol: Protocol


def successors(task_id: str, env_step: int) -> tuple[Successor, ...]:
    """What was published for a task, by its own metric, after so many simulator steps."""
    return _successors().get((task_id, env_step), ())


@cache
def _successors() -> dict[tuple[str, int], tuple[Successor, ...]]:
    protocols = {(row["method"], row["family"]): row for row in _rows("protocols.csv")}
    found: dict[tuple[str, int], tuple[Successor, ...]] = {}
    for row in _rows("successors.csv"):
        task, method = row["task"], row["method"]
        if row["metric"] != metric(task):
            continue
        stated = protocols.get((method, task.partition("/")[0])) or protocols[method, "all"]
        values = (float(stated[name]) if stated[name] else None for name in Protocol._fields)
        value = Successor(method, float(row["mean"]), float(row["std"]), int(row["seeds"]), Protocol(*values))
        found[task, int(row["env_step"])] = (*found.get((task, int(row["env_step"])), ()), value)
    return found


@cache
def seeds() -> dict[tuple[str, str], int]:
    """Random seeds behind the values of a (method, suite)."""
    return {(row["method"], row["suite"]): int(row["seeds"]) for row in _rows("seeds.csv")}


@cache
def method_names(table: str) -> tuple[str, ...]:
    """The methods with values for single tasks, in the order of the paper."""
    return tuple(dict.fromkeys(row["method"] for row in _rows("tasks.csv") if row["table"] == table))


def _published(row: dict[str, str]) -> Published:
    low, mean, high = (float(row[name]) for name in ("low", "mean", "high"))
    return Published(mean, low, high, row["approximate"] == "1", row["note"])


def _rows(file: str) -> Iterator[dict[str, str]]:
    with (FOLDER / file).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)
