"""The five suites: their names, their tasks, and the mean of published values on any tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from simbav2.envs.tasks import SUITES, normalized_score, tasks
from simbav2.experiments.report.published import Published, task_scores
from simbav2.experiments.report.scores import known_tasks

TITLES = {**{name: suite.title for name, suite in SUITES.items()}, "all": "All"}
UNITS = {name: suite.unit for name, suite in SUITES.items()}
COLUMNS = (*SUITES, "all")
PARTIAL = "of the tasks that were run; not comparable with a whole suite, and not highlighted"


def suite_tasks(suite: str) -> tuple[str, ...]:
    return tuple(task.id for task in tasks(None if suite == "all" else suite))


def spanned(ids: Iterable[str]) -> set[str]:
    """The suites that some tasks are of."""
    return {known_tasks()[task].suite for task in ids}


def published_mean(ids: Iterable[str]) -> float:
    """SimbaV2's normalised mean on these tasks, from the paper's values task by task."""
    return normalized_mean(task_scores("utd", variant="2"), ids)


def normalized_mean(values: Mapping[str, Published], ids: Iterable[str]) -> float:
    """NaN where one of the tasks has no value."""
    scores = [normalized_score(task, values[task].mean) if task in values else None for task in ids]
    return float(np.mean([math.nan if score is None else score for score in scores]))
