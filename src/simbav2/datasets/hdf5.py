"""Files in the layout of D4RL: one row per step, `terminals` where the episode truly ended, `timeouts` where it
was cut.

Read in blocks, so that a file takes little more memory than the transitions it becomes. `next_observations`
are taken where the file has them. Where it has none, they are the observations one row on; the last row of an
episode that was cut has no successor then and is left out, and a terminal row needs none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2.datasets.part import Chunk, check_actions, check_finite
from simbav2.errors import InputError

KEYS = ("observations", "actions", "rewards", "terminals", "timeouts")
NEXT = "next_observations"
BLOCK = 1 << 16  # rows


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path} needs h5py ({error}); pip install 'simbav2[offline]'") from error
    return h5py


@contextmanager
def opened(path: Path) -> Iterator[Recording]:
    """The file, checked as far as its shapes go."""
    h5py = _h5py(path)
    if not path.is_file():
        raise InputError(f"{path} is not there; expected an HDF5 file in the layout of D4RL")
    try:
        with h5py.File(path, "r") as file:
            yield Recording(file, path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error}); truncated or no HDF5 file: fetch it again") from error


class Recording:
    """One opened file."""

    def __init__(self, file: Any, path: Path) -> None:
        self.name = str(path)
        missing = [key for key in KEYS if key not in file]
        if missing:
            raise InputError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(file)) or 'nothing'}")
        self.columns = {key: file[key] for key in (*KEYS, NEXT) if key in file}
        self._check_shapes()
        self.task: str | None = file.attrs.get("task")
        self.rows = len(self.columns["observations"])
        self.observation_size = int(self.columns["observations"].shape[1])
        self.action_size = int(self.columns["actions"].shape[1])
        self.terminated = self.columns["terminals"][:].astype(np.bool_)
        self.over = self.terminated | self.columns["timeouts"][:].astype(np.bool_)
        self.over[-1:] = True
        # Without a stored successor, the last row of an episode that was cut has none.
        self.dropped = self.over & ~self.terminated & (NEXT not in self.columns)
        self.transitions = self.rows - int(self.dropped.sum())
        if not self.transitions:
            raise InputError(f"{path} holds no transition; expected at least one")

    def _check_shapes(self) -> None:
        expected = self.columns["observations"].shape
        for key, column in self.columns.items():
            dimensions = 2 if key in ("observations", "actions", NEXT) else 1
            if column.ndim != dimensions:
                raise InputError(f"{self.name} {key} has shape {column.shape}; expected {dimensions} dimensions")
            if len(column) != expected[0]:
                raise InputError(
                    f"{self.name} {key} has {len(column)} rows, observations have {expected[0]}; expected as many"
                )
        if NEXT in self.columns and self.columns[NEXT].shape != expected:
            raise InputError(f"{self.name} {NEXT} has shape {self.columns[NEXT].shape}; expected {expected}")

    def block(self, key: str, first: int) -> NDArray[np.float32]:
        """Rows from `first` on, checked."""
        values: NDArray[np.float32] = self.columns[key][first : first + self.block_size].astype(np.float32)
        check_finite(values, f"{self.name} {key}", first)
        return values

    @property
    def block_size(self) -> int:
        """A multiple of how the file itself is cut, so that nothing is unpacked twice."""
        stored = (self.columns["observations"].chunks or (1,))[0]
        return max(1, BLOCK // stored) * stored

    def parts(self) -> Iterator[Chunk]:
        following = self.block("observations", 0)
        for first in range(0, self.rows, self.block_size):
            observation = following
            last = first + len(observation)
            following = self.block("observations", last) if last < self.rows else observation[-1:]
            action = self.block("actions", first)
            check_actions(action, f"{self.name} actions", first)
            rows = slice(first, last)
            successor, apart, over = self._successors(rows, np.concatenate([observation[1:], following[:1]]))
            part = Chunk(
                observation=observation,
                action=action,
                reward=self.block("rewards", first),
                terminated=self.terminated[rows],
                over=over,
                apart=np.flatnonzero(apart),
                final_observation=successor[apart],
            )
            yield _without(part, self.dropped[rows])

    def _successors(self, rows: slice, one_on: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Each row's successor, whether it is other than the observation `one_on`, and the ends of episodes."""
        over = self.over[rows]
        if NEXT in self.columns:
            successor = self.block(NEXT, rows.start)
            return successor, over | (successor != one_on).any(axis=1), over
        before_dropped = np.append(self.dropped[rows.start + 1 : rows.stop + 1], False)[: len(over)] & ~over
        # What follows a terminal row is never looked at: any finite observation will do.
        apart = before_dropped | self.terminated[rows]
        return one_on, apart, apart


def _without(part: Chunk, dropped: NDArray) -> Chunk:
    if not dropped.any():
        return part
    kept = ~dropped
    columns = {name: getattr(part, name)[kept] for name in Chunk._fields[:5]}
    place = np.cumsum(kept) - 1
    return Chunk(**columns, apart=place[part.apart], final_observation=part.final_observation)


# Writing. -------------------------------------------------------------------------------------------------


class Episode(NamedTuple):
    observation: NDArray[np.float32]  # [T + 1, O]
    action: NDArray[np.float32]  # [T, A]
    reward: NDArray[np.float32]  # [T]
    terminated: bool  # else it was cut


def write(path: Path, task: str, episodes: Iterable[Episode]) -> int:
    """A new file of `episodes`, whole or not at all; returns its number of transitions."""
    h5py = _h5py(path)
    whole = list(episodes)
    ends = np.cumsum([len(episode.reward) for episode in whole]) - 1
    if not whole:
        raise InputError(f"no episode to write to {path}; expected at least one")
    terminated = np.array([episode.terminated for episode in whole])
    terminals, timeouts = np.zeros(ends[-1] + 1, np.bool_), np.zeros(ends[-1] + 1, np.bool_)
    terminals[ends], timeouts[ends] = terminated, ~terminated
    columns = {
        "observations": np.concatenate([episode.observation[:-1] for episode in whole]),
        NEXT: np.concatenate([episode.observation[1:] for episode in whole]),
        "actions": np.concatenate([episode.action for episode in whole]),
        "rewards": np.concatenate([episode.reward for episode in whole]),
        "terminals": terminals,
        "timeouts": timeouts,
    }
    beside = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(beside, "w") as file:
        file.attrs["task"] = task
        for key, column in columns.items():
            file.create_dataset(key, data=column)
    os.replace(beside, path)
    return len(terminals)
