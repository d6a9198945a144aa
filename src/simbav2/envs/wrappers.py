"""The wrappers that turn a simulator into an environment of the benchmark.

Each records its arguments, so that Gymnasium can make the same environment again from `env.spec`.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from simbav2.envs.spaces import FlatObservations, UnitActions


class ActionRepeat(gym.Wrapper, RecordConstructorArgs):
    """Every action lasts `action_repeat` simulator steps, or up to the episode's end; rewards add up."""

    def __init__(self, env: gym.Env, action_repeat: int) -> None:
        RecordConstructorArgs.__init__(self, action_repeat=action_repeat)
        gym.Wrapper.__init__(self, env)
        self.action_repeat = action_repeat

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        total, success = 0.0, False
        for _ in range(self.action_repeat):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            success = success or bool(info.get("success", False))
            if terminated or truncated:
                break
        if success:  # at any of the steps, not only at the last
            info = {**info, "success": True}
        return observation, total, bool(terminated), bool(truncated), info


class VectorSpaces(gym.Wrapper, RecordConstructorArgs):
    """Actions in [-1, 1], flat float32 observations."""

    def __init__(self, env: gym.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self.actions = UnitActions(env.action_space, env.unwrapped)
        self.observations = FlatObservations(env.observation_space, env.unwrapped)
        self.action_space = self.actions.space
        self.observation_space = self.observations.space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observations.flatten(observation), info

    def step(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self.actions.to_environment(action))
        return self.observations.flatten(observation), reward, terminated, truncated, info


class EpisodeSeeds(gym.Wrapper, RecordConstructorArgs):
    """Every episode has its own seed, made from the run's seed and the episode's number.

    So an episode can be repeated without those before it, which resuming a run needs: after `env.episode = k` the
    next `reset()` starts episode k. As in Gymnasium, `reset(seed=s)` starts a new run with seed `s`; its episode 0
    has the seed `s` itself.
    """

    def __init__(self, env: gym.Env, seed: int, stream: int = 0) -> None:
        RecordConstructorArgs.__init__(self, seed=seed, stream=stream)
        gym.Wrapper.__init__(self, env)
        self._seed = seed
        self._stream = stream  # the number among environments that share the seed
        self.episode = 0

    @property
    def episode(self) -> int:
        """The number of the current episode; before the first reset, of the one to come."""
        return self._episode

    @episode.setter
    def episode(self, number: int) -> None:
        self._episode = number
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        if seed is None:
            self._episode += self._started
            seed = episode_seed(self._seed, self._stream, self._episode)
        else:
            self._seed, self._episode = seed, 0
        self._started = True
        return self.env.reset(seed=seed, options=options)


def episode_seed(seed: int, *place: int) -> int:
    """A 32-bit seed for the episode at `place` (member of the vector environment, number) in a run."""
    return int(np.random.SeedSequence(seed, spawn_key=place).generate_state(1)[0])
