"""`make_vector_env`: what the training loop steps, from anything that makes environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from multiprocessing.connection import wait
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from simbav2.envs.env_list import START_ATTEMPTS, CheckedEnvs, EnvList, Envs, Observations, Step, check_dropped
from simbav2.envs.make import Source, describe, make_env, obtain
from simbav2.envs.ray_workers import RayWorker, connect
from simbav2.envs.spaces import FlatObservations, Spaces, UnitActions
from simbav2.envs.tasks import custom_task
from simbav2.envs.workers import EnvWorkers, ProcessWorker, Share
from simbav2.envs.wrappers import episode_seed
from simbav2.errors import BadStep, DropBadSteps, InputError

__all__ = ["START_ATTEMPTS", "Envs", "Step", "VectorEnvAdapter", "check_dropped", "make_vector_env"]


def make_vector_env(
    source: Source | VectorEnv | Callable[[], VectorEnv],
    seed: int = 0,
    num_envs: int | None = None,
    action_repeat: int | None = None,
    drop_bad_steps: DropBadSteps = "diverged",
    workers: int = 0,
    backend: Literal["local", "ray"] = "local",
    address: str | None = None,
) -> Envs:
    """`num_envs` (or one) of `source`, here or shared out among workers; or all of a vector environment."""
    if num_envs is not None and num_envs < 1:
        raise InputError(f"num_envs is {num_envs}; expected at least 1")
    if isinstance(source, gym.Env) and (num_envs or 1) > 1:
        raise InputError(f"num_envs is {num_envs}, but one environment came; give a callable that makes one")
    if workers:
        if isinstance(source, gym.Env | VectorEnv):
            raise InputError(
                f"env_workers is {workers}, but {source} came; give an id or a callable that makes one"
            )
        total = num_envs or 1
        if workers > total:
            raise InputError(f"env_workers is {workers}, but num_envs is {total}; expected at most one for each")
        bounds = [total * index // workers for index in range(workers + 1)]
        shares = [
            Share(source, seed, first, last - first, total, action_repeat, drop_bad_steps)
            for first, last in pairwise(bounds)
        ]
        if backend == "local":
            return EnvWorkers(shares, ProcessWorker)
        ray = connect(address, actors=workers)
        # In the place of a lost one no whole core may be free.
        return EnvWorkers(shares, lambda: RayWorker(ray, 0 if address is None else 1), lambda: RayWorker(ray, 0))
    # Only a call tells whether a callable makes vector environments.
    first = source if isinstance(source, str | VectorEnv) else obtain(source)
    if isinstance(first, VectorEnv):
        try:
            if num_envs not in (None, first.num_envs):
                raise InputError(f"num_envs is {num_envs}, but {first} came; leave num_envs out")
            if action_repeat not in (None, 1):
                raise InputError(f"action_repeat is {action_repeat}, but {first} came; repeat actions inside it")
            return VectorEnvAdapter(first, seed, drop_bad_steps)
        except InputError:
            if first is not source:
                first.close()
            raise
    sources: list[Any] = [first, *[source] * ((num_envs or 1) - 1)]
    members = [make_env(each, seed, action_repeat, stream=stream) for stream, each in enumerate(sources)]
    return EnvList(members, describe(members[0], source), seed, drop_bad_steps)


class VectorEnvAdapter(CheckedEnvs):
    """A Gymnasium vector environment.

    Its members are reset without a seed, so only the first episodes get a seed from us, `episodes` only counts,
    and `restore` starts new episodes.
    """

    def __init__(self, vector: VectorEnv, seed: int, drop_bad_steps: DropBadSteps) -> None:
        # The attribute first: all environments of one class share the metadata.
        mode = getattr(vector.unwrapped, "autoreset_mode", vector.metadata.get("autoreset_mode"))
        # A reset of some members: part of Gymnasium's own, and of any whose episodes the caller is to reset.
        self._can_reset_some = isinstance(vector.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._resets_some = mode == AutoresetMode.DISABLED or (
            mode == AutoresetMode.NEXT_STEP and self._can_reset_some
        )
        if not self._resets_some and mode != AutoresetMode.SAME_STEP:
            raise InputError(
                f"the autoreset mode of {vector} is {mode}; "
                "make it with autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
            )
        self._vector = vector
        self.actions = UnitActions(vector.single_action_space, vector)
        self._observations = FlatObservations(vector.single_observation_space, vector)
        self.spaces = Spaces(self._observations, self.actions)
        self.episodes = [0] * vector.num_envs
        spec = vector.spec
        name, length = (spec.id, spec.max_episode_steps) if spec else (type(vector).__name__, None)
        task = custom_task(name, self._observations.size, self.actions.size, 1, length)
        super().__init__(task, seed, vector.num_envs, drop_bad_steps)

    def _may_drop(self, fault: str | Exception) -> bool:
        # An exception concerns all members; a bad value of one needs a vector environment that can reset it alone.
        return self._can_reset_some and isinstance(fault, str) and super()._may_drop(fault)

    def _reset_one(self, member: int) -> Observations:
        mask = np.arange(self.num_envs) == member
        self.episodes = [number + int(own) for number, own in zip(self.episodes, mask, strict=True)]
        return self._reset_some(mask)[member]

    def _reset_some(self, mask: NDArray[np.bool_]) -> Observations:
        observation, _ = self._vector.reset(options={"reset_mask": mask})
        return self._observations.flatten(observation, (self.num_envs,))

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
            dropped=np.zeros(self.num_envs, np.bool_),
        )
        ended = step.terminated | step.truncated
        if ended.any():
            if self._resets_some:
                step.observation[ended] = self._reset_some(ended)[ended]
            elif "final_obs" not in info:
                raise ValueError("an episode ended, but info has no final_obs: the terminal observation is lost")
            else:
                for index in np.flatnonzero(ended).tolist():
                    final = _member(info["final_obs"], index)
                    step.next_observation[index] = self._observations.flatten(final)
            self.episodes = [number + int(over) for number, over in zip(self.episodes, ended, strict=True)]
        for source in (info, info.get("final_info", {})):
            if "success" in source:
                reported = source.get("_success", np.full(self.num_envs, True))
                step.success[reported] = source["success"][reported]
        return step

    def _bad(self, fault: str | Exception, *places: str) -> BadStep:
        processes = getattr(self._vector.unwrapped, "processes", ())
        if not processes or not isinstance(fault, EOFError | ConnectionError):
            return super()._bad(fault, *places)
        wait([process.sentinel for process in processes], timeout=5)  # its pipe closes before it has exited
        dead = [index for index, process in enumerate(processes) if not process.is_alive()]
        codes = ", ".join(str(processes[index].exitcode) for index in dead)
        self._close_dead_workers()
        return super()._bad(
            f"its worker process died with exit code {codes}", *(self._place(i, self.episodes[i]) for i in dead)
        )

    def _close_dead_workers(self) -> None:
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
