"""A data set in memory (a replay that is full from the start), from a file or Minari; a report about a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simbav2 import datasets, download, runtime
from simbav2.config import Data
from simbav2.datasets import hdf5
from simbav2.datasets.hdf5 import Chunk, Source
from simbav2.envs.spaces import FlatObservations, UnitActions
from simbav2.errors import InputError
from simbav2.normalization import RunningStatistics
from simbav2.replay import Replay

MINARI = "minari/"  # the start of its ids


@dataclass(frozen=True)
class Dataset:
    replay: Replay
    episode_end: NDArray[np.bool_]  # [N], the last of its episode

    def __len__(self) -> int:
        return len(self.episode_end)

    def statistics(self, num_envs: int) -> RunningStatistics:
        """Of one pass over the data in order; the running returns of `num_envs` environments start at zero."""
        replay = self.replay
        found = RunningStatistics.start(replay.observation.shape[1], 1)
        for block in self._blocks():
            ends = self.episode_end[block]
            found = found.fit(replay.observation[block], replay.reward[block], ends, replay.discount)
        return found._replace(returns=found.returns._replace(running=np.zeros(num_envs)))

    def sha256(self) -> str:
        """Of the transitions, whatever kind of file they came from."""
        digest = hashlib.sha256(self.episode_end.tobytes())
        for block in self._blocks():
            for _, column in sorted(self.replay.export_rows(block.start, block.stop).items()):
                digest.update(column.tobytes())
        return digest.hexdigest()

    def _blocks(self) -> Iterator[slice]:
        for first in range(0, len(self), hdf5.BLOCK):
            yield slice(first, min(first + hdf5.BLOCK, len(self)))


@contextmanager
def opened(data: Data) -> Iterator[Source]:
    """The source that a config names, open for reading."""
    name = data.source
    assert name is not None
    if name.startswith(MINARI):
        yield MinariSource(name)
    else:
        with hdf5.opened(locate(name, data.file)) as recording:
            yield recording


def read(source: Source, discount: float, n_step: int = 1) -> Dataset:
    """All transitions of a source, in memory once."""
    count = source.transitions
    replay = Replay(count, source.observation_size, source.action_size, 1, n_step, discount)
    replay.added = count
    episode_end = np.zeros(count, np.bool_)
    first = 0
    for chunk in source.chunks():
        replay.import_rows(first, chunk._asdict())
        last = first + len(chunk.reward)
        episode_end[first:last] = chunk.episode_end
        first = last
    return Dataset(replay, episode_end)


def load(data: Data, discount: float, n_step: int = 1) -> Dataset:
    """The transitions that a config was made for; refuses any others."""
    with opened(data) as source:
        dataset = read(source, discount, n_step)
    if dataset.sha256() != data.sha256:
        raise InputError(f"{data.source} holds other data than the run started with; restore its file")
    return dataset


# Minari. --------------------------------------------------------------------------------------------------


class MinariSource:
    """An installed Minari data set, such as `minari/mujoco/hopper/medium-v0`.

    Observations are flattened, actions rescaled to [-1, 1].
    """

    def __init__(self, name: str, download: bool = False) -> None:
        try:
            import minari
        except ImportError as error:
            raise InputError(f"{name} needs Minari ({error}); pip install 'simbav2[offline]'") from error
        try:
            data = minari.load_dataset(name.removeprefix(MINARI), download=download)
        except Exception as error:  # Minari raises what its storage raises: not found, no network, damaged
            raise InputError(
                f"{name} cannot be loaded ({error}); `simbav2 offline {name} --download` fetches it"
            ) from error
        self.name = name
        self._data: Any = data
        self._actions = UnitActions(data.action_space, name)
        self._observations = FlatObservations(data.observation_space, name)
        spec = data.spec.env_spec
        self.task: str | None = spec.id if spec else None
        self.transitions = int(data.total_steps)
        self.observation_size = self._observations.size
        self.action_size = self._actions.size

    def chunks(self) -> Iterator[Chunk]:
        first = 0
        for episode in self._data.iterate_episodes():
            count = len(episode.rewards)
            observation = self._observations.flatten(episode.observations, (count + 1,))
            action = self._actions.from_environment(episode.actions)
            reward = np.asarray(episode.rewards, np.float32)
            for key, column in {"observations": observation, "actions": action, "rewards": reward}.items():
                hdf5.check(self.name, key, column, first)
            terminated = np.asarray(episode.terminations, np.bool_)
            end = np.array([count - 1])
            over = np.arange(count) == end
            yield Chunk(observation[:-1], action, reward, terminated, over, end, observation[-1:])
            first += count


# Files. ---------------------------------------------------------------------------------------------------


def locate(name: str, file: str | None = None) -> Path:
    """The HDF5 file of a source: `file` if given, the cache's for a D4RL id, else the source itself."""
    if file is not None:
        return Path(file).expanduser()
    if Path(name).expanduser().suffix in (".hdf5", ".h5") and not name.startswith("d4rl/"):
        return Path(name).expanduser()
    row = datasets.find(name)
    path = cache_path(row)
    if not path.is_file():
        raise InputError(
            f"{row.id} is not in {path.parent}; fetch it with `simbav2 offline {row.id} --download`, "
            f"or pass --data {row.file}"
        )
    if download.file_sha256(path) != row.sha256:
        raise InputError(
            f"{path} is damaged: its SHA-256 is not {row.sha256[:12]}...; remove it and fetch it again"
        )
    return path


def cache_path(row: datasets.D4RLDataset) -> Path:
    return runtime.cache_folder("d4rl") / row.file


def fetch(name: str, progress: download.Progress | None = None) -> str:
    """Download a D4RL or Minari data set unless it is here; returns where it is now."""
    if name.startswith(MINARI):
        return MinariSource(name, download=True).name
    row = datasets.find(name)
    if not cache_path(row).is_file():
        addresses = [mirror + row.file for mirror in datasets.MIRRORS]
        otherwise = f"get {row.file} elsewhere and pass --data FILE"
        download.fetch(cache_path(row), addresses, row.id, otherwise, row.sha256, progress=progress)
    return str(locate(name))


# A report about a file. -----------------------------------------------------------------------------------

NUMBERS = ("observations", "actions", "rewards", hdf5.NEXT)


def examine(path: Path) -> dict[str, Any]:
    """Shapes, episodes, returns, ranges, and under `problems` the reasons not to learn from the file."""
    with hdf5.opened(path) as recording:
        columns = {key: np.asarray(column[:]) for key, column in recording.columns.items()}
    numbers = {key: columns[key] for key in NUMBERS if key in columns}
    starts = np.concatenate([[0], np.flatnonzero(recording.episode_end)[:-1] + 1])
    returns = np.add.reduceat(columns["rewards"].astype(np.float64), starts)
    # Rows with the observation and action of an earlier row.
    pairs = np.ascontiguousarray(np.concatenate([columns["observations"], columns["actions"]], axis=1))
    distinct = np.unique(pairs.view(np.dtype((np.void, pairs.strides[0]))))
    return {
        "file": str(path),
        "task": recording.task,
        "rows": recording.rows,
        "transitions": recording.transitions,
        "shapes": {key: [*column.shape, str(column.dtype)] for key, column in columns.items()},
        "episodes": len(starts),
        "terminated": int(recording.terminated.sum()),
        "length": _summary(np.diff([*starts, recording.rows])),
        "return": _summary(returns),
        "ranges": {key: _range(column) for key, column in numbers.items()},
        "duplicates": len(pairs) - len(distinct),
        "problems": [
            f"{key}: {len(rows)} rows are {problem}, the first is row {rows[0]}"
            for key, column in numbers.items()
            for problem, rows in hdf5.bad_rows(key, column)
        ],
    }


def _summary(values: NDArray) -> dict[str, float]:
    return {"mean": float(values.mean()), "lowest": float(values.min()), "highest": float(values.max())}


def _range(column: NDArray) -> list[float] | None:
    finite = column[np.isfinite(column)]
    return [float(finite.min()), float(finite.max())] if finite.size else None
