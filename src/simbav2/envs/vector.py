"""What the training loop steps: always a batch of environments, each reset in the step that ends its episode.

What comes of them is looked at before it is handed on: a number that is not finite, an environment that raises or
whose process dies is a `BadStep`, after which `episodes` are still those of the last good step.

Gymnasium's SyncVectorEnv would do, but it gathers every `info` entry of every step: with the nine of Ant-v4,
one environment takes 45 microseconds besides the simulator. `Members` reads what it needs and takes 8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple, Self, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from simbav2.envs.make import EPISODE_LENGTH, Source, custom, describe, make_member
from simbav2.envs.spaces import FlatObservations, UnitActions
from simbav2.envs.tasks import Task
from simbav2.envs.wrappers import EpisodeSeeds, episode_seed
from simbav2.errors import BadStep, InputError

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
    actions: UnitActions  # how they become the environment's own
    seed: int
    episodes: list[int]  # the current episode's number in each; once set, the next `reset` starts these

    def __init__(self, task: Task, seed: int, num_envs: int) -> None:
        self.task = task
        self.seed = seed
        self.num_envs = num_envs
        self._steps = [0] * num_envs  # decisions taken in the current episodes

    @property
    def observation_size(self) -> int:
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        return self.task.action_size

    def reset(self) -> Observations:
        before = self.episodes
        self._steps = [-1] * self.num_envs  # a reset is the step before the first
        try:
            observation = self._reset()
        except Exception as error:
            raise self._bad(before, error, *self._suspects()) from error
        self._require_finite("observation", observation, before)
        self._steps = [0] * self.num_envs
        return observation

    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations | None:
        """Go on in the middle of `episodes`: start each anew and play its `actions` [decisions, A] again.

        None where an episode ends before its actions do: the environment does not repeat itself.
        """
        self.episodes = episodes
        self._steps = [len(played) - 1 for played in actions]
        try:
            observation = self._restore(actions)
        except Exception as error:
            raise self._bad(episodes, error, *self._suspects()) from error
        self._steps = [len(played) for played in actions]
        return observation

    def step(self, actions: NDArray[Any]) -> Step:
        before = self.episodes
        self._require_finite("action", actions, before)
        try:
            step = self._step(actions)
        except Exception as error:
            raise self._bad(before, error, *self._suspects()) from error
        # As the replay will hold it: what is finite in float64 need not be so in float32.
        with np.errstate(over="ignore"):
            self._require_finite("reward", step.reward.astype(np.float32), before)
        self._require_finite("observation", step.next_observation, before)
        ended = (step.terminated | step.truncated).tolist()
        if any(ended):
            self._require_finite("first observation", step.observation, before)
        self._steps = [0 if over else count + 1 for count, over in zip(self._steps, ended, strict=True)]
        return step

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _reset(self) -> Observations: ...

    @abstractmethod
    def _restore(self, actions: Sequence[NDArray[Any]]) -> Observations | None: ...

    @abstractmethod
    def _step(self, actions: NDArray[Any]) -> Step: ...

    @abstractmethod
    def _suspects(self) -> Sequence[int]:
        """Which environments an exception may have come from."""

    def _require_finite(self, name: str, array: NDArray[Any], before: list[int]) -> None:
        if not np.isfinite(array).all():
            finite = np.isfinite(array).reshape(self.num_envs, -1).all(axis=1)
            raise self._bad(before, f"the {name} is not finite", *np.flatnonzero(~finite).tolist())

    def _bad(self, before: list[int], problem: str | Exception, *members: int) -> BadStep:
        if isinstance(problem, Exception):
            problem = f"{type(problem).__name__}: {problem}".rstrip(": ")
        places = []
        for member in members:
            # A new number: it was the reset to the next episode that went wrong.
            again = self.episodes[member] == before[member]
            place = f"episode {self.episodes[member]}, step {self._steps[member] + 1 if again else 0}"
            places.append(place if self.num_envs == 1 else f"environment {member}, {place}")
        self.episodes = before
        return BadStep(f"{self.task.id}, seed {self.seed}, {' or '.join(places)}: {problem}")

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
    return Members(members, describe(members[0], source), seed)


class Members(Envs):
    """Environments made by `make_env`, one after the other."""

    def __init__(self, members: Sequence[EpisodeSeeds], task: Task, seed: int) -> None:
        super().__init__(task, seed, len(members))
        self._members = members
        self.actions = members[0].get_wrapper_attr("actions")
        self._busy = 0  # the member whose turn it is

    @property
    def episodes(self) -> list[int]:
        return [member.episode for member in self._members]

    @episodes.setter
    def episodes(self, numbers: list[int]) -> None:
        for member, number in zip(self._members, numbers, strict=True):
            member.episode = number

    def _turns(self) -> Iterator[tuple[int, EpisodeSeeds]]:
        for index, member in enumerate(self._members):
            self._busy = index
            yield index, member

    def _reset(self) -> Observations:
        return np.stack([member.reset()[0] for _, member in self._turns()])

    def _restore(self, actions: Sequence[NDArray[Any]]) -> Observations | None:
        observation = self._reset()
        for index, member in self._turns():
            for action in actions[index]:
                observation[index], _, terminated, truncated, _ = member.step(action)
                if terminated or truncated:
                    return None
        return observation

    def _step(self, actions: NDArray[Any]) -> Step:
        shape = (self.num_envs, self.observation_size)
        step = Step(
            observation=np.empty(shape, np.float32),
            next_observation=np.empty(shape, np.float32),
            reward=np.empty(self.num_envs),
            terminated=np.empty(self.num_envs, np.bool_),
            truncated=np.empty(self.num_envs, np.bool_),
            success=np.empty(self.num_envs),
        )
        for index, member in self._turns():
            observation, reward, terminated, truncated, info = member.step(actions[index])
            step.next_observation[index] = observation
            step.observation[index] = member.reset()[0] if terminated or truncated else observation
            step.reward[index] = reward
            step.terminated[index] = terminated
            step.truncated[index] = truncated
            step.success[index] = info.get("success", np.nan)
        return step

    def _suspects(self) -> Sequence[int]:
        return [self._busy]

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
        self.actions = UnitActions(vector.single_action_space, vector)
        self._observations = FlatObservations(vector.single_observation_space, vector)
        self.episodes = [0] * vector.num_envs
        spec = vector.spec
        name = spec.id if spec else type(vector).__name__
        length = (spec.max_episode_steps if spec else None) or EPISODE_LENGTH
        task = custom(name, self._observations.size, self.actions.size, 1, length)
        super().__init__(task, seed, vector.num_envs)

    def _reset(self) -> Observations:
        observation, _ = self._vector.reset(seed=episode_seed(self.seed, *self.episodes))
        return self._observations.flatten(observation, (self.num_envs,))

    def _restore(self, actions: Sequence[NDArray[Any]]) -> Observations | None:
        return self._reset() if not any(map(len, actions)) else None

    def _step(self, actions: NDArray[Any]) -> Step:
        observation, reward, terminated, truncated, info = self._vector.step(self.actions.to_environment(actions))
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

    def _suspects(self) -> Sequence[int]:
        return range(self.num_envs)

    def _bad(self, before: list[int], problem: str | Exception, *members: int) -> BadStep:
        processes = getattr(self._vector.unwrapped, "processes", ())
        if not processes or not isinstance(problem, EOFError | ConnectionError):
            return super()._bad(before, problem, *members)
        wait([process.sentinel for process in processes], timeout=5)  # the end is heard of before it is seen
        dead = [index for index, process in enumerate(processes) if not process.is_alive()]
        codes = ", ".join(str(processes[index].exitcode) for index in dead)
        self._bury()
        return super()._bad(before, f"its worker process died with exit code {codes}", *dead)

    def _bury(self) -> None:
        """Close an AsyncVectorEnv with a dead worker; Gymnasium would wait for its answer."""
        vector: Any = self._vector.unwrapped
        for process in vector.processes:
            process.terminate()
            process.join()
        for pipe in vector.parent_pipes:
            pipe.close()
        vector.closed = True

    def close(self) -> None:
        self._vector.close()


def _member(batch: Any, index: int) -> Any:
    """Entry `index` of a batch that is an array, an array of objects, or a dict of such."""
    return {key: _member(part, index) for key, part in batch.items()} if isinstance(batch, dict) else batch[index]
