"""HumanoidBench: the 14 tasks of the Unitree H1 without hands, on MuJoCo and Gymnasium alone.

It behaves as HumanoidBench 0.2 (upstream commit 791405f) does, oddities included: the same seed and the same
actions give the same observations, rewards, endings and infos. Here is the Gymnasium environment around a task:
actions in, ten physics steps, observation and reward out.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from simbav2.envs.humanoid_bench import assets
from simbav2.envs.humanoid_bench.robot import Robot, Vector
from simbav2.envs.humanoid_bench.tasks import TASKS
from simbav2.envs.rendering import Camera, RenderedEnv
from simbav2.envs.tasks import Task
from simbav2.errors import InputError, nearest

FRAME_SKIP = 10  # physics steps of 2 ms per environment step
NOISE = 0.01  # half width of the uniform noise on every entry of the start pose, quaternions included


verify = assets.verify


def build(task: Task, render_mode: str | None) -> gym.Env:
    return TimeLimit(HumanoidBench(task.name, render_mode), task.episode_length)


class HumanoidBench(RenderedEnv):
    """A task such as `h1-sit-hard`, without time limit or action repeat, in float64."""

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        if name not in TASKS:
            hint = nearest(name, TASKS) or f"; the tasks are {', '.join(TASKS)}"
            raise InputError(f"{name!r} is not a HumanoidBench task{hint}")
        self.name = name
        self.model = load_model(name)
        self.data = mujoco.MjData(self.model)
        self.task = TASKS[name](Robot(self.model, self.data))
        self.action_space = Box(-1.0, 1.0, (self.model.nu,), np.float32)
        self.observation_space = Box(-np.inf, np.inf, self.task.observe().shape, np.float64)
        # Float32, like the actions: only so do float32 actions give the original's controls to the last bit.
        self._low, high = self.model.actuator_ctrlrange.T.astype(np.float32)
        self._half_span = (high - self._low) / 2
        self._task_random = np.random.RandomState()
        super().__init__(render_mode, 50, Camera(self.model, self.data, self.task.camera))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            # The original draws goals from NumPy's legacy generator, whose seeds have 32 bits.
            self._task_random = np.random.RandomState(seed % 2**32)
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        self.data.qpos += self.np_random.uniform(-NOISE, NOISE, self.model.nq)
        mujoco.mj_forward(self.model, self.data)
        self.task.reset(self._task_random)
        return self.task.observe(), {}

    def step(self, action: NDArray[Any]) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        action = np.asarray(action)
        if action.shape != self._low.shape:
            raise InputError(f"action has shape {action.shape}; {self.name} expects {self._low.shape}")
        # Not clipped: MuJoCo saturates controls at their ranges.
        self.data.ctrl[:] = (action + 1) * self._half_span + self._low
        mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)
        observation = self.task.observe()
        reward, parts = self.task.reward()
        return observation, reward, self.task.ended(), False, {"per_timestep_reward": reward, **parts}

    def _markers(self) -> list[dict[str, Any]]:
        return self.task.markers()


def load_model(name: str) -> mujoco.MjModel:
    """The scene of a task, from the model files of this machine."""
    path = assets.find() / "envs" / f"h1_pos_{name.removeprefix('h1-').replace('-', '_')}.xml"
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"MuJoCo cannot load {path} ({reason}); fetch it again: {assets.COMMAND}") from error
