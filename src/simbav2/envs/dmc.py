"""The DeepMind Control Suite as Gymnasium environments.

dm_control looks for a GL library when it is imported, and fails or complains where there is none. Here it is
imported without one, and Gymnasium's renderer draws the frames.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from simbav2.envs.rendering import Camera, RenderedEnv
from simbav2.envs.tasks import Task
from simbav2.errors import SimulationDiverged

_library = os.environ.get("MUJOCO_GL")
os.environ["MUJOCO_GL"] = "off"
try:
    from dm_control import suite
    from dm_control.rl.control import PhysicsError
finally:
    del os.environ["MUJOCO_GL"]
    if _library is not None:
        os.environ["MUJOCO_GL"] = _library

CAMERAS = {"quadruped": "y"}  # the first camera of the others shows the body; its own is far above


class ControlSuite(RenderedEnv):
    """One task of the suite, without a time limit. Observations are flattened with their keys sorted by name.

    The authors' code sorts them, too (Gymnasium's `Dict` does), so their checkpoints see what they learned from.
    `reset(seed=s)` starts the same episode as `suite.load(..., task_kwargs={"random": s})`.
    """

    def __init__(self, domain: str, task: str, render_mode: str | None = None) -> None:
        self._control = suite.load(domain, task, task_kwargs={"time_limit": float("inf")})
        action, parts = self._control.action_spec(), self._control.observation_spec().values()
        size = sum(int(np.prod(part.shape)) for part in parts)
        self.action_space = gym.spaces.Box(action.minimum, action.maximum, dtype=np.float64)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        fps = round(1 / self._control.control_timestep())
        super().__init__(render_mode, fps, Camera(self.model, self.data, CAMERAS.get(domain, 0)))

    @property
    def model(self) -> mujoco.MjModel:
        return self._control.physics.model.ptr

    @property
    def data(self) -> mujoco.MjData:
        return self._control.physics.data.ptr

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._control.task.random.seed(seed)
        return _flatten(self._control.reset().observation), {}

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        try:
            timestep = self._control.step(action)
        except PhysicsError as error:
            raise SimulationDiverged(str(error)) from error
        terminated = timestep.discount == 0.0
        truncated = timestep.last() and not terminated
        return _flatten(timestep.observation), timestep.reward, terminated, truncated, {}


def build(task: Task, render_mode: str | None) -> gym.Env:
    # The ids write dashes where the suite writes underscores, and one dash between its two names.
    names = {"-".join(pair).replace("_", "-"): pair for pair in suite.ALL_TASKS}
    domain, name = names[task.name]
    return TimeLimit(ControlSuite(domain, name, render_mode), task.episode_length)


def _flatten(observation: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.ravel(observation[key]) for key in sorted(observation)])
