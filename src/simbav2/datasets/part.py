"""What every source of recorded experience gives: rows in order, some tens of thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simbav2.errors import InputError


class Chunk(NamedTuple):
    """Consecutive transitions. The successor of a row is the observation of the next, unless it is in `apart`."""

    observation: NDArray[np.float32]  # [N, O]
    action: NDArray[np.float32]  # [N, A], in [-1, 1]
    reward: NDArray[np.float32]  # [N]
    terminated: NDArray[np.bool_]  # [N]
    over: NDArray[np.bool_]  # [N], the last of its episode
    apart: NDArray[np.int64]  # rows
    final_observation: NDArray[np.float32]  # [len(apart), O], their successors


class Source(Protocol):
    """An opened data set."""

    name: str
    task: str | None  # the environment it was recorded in, where it says so
    transitions: int
    observation_size: int
    action_size: int

    def parts(self) -> Iterator[Chunk]: ...


def check_finite(array: NDArray, place: str, first_row: int) -> None:
    """Refuse what no network can learn from; `place` names file and key."""
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        raise InputError(f"{place} row {first_row + row} is not finite: {array[row]}; mend or remove its episode")


def check_actions(action: NDArray, place: str, first_row: int) -> None:
    outside = np.abs(action).max(axis=1, initial=0.0) > 1
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(
            f"{place} row {first_row + row} is outside [-1, 1]: {action[row]}; rescale actions to [-1, 1] first"
        )
