"""Files in the layout of D4RL: one row per step, `terminals` where the episode terminated, `timeouts` where it was
truncated. `Chunk` and `Source` are what a file of any layout is read as.

Files are read in blocks, so that reading takes little more memory than the transitions. Where a file has no
`next_observations`, they are the observations of the next row; then the last row of a truncated episode has no
successor and is left out, and a terminal row needs none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simbav2.errors import InputError

KEYS = ("observations", "actions", "rewards", "terminals", "timeouts")
NEXT = "next_observations"
BLOCK = 1 << 16  # rows


class Chunk(NamedTuple):
    """Consecutive transitions. A row's successor is the observation of the next row, unless it is in `ended`."""

    observation: NDArray[np.float32]  # [N, O]
    action: NDArray[np.float32]  # [N, A], in [-1, 1]
    reward: NDArray[np.float32]  # [N]
    terminated: NDArray[np.bool_]  # [N]
    episode_end: NDArray[np.bool_]  # [N], the last of its episode
    ended: NDArray[np.int64]  # rows
    final_observation: NDArray[np.float32]  # [len(ended), O], their successors


class Source(Protocol):
    """An opened data set."""

    name: str
    task: str | None  # the environment it was recorded in, if it says so
    transitions: int
    observation_size: int
    action_size: int

    def chunks(self) -> Iterator[Chunk]: ...


def bad_rows(key: str, column: NDArray) -> Iterator[tuple[str, NDArray]]:
    """What is wrong with a column, and in which rows."""
    if len(rows := np.flatnonzero(~np.isfinite(column).reshape(len(column), -1).all(axis=1))):
        yield "not finite", rows
    if key == "actions" and len(rows := np.flatnonzero((np.abs(column) > 1).any(axis=1))):
        yield "outside [-1, 1]", rows


def check(name: str, key: str, column: NDArray, first_row: int) -> None:
    for problem, (row, *_) in bad_rows(key, column):
        remedy = "fix or remove its episode" if problem == "not finite" else "rescale actions to [-1, 1] first"
        raise InputError(f"{name} {key} row {first_row + row} is {problem}: {column[row]}; {remedy}")


# Reading. -------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[Recording]:
    """The file, with the shapes of its columns checked."""
    h5py = _h5py(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist; expected an HDF5 file in the layout of D4RL")
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
        self.episode_end = self.terminated | self.columns["timeouts"][:].astype(np.bool_)
        self.episode_end[-1:] = True
        # Without a stored successor, the last row of a truncated episode has none.
        self.dropped = self.episode_end & ~self.terminated & (NEXT not in self.columns)
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
        check(self.name, key, values, first)
        return values

    @property
    def block_size(self) -> int:
        """A multiple of the file's own chunks, so that none is decompressed twice."""
        stored = (self.columns["observations"].chunks or (1,))[0]
        return max(1, BLOCK // stored) * stored

    def chunks(self) -> Iterator[Chunk]:
        following = self.block("observations", 0)
        for first in range(0, self.rows, self.block_size):
            observation = following
            last = first + len(observation)
            following = self.block("observations", last) if last < self.rows else observation[-1:]
            rows = slice(first, last)
            next_row = np.concatenate([observation[1:], following[:1]])
            successor, ended, episode_end = self._successors(rows, next_row)
            chunk = Chunk(
                observation=observation,
                action=self.block("actions", first),
                reward=self.block("rewards", first),
                terminated=self.terminated[rows],
                episode_end=episode_end,
                ended=np.flatnonzero(ended),
                final_observation=successor[ended],
            )
            yield _without(chunk, self.dropped[rows])

    def _successors(self, rows: slice, next_row: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Each row's successor, whether it differs from that of the `next_row`, and the ends of episodes."""
        episode_end = self.episode_end[rows]
        if NEXT in self.columns:
            successor = self.block(NEXT, rows.start)
            return successor, episode_end | (successor != next_row).any(axis=1), episode_end
        next_dropped = np.append(self.dropped[rows.start + 1 : rows.stop + 1], False)[: len(episode_end)]
        # The successor of a terminal row is never used: any finite observation will do.
        ended = (next_dropped & ~episode_end) | self.terminated[rows]
        return next_row, ended, ended


def _without(chunk: Chunk, dropped: NDArray) -> Chunk:
    if not dropped.any():
        return chunk
    kept = ~dropped
    columns = {name: getattr(chunk, name)[kept] for name in Chunk._fields[:5]}
    place = np.cumsum(kept) - 1
    return Chunk(**columns, ended=place[chunk.ended], final_observation=chunk.final_observation)


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path} needs h5py ({error}); pip install 'simbav2[offline]'") from error
    return h5py


# Writing. -------------------------------------------------------------------------------------------------


class Episode(NamedTuple):
    observation: NDArray[np.float32]  # [T + 1, O]
    action: NDArray[np.float32]  # [T, A]
    reward: NDArray[np.float32]  # [T]
    terminated: bool  # else truncated


def write(path: Path, task: str, episodes: Iterable[Episode]) -> int:
    """Write `episodes` to a new file, complete or not at all; returns the number of transitions."""
    h5py = _h5py(path)
    recorded = list(episodes)
    if not recorded:
        raise InputError(f"no episode to write to {path}; expected at least one")
    ends = np.cumsum([len(episode.reward) for episode in recorded]) - 1
    terminated = np.array([episode.terminated for episode in recorded])
    terminals, timeouts = np.zeros(ends[-1] + 1, np.bool_), np.zeros(ends[-1] + 1, np.bool_)
    terminals[ends], timeouts[ends] = terminated, ~terminated
    columns = {
        "observations": np.concatenate([episode.observation[:-1] for episode in recorded]),
        NEXT: np.concatenate([episode.observation[1:] for episode in recorded]),
        "actions": np.concatenate([episode.action for episode in recorded]),
        "rewards": np.concatenate([episode.reward for episode in recorded]),
        "terminals": terminals,
        "timeouts": timeouts,
    }
    temporary = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(temporary, "w") as file:
        file.attrs["task"] = task
        for key, column in columns.items():
            file.create_dataset(key, data=column)
    os.replace(temporary, path)
    return len(terminals)
