"""What the training loop steps: always a batch of environments, each reset in the step that ends its episode.

Gymnasium's SyncVectorEnv would do, but it gathers every `info` entry of every step: with the nine of Ant-v4,
one environment takes 45 microseconds besides the simulator. `Members` reads what it needs and takes 8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from simbav2.envs.make import EPISODE_LENGTH, Source, custom, describe, make_member
from simbav2.envs.spaces import FlatObservations, UnitActions
from simbav2.envs.tasks import Task
from simbav2.envs.wrappers import EpisodeSeeds, episode_seed
from simbav2.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Observations: TypeAlias = NDArray[np.float32]


class Step(NamedTuple):
    """One decision of N environments. The arrays are the caller's to keep."""

    observation: Observations  # [N, O], to act on next: the first of a new episode where one has ended
    next_observation: Observations  # [N, O], what the action led to: the last of the episode where it has ended
    reward: Floats  # [N]
    terminated: Flags  # [N]
    truncated: Flags  # [N]
    success: Floats  # [N], 0 or 1; NaN where the environment does not say, so gather it with np.fmax


class Envs(ABC):
    """N environments in step. Actions are [N, A] in [-1, 1]."""

    num_envs: int
    task: Task
    episodes: list[int]  # the current episode's number in each; once set, the next `reset` starts these

    @property
    def observation_size(self) -> int:
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        return self.task.action_size

    @abstractmethod
    def reset(self) -> Observations: ...

    @abstractmethod
    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations:
        """Go on in the middle of `episodes`: start each anew and play its `actions` [decisions, A] again."""

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Step: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_vector_env(
    source: Source | VectorEnv, seed: int = 0, num_envs: int | None = None, action_repeat: int | None = None
) -> Envs:
    """`num_envs` (or one) of `source`; or all of a vector environment, which must reset in the same step."""
    if isinstance(source, VectorEnv):
        if num_envs not in (None, source.num_envs):
            raise InputError(f"num_envs is {num_envs}, but {source} came; leave num_envs out")
        if action_repeat not in (None, 1):
            raise InputError(f"action_repeat is {action_repeat}, but {source} came; repeat actions inside it")
        return Foreign(source, seed)
    if num_envs is None:
        num_envs = 1
    if num_envs < 1:
        raise InputError(f"num_envs is {num_envs}; expected at least 1")
    if isinstance(source, gym.Env) and num_envs > 1:
        raise InputError(f"num_envs is {num_envs}, but one environment came; give a callable that makes one")
    members = [make_member(source, seed, stream, action_repeat) for stream in range(num_envs)]
    return Members(members, describe(members[0], source))


class Members(Envs):
    """Environments made by `make_env`, one after the other."""

    def __init__(self, members: Sequence[EpisodeSeeds], task: Task) -> None:
        self._members = members
        self.num_envs = len(members)
        self.task = task

    @property
    def episodes(self) -> list[int]:
        return [member.episode for member in self._members]

    @episodes.setter
    def episodes(self, numbers: list[int]) -> None:
        for member, number in zip(self._members, numbers, strict=True):
            member.episode = number

    def reset(self) -> Observations:
        return np.stack([member.reset()[0] for member in self._members])

    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations:
        self.episodes = episodes
        observation = self.reset()
        for index, (member, played) in enumerate(zip(self._members, actions, strict=True)):
            for action in played:
                observation[index] = member.step(action)[0]
        return observation

    def step(self, actions: NDArray[Any]) -> Step:
        shape = (self.num_envs, self.observation_size)
        step = Step(
            observation=np.empty(shape, np.float32),
            next_observation=np.empty(shape, np.float32),
            reward=np.empty(self.num_envs),
            terminated=np.empty(self.num_envs, np.bool_),
            truncated=np.empty(self.num_envs, np.bool_),
            success=np.empty(self.num_envs),
        )
        for index, member in enumerate(self._members):
            observation, reward, terminated, truncated, info = member.step(actions[index])
            step.next_observation[index] = observation
            step.observation[index] = member.reset()[0] if terminated or truncated else observation
            step.reward[index] = reward
            step.terminated[index] = terminated
            step.truncated[index] = truncated
            step.success[index] = info.get("success", np.nan)
        return step

    def close(self) -> None:
        for member in self._members:
            member.close()


class Foreign(Envs):
    """Somebody else's vector environment.

    It resets its members itself, so only the first episodes get a seed from us, `episodes` only counts, and
    `restore` starts new episodes.
    """

    def __init__(self, vector: VectorEnv, seed: int) -> None:
        # The metadata is the last word only for lack of the attribute: environments of one class share it.
        mode = getattr(vector.unwrapped, "autoreset_mode", vector.metadata.get("autoreset_mode"))
        if mode != AutoresetMode.SAME_STEP:
            raise InputError(
                f"the autoreset mode of {vector} is {mode}; "
                "make it with autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
            )
        self._vector = vector
        self._seed = seed
        self._actions = UnitActions(vector.single_action_space, vector)
        self._observations = FlatObservations(vector.single_observation_space, vector)
        self.num_envs = vector.num_envs
        self.episodes = [0] * self.num_envs
        spec = vector.spec
        name = spec.id if spec else type(vector).__name__
        length = (spec.max_episode_steps if spec else None) or EPISODE_LENGTH
        self.task = custom(name, self._observations.size, self._actions.size, 1, length)

    def reset(self) -> Observations:
        observation, _ = self._vector.reset(seed=episode_seed(self._seed, *self.episodes))
        return self._observations.flatten(observation, (self.num_envs,))

    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations:
        self.episodes = list(episodes)
        return self.reset()

    def step(self, actions: NDArray[Any]) -> Step:
        observation, reward, terminated, truncated, info = self._vector.step(self._actions.to_environment(actions))
        step = Step(
            observation=self._observations.flatten(observation, (self.num_envs,)),
            next_observation=self._observations.flatten(observation, (self.num_envs,)),
            reward=np.array(reward, np.float64),
            terminated=np.array(terminated, np.bool_),
            truncated=np.array(truncated, np.bool_),
            success=np.full(self.num_envs, np.nan),
        )
        ended = step.terminated | step.truncated
        for index in np.flatnonzero(ended).tolist():
            step.next_observation[index] = self._observations.flatten(_member(info["final_obs"], index))
        if ended.any():
            self.episodes = [number + int(over) for number, over in zip(self.episodes, ended, strict=True)]
        for told in (info, info.get("final_info", {})):
            if "success" in told:
                who = told.get("_success", np.full(self.num_envs, True))
                step.success[who] = told["success"][who]
        return step

    def close(self) -> None:
        self._vector.close()


def _member(batch: Any, index: int) -> Any:
    """Entry `index` of a batch that is an array, an array of objects, or a dict of such."""
    return {key: _member(part, index) for key, part in batch.items()} if isinstance(batch, dict) else batch[index]
