"""Known episodes, as files in the layout of D4RL."""

from pathlib import Path

import h5py
import numpy as np

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
