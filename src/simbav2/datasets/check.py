"""A look at a file before anyone learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simbav2.datasets import hdf5

NUMBERS = ("observations", "actions", "rewards", hdf5.NEXT)


def examine(path: Path) -> dict[str, Any]:
    """Shapes, episodes, returns, ranges, and under `problems` all that stands against learning from the file."""
    with hdf5.opened(path) as recording:
        columns = {key: np.asarray(column[:]) for key, column in recording.columns.items()}
        over, terminated = recording.over, recording.terminated
        transitions, task = recording.transitions, recording.task
    returns, lengths = _episodes(columns["rewards"], over)
    duplicates = _duplicates(columns["observations"], columns["actions"])
    return {
        "file": str(path),
        "task": task,
        "rows": len(over),
        "transitions": transitions,
        "shapes": {key: [*column.shape, str(column.dtype)] for key, column in columns.items()},
        "episodes": len(returns),
        "terminated": int(terminated.sum()),
        "length": _summary(lengths),
        "return": _summary(returns),
        "ranges": {key: _range(columns[key]) for key in NUMBERS if key in columns},
        "duplicates": duplicates,
        "problems": _problems(columns),
    }


def _episodes(rewards: NDArray, over: NDArray) -> tuple[NDArray, NDArray]:
    """The return and the length of every episode."""
    starts = np.concatenate([[0], np.flatnonzero(over)[:-1] + 1])
    return np.add.reduceat(rewards.astype(np.float64), starts), np.diff([*starts, len(over)])


def _summary(values: NDArray) -> dict[str, float]:
    return {"mean": float(values.mean()), "lowest": float(values.min()), "highest": float(values.max())}


def _range(column: NDArray) -> list[float] | None:
    finite = column[np.isfinite(column)]
    return [float(finite.min()), float(finite.max())] if finite.size else None


def _duplicates(observations: NDArray, actions: NDArray) -> int:
    """Rows whose observation and action another row has already."""
    rows = np.ascontiguousarray(np.concatenate([observations, actions], axis=1))
    return len(rows) - len(np.unique(rows.view(np.dtype((np.void, rows.strides[0])))))


def _problems(columns: dict[str, NDArray]) -> list[str]:
    found = []
    for key in NUMBERS:
        if key in columns:
            bad = np.flatnonzero(~np.isfinite(columns[key]).reshape(len(columns[key]), -1).all(axis=1))
            if len(bad):
                found.append(f"{key}: {len(bad)} rows are not finite, the first is row {bad[0]}")
    outside = np.flatnonzero((np.abs(columns["actions"]) > 1).any(axis=1))
    if len(outside):
        found.append(f"actions: {len(outside)} rows are outside [-1, 1], the first is row {outside[0]}")
    return found
