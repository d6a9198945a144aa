"""What the training loop steps: N environments, each reset in the step that ends its episode.

If a step fails (an exception, a value that is not finite) and `drop_bad_steps` allows it, the transition is
discarded: its environment starts the next episode, `Step.dropped` is set, and the other environments' transitions
are kept. Otherwise a `BadStep` is raised, after which `episodes` are still those of the last good step.

Gymnasium's SyncVectorEnv collects every `info` entry of every step: with the nine of Ant-v4, one environment takes
45 microseconds besides the simulator. `EnvList` reads only what it needs and takes 8.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simbav2.envs.spaces import Spaces, UnitActions
from simbav2.envs.tasks import CUSTOM, Task
from simbav2.envs.wrappers import EpisodeSeeds
from simbav2.errors import BadStep, DropBadSteps, SimulationDiverged, printable

log = logging.getLogger("simbav2")
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Observations: TypeAlias = NDArray[np.float32]

LOGGED_FAULTS = 20  # of one vector environment; more would hide everything else in the log
START_ATTEMPTS = 10  # episodes tried in a row before an environment counts as broken
MAX_DROPPED, MAX_DROPPED_SHARE = 10, 0.01  # a run that exceeds both stops


class Step(NamedTuple):
    """One decision of N environments. The arrays are the caller's to keep."""

    observation: Observations  # [N, O], to act on next: the first of a new episode where one has ended
    next_observation: Observations  # [N, O], what the action led to: the terminal one where the episode has ended
    reward: Floats  # [N]
    terminated: Flags  # [N]
    truncated: Flags  # [N]
    success: Floats  # [N], 0 or 1; NaN where the environment does not say, so combine it with np.fmax
    dropped: Flags  # [N], the step failed: do not use its transition; `observation` starts a new episode


def check_dropped(dropped: int, decisions: int, envs: Envs) -> None:
    """Stop the run where too many steps failed."""
    if dropped > MAX_DROPPED and dropped > MAX_DROPPED_SHARE * decisions:
        raise BadStep(
            f"{envs.task.id}, seed {envs.seed}: {dropped} of {decisions:,} environment steps failed and were "
            f"dropped, more than {MAX_DROPPED_SHARE:.0%}; fix the environment, then resume; "
            f"the last: {envs.last_fault}"
        )


class Envs(ABC):
    """N environments that step together. Actions are [N, A] in [-1, 1]."""

    actions: UnitActions  # converts them to the environment's own
    spaces: Spaces  # what the user sees: of a task those of `make_env`, else the environment's own
    episodes: list[int]  # the number of each current episode; once set, the next `reset` starts these

    def __init__(self, task: Task, seed: int, num_envs: int) -> None:
        self.task = task
        self.seed = seed
        self.num_envs = num_envs
        self.last_fault = ""  # the latest dropped one
        self.lost = 0  # environments dropped in the latest step because their worker was lost
        self._faults = 0  # dropped so far

    @property
    def observation_size(self) -> int:
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        return self.task.action_size

    @abstractmethod
    def reset(self) -> Observations: ...

    @abstractmethod
    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations | None:
        """Resume in the middle of `episodes`: restart each and repeat its `actions` [decisions, A].

        None where an episode ends before its actions do: the environment is not deterministic.
        """

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Step: ...

    @abstractmethod
    def close(self) -> None: ...

    def report(self, fault: str) -> None:
        """Log a fault that was dropped."""
        self._faults += 1
        self.last_fault = fault
        if self._faults <= LOGGED_FAULTS:
            rest = "; further dropped steps are counted, but not logged" if self._faults == LOGGED_FAULTS else ""
            place = f"{self.task.id}, seed {self.seed}, {fault}"
            log.warning("simbav2: dropped a failed step: %s%s", printable(place), rest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CheckedEnvs(Envs):
    """Environments of this process: each value is checked, and faults are dropped or raised."""

    def __init__(
        self, task: Task, seed: int, num_envs: int, drop_bad_steps: DropBadSteps, names: Sequence[str] = ()
    ) -> None:
        super().__init__(task, seed, num_envs)
        self.drop_bad_steps = drop_bad_steps
        self._names = names or [f"environment {i}, " if num_envs > 1 else "" for i in range(num_envs)]
        self._steps = [0] * num_envs  # decisions in the current episodes

    def reset(self) -> Observations:
        self._steps = [-1] * self.num_envs  # a reset is the step before the first
        with self._all_or_nothing(self.episodes):
            observation = self._reset()
            self._check_first(observation)
        self._steps = [0] * self.num_envs
        return observation

    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations | None:
        self.episodes = episodes
        self._steps = [len(played) - 1 for played in actions]
        with self._all_or_nothing(episodes):
            observation = self._restore(actions)
        self._steps = [len(played) for played in actions]
        return observation

    def step(self, actions: NDArray[Any]) -> Step:
        before = self.episodes
        with self._all_or_nothing(before):
            for member in _not_finite(actions):
                raise self._bad("the action is not finite", self._place(member, before[member]))
            step = self._step(actions)
            # As the replay will hold it: a finite float64 may be infinite in float32.
            with np.errstate(over="ignore"):
                reward = step.reward.astype(np.float32)
            for name, array in (("reward", reward), ("observation", step.next_observation)):
                for member in _not_finite(array):
                    if not step.dropped[member]:
                        self._drop(step, member, f"the {name} is not finite", before[member])
            first = (step.terminated | step.truncated | step.dropped).tolist()
            if any(first):
                self._check_first(step.observation)
        self._steps = [0 if new else count + 1 for count, new in zip(self._steps, first, strict=True)]
        return step

    @abstractmethod
    def _reset(self) -> Observations: ...

    @abstractmethod
    def _restore(self, actions: Sequence[NDArray[Any]]) -> Observations | None: ...

    @abstractmethod
    def _step(self, actions: NDArray[Any]) -> Step: ...

    @abstractmethod
    def _reset_one(self, member: int) -> Observations:
        """Start the next episode of one environment; returns its first observation [O]."""

    # A fault is an exception, or the description of a value that is not finite. ------------------------------

    def _may_drop(self, fault: str | Exception) -> bool:
        match self.drop_bad_steps:
            case "any":
                return True
            case "diverged" if isinstance(fault, str):
                return self.task.suite != CUSTOM  # only there is the simulator known to be the cause
            case "diverged":
                return isinstance(fault, SimulationDiverged)
            case "never":
                return False

    def _drop(self, step: Step, member: int, fault: str | Exception, episode: int) -> None:
        """Discard the transition of `member` in `step`, or raise."""
        self._survive(fault, self._place(member, episode))
        if not (step.terminated[member] or step.truncated[member]):
            step.observation[member] = self._start_episode(member)
        step.next_observation[member], step.reward[member], step.success[member] = 0.0, 0.0, np.nan
        step.terminated[member] = step.truncated[member] = False
        step.dropped[member] = True

    def _start_episode(self, member: int) -> Observations:
        """The first observation of the next episode that starts without a fault."""
        for _ in range(START_ATTEMPTS):
            fault: str | Exception = "the first observation is not finite"
            try:
                observation = self._reset_one(member)
                if np.isfinite(observation).all():
                    return observation
            except Exception as error:
                fault = error
            self._survive(fault, self._place(member, self.episodes[member], 0))
        raise self._bad(
            f"{START_ATTEMPTS} episodes in a row failed to start; fix the environment; the last: {_text(fault)}",
            self._place(member, self.episodes[member], 0),
        )

    def _check_first(self, observation: Observations) -> None:
        """Replace first observations that are not finite by those of later episodes, or raise."""
        for member in _not_finite(observation):
            self._survive("the first observation is not finite", self._place(member, self.episodes[member], 0))
            observation[member] = self._start_episode(member)

    def _survive(self, fault: str | Exception, place: str) -> None:
        """Log a fault that may be dropped; raise any other."""
        if not self._may_drop(fault):
            raise self._bad(fault, place) from (fault if isinstance(fault, Exception) else None)
        self.report(f"{place}: {_text(fault)}")

    def _bad(self, fault: str | Exception, *places: str) -> BadStep:
        return BadStep(f"{self.task.id}, seed {self.seed}, {' or '.join(places)}: {_text(fault)}")

    def _place(self, member: int, episode: int, step: int | None = None) -> str:
        """Where a fault occurred; by default in the step after those counted."""
        return f"{self._names[member]}episode {episode}, step {self._steps[member] + 1 if step is None else step}"

    @contextmanager
    def _all_or_nothing(self, before: list[int]) -> Iterator[None]:
        """After a fault that is not dropped, the episodes are those of `before`."""
        try:
            yield
        except BadStep:
            self.episodes = before
            raise
        except Exception as error:
            self.episodes = before
            raise self._bad(error, *(self._place(*who) for who in enumerate(before))) from error


class EnvList(CheckedEnvs):
    """Environments made by `make_env`, stepped one after the other."""

    def __init__(
        self,
        members: Sequence[EpisodeSeeds],
        task: Task,
        seed: int,
        drop_bad_steps: DropBadSteps,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(task, seed, len(members), drop_bad_steps, names)
        self._members = members
        self.actions = members[0].get_wrapper_attr("actions")
        self.spaces = (
            Spaces(members[0].get_wrapper_attr("observations"), self.actions)
            if task.suite == CUSTOM
            else Spaces.vectors(task.observation_size, task.action_size)
        )

    @property
    def episodes(self) -> list[int]:
        return [member.episode for member in self._members]

    @episodes.setter
    def episodes(self, numbers: list[int]) -> None:
        for member, number in zip(self._members, numbers, strict=True):
            member.episode = number

    def _reset(self) -> Observations:
        return np.stack([self._start_episode(index) for index in range(self.num_envs)])

    def _reset_one(self, member: int) -> Observations:
        return self._members[member].reset()[0]

    def _restore(self, actions: Sequence[NDArray[Any]]) -> Observations | None:
        observation = self._reset()
        for index, member in enumerate(self._members):
            for action in actions[index]:
                try:
                    observation[index], _, terminated, truncated, _ = member.step(action)
                except Exception as error:
                    self._survive(error, self._place(index, member.episode))
                    return None
                if terminated or truncated:
                    return None
        return observation

    def _step(self, actions: NDArray[Any]) -> Step:
        shape = (self.num_envs, self.observation_size)
        step = Step(
            observation=np.empty(shape, np.float32),
            next_observation=np.empty(shape, np.float32),
            reward=np.empty(self.num_envs),
            terminated=np.zeros(self.num_envs, np.bool_),
            truncated=np.zeros(self.num_envs, np.bool_),
            success=np.empty(self.num_envs),
            dropped=np.zeros(self.num_envs, np.bool_),
        )
        for index, member in enumerate(self._members):
            try:
                observation, reward, terminated, truncated, info = member.step(actions[index])
                step.reward[index] = reward
                step.success[index] = info.get("success", np.nan)
            except Exception as error:
                self._drop(step, index, error, member.episode)
                continue
            step.next_observation[index] = observation
            step.terminated[index] = terminated
            step.truncated[index] = truncated
            step.observation[index] = self._start_episode(index) if terminated or truncated else observation
        return step

    def close(self) -> None:
        for member in self._members:
            member.close()


def _not_finite(array: NDArray[Any]) -> list[int]:
    """The rows of `array` [N, ...] that hold a value which is not finite."""
    finite = np.isfinite(array)
    return [] if finite.all() else np.flatnonzero(~finite.reshape(len(array), -1).all(axis=1)).tolist()


def _text(fault: str | Exception) -> str:
    return fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}".rstrip(": ")
