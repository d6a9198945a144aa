"""The five Gymnasium MuJoCo tasks. The benchmark is made of version 4, which Gymnasium advises against."""

from __future__ import annotations

import warnings

import gymnasium as gym

from simbav2.envs.tasks import Task


def build(task: Task, render_mode: str | None) -> gym.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return gym.make(
            task.name,
            max_episode_steps=task.episode_length,
            disable_env_checker=True,
            render_mode=render_mode,
        )
