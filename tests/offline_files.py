"""Known episodes, as files in the layout of D4RL, and a server that has them."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from servers import OneFile, serving

from simbav2 import datasets
from simbav2.datasets.hdf5 import Episode


def _episode(observations, actions, rewards, terminated) -> Episode:
    return Episode(
        np.array(observations, np.float32)[:, None],
        np.array(actions, np.float32)[:, None],
        np.array(rewards, np.float32),
        terminated,
    )


EPISODES = [
    _episode([0, 1, 2, 3], [0, 0.125, 0.25], [1, 2, 4], terminated=True),
    _episode([10, 11, 12, 13], [0.5, 0.625, 0.75], [8, 16, 32], terminated=False),
    _episode([20, 21], [0], [64], terminated=False),
]


def columns() -> dict[str, np.ndarray]:
    """EPISODES row by row. The second is cut by time; the file ends in the middle of the third."""
    return {
        "observations": np.concatenate([episode.observation[:-1] for episode in EPISODES]),
        "next_observations": np.concatenate([episode.observation[1:] for episode in EPISODES]),
        "actions": np.concatenate([episode.action for episode in EPISODES]),
        "rewards": np.concatenate([episode.reward for episode in EPISODES]),
        "terminals": np.array([0, 0, 1, 0, 0, 0, 0], np.bool_),
        "timeouts": np.array([0, 0, 0, 0, 0, 1, 0], np.bool_),
    }


def write_columns(path: Path, compression: str | None = None, **changes: np.ndarray | None) -> Path:
    """A file of `columns`, some of them replaced, or left out where None."""
    with h5py.File(path, "w") as file:
        for key, column in {**columns(), **changes}.items():
            if column is not None:
                file.create_dataset(key, data=column, compression=compression)
        file.create_group("infos")
        file.create_group("metadata")
    return path


@contextmanager
def mirrored(file: Path, monkeypatch, cache: Path) -> Iterator[type[OneFile]]:
    """A server with `file` as that of every data set of D4RL, from the only mirror; the cache is new."""
    OneFile.reset(monkeypatch, file.read_bytes())
    digest = hashlib.sha256(OneFile.content).hexdigest()
    monkeypatch.setattr(datasets, "D4RL", {id: replace(row, sha256=digest) for id, row in datasets.D4RL.items()})
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with serving(OneFile) as address:
        monkeypatch.setattr(datasets, "MIRRORS", (f"{address}/d4rl/",))
        yield OneFile
