"""The ten hand tasks of MyoSuite as Gymnasium environments.

MyoSuite ignores the seed given to `reset`: its goals come from a generator that is seeded when an environment
is made. Here every seed reaches that generator, so the seed determines the whole episode.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, cast

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from simbav2.envs.rendering import Camera, RenderedEnv
from simbav2.envs.tasks import Task

os.environ.setdefault("ROBOHIVE_VERBOSITY", "SILENT")  # no credits for every environment made
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # it imports GitPython, which fails where there is no git


@contextmanager
def _quiet() -> Iterator[None]:
    """MyoSuite prints a greeting, warns of casts, and changes NumPy's print options."""
    with redirect_stdout(io.StringIO()), np.printoptions(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


with _quiet():
    import myosuite  # noqa: F401 (registers its environments)

CAMERA = "hand_side_inter"


class Hand(RenderedEnv):
    """One task, without a time limit. An episode ends where MyoSuite ends it, as with a dropped object."""

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        with _quiet():
            self._hand = cast(Any, gym.make(name, disable_env_checker=True).unwrapped)
        self.action_space = self._hand.action_space
        # Its own space says [-10, 10], which nothing enforces.
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, self._hand.observation_space.shape, np.float32)
        super().__init__(render_mode, round(1 / self._hand.dt), Camera(self.model, self.data, CAMERA))

    @property
    def model(self) -> mujoco.MjModel:
        return self._hand.mj_model

    @property
    def data(self) -> mujoco.MjData:
        """The simulated state. MyoSuite's `mj_data` is a copy, made again for every observation."""
        return self._hand.robot.mj_data

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._hand.seed(seed)
        return self._hand.reset()

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, _, info = self._hand.step(action)
        return observation, float(reward), terminated, False, {**info, "success": bool(info["solved"])}


def build(task: Task, render_mode: str | None) -> gym.Env:
    # `myo-key-turn-hard` is registered as `myoHandKeyTurnRandom-v0`, without `-hard` as `...Fixed-v0`.
    plain = task.name.removesuffix("-hard")
    goal = "Fixed" if plain == task.name else "Random"
    name = f"myoHand{plain.removeprefix('myo-').title().replace('-', '')}{goal}-v0"
    return TimeLimit(Hand(name, render_mode), task.episode_length)
