"""What the paper reports for SimbaV2, task by task, after 1M simulator steps at two updates per decision.

`published/utd_scaling.csv` is the paper's table of UTD scaling, as printed. It is used rather than the table
of all methods because that one prints 821 for cheetah-run under SimbaV2, where 920 (here and in the design
study) is the only value that reproduces the printed mean. Undone here: MyoSuite stands in percent, and
HumanoidBench tasks carry a `-v0` that their ids do not.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parent / "published" / "utd_scaling.csv"
AGGREGATES = ("IQM", "Median", "Mean")
FAMILY = {"dmc-easy": "dmc", "dmc-hard": "dmc"}  # both suites share one prefix in task ids


class Published(NamedTuple):
    """A return, or a success rate between 0 and 1 where success is the metric, with its 95 % interval."""

    mean: float
    low: float
    high: float


def published_score(task_id: str) -> Published | None:
    """The paper's value for a task, or None where it has none."""
    return _table().get(task_id)


@cache
def _table() -> dict[str, Published]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["utd"] == "2" and row["task"] not in AGGREGATES]
    scores = {}
    for row in rows:
        suite = row["suite"]
        task_id = f"{FAMILY.get(suite, suite)}/{row['task'].removesuffix('-v0')}"
        unit = 100.0 if suite == "myosuite" else 1.0
        scores[task_id] = Published(*(float(row[name]) / unit for name in ("mean", "ci_low", "ci_high")))
    return scores
