"""Minari data sets by their id, such as `minari/mujoco/hopper/medium-v0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from simbav2.datasets.hdf5 import Chunk, check
from simbav2.envs.spaces import FlatObservations, UnitActions
from simbav2.errors import InputError

PREFIX = "minari/"


class MinariSource:
    """An installed data set. Observations are flattened, actions rescaled to [-1, 1]."""

    def __init__(self, name: str, download: bool = False) -> None:
        try:
            import minari
        except ImportError as error:
            raise InputError(f"{name} needs Minari ({error}); pip install 'simbav2[offline]'") from error
        try:
            data = minari.load_dataset(name.removeprefix(PREFIX), download=download)
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
                check(self.name, key, column, first)
            terminated = np.asarray(episode.terminations, np.bool_)
            end = np.array([count - 1])
            over = np.arange(count) == end
            yield Chunk(observation[:-1], action, reward, terminated, over, end, observation[-1:])
            first += count
