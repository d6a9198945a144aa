"""Dataset experience in memory: a replay that is full from the start."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simbav2 import download
from simbav2.config import Data
from simbav2.datasets import catalog, hdf5
from simbav2.datasets.minari import PREFIX, MinariSource
from simbav2.datasets.part import Source
from simbav2.errors import InputError
from simbav2.normalization import RunningStatistics
from simbav2.replay import Replay


@dataclass(frozen=True)
class Dataset:
    replay: Replay
    over: NDArray[np.bool_]  # [N], the last of its episode

    def statistics(self, num_envs: int) -> RunningStatistics:
        """Of one pass over the data in order, episode by episode; the episodes of `num_envs` are yet to start."""
        replay, rows = self.replay, len(self.over)
        found = RunningStatistics.start(replay.observation.shape[1], 1)
        for first in range(0, rows, hdf5.BLOCK):
            block = slice(first, min(first + hdf5.BLOCK, rows))
            found = found.fit(replay.observation[block], replay.reward[block], self.over[block], replay.discount)
        return found._replace(returns=found.returns._replace(running=np.zeros(num_envs)))

    def sha256(self) -> str:
        """Of the transitions themselves, whatever kind of file they came from."""
        digest, rows = hashlib.sha256(self.over.tobytes()), len(self.over)
        for first in range(0, rows, hdf5.BLOCK):
            for _, column in sorted(self.replay.export_rows(first, min(first + hdf5.BLOCK, rows)).items()):
                digest.update(column.tobytes())
        return digest.hexdigest()


@contextmanager
def opened(data: Data) -> Iterator[Source]:
    """The source that a config names, open for reading."""
    name = data.source
    assert name is not None
    if name.startswith(PREFIX):
        yield MinariSource(name)
    else:
        with hdf5.opened(locate(name, data.file)) as recording:
            yield recording


def locate(name: str, file: str | None = None) -> Path:
    """The HDF5 file of a source: `file` where given, else the cache's for a D4RL id, else the source itself."""
    if file is not None:
        return Path(file).expanduser()
    if Path(name).expanduser().suffix in (".hdf5", ".h5") and not name.startswith("d4rl/"):
        return Path(name).expanduser()
    return download.cached(catalog.find(name))


def fetch(name: str, progress: download.Progress | None = None) -> str:
    """Get a D4RL or Minari data set onto this machine; where it is now."""
    if name.startswith(PREFIX):
        return MinariSource(name, download=True).name
    return str(download.fetch(catalog.find(name), progress))


def read(source: Source, discount: float, n_step: int = 1) -> Dataset:
    """All transitions of a source, in memory once."""
    count = source.transitions
    replay = Replay(count, source.observation_size, source.action_size, 1, n_step, discount)
    replay.added = count
    over = np.zeros(count, np.bool_)
    first = 0
    for part in source.parts():
        replay.import_rows(first, {**part._asdict(), "ended": part.apart})
        over[first : first + len(part.over)] = part.over
        first += len(part.over)
    return Dataset(replay, over)


def load(data: Data, discount: float, n_step: int = 1) -> Dataset:
    """The very transitions that a config was made for."""
    with opened(data) as source:
        recorded = read(source, discount, n_step)
    if recorded.sha256() != data.sha256:
        raise InputError(f"{data.source} holds other data than the run began with; give it back its file")
    return recorded
