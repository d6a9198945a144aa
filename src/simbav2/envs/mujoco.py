"""The five Gymnasium MuJoCo tasks. The benchmark uses version 4, which Gymnasium deprecates."""

from __future__ import annotations

import warnings

import gymnasium as gym

from simbav2.envs.tasks import Task


def build(task: Task, render_mode: str | None) -> gym.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        limit = task.episode_length
        return gym.make(task.name, max_episode_steps=limit, disable_env_checker=True, render_mode=render_mode)
