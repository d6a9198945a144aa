"""An agent that learns from recorded data, and then acts where it is asked to.

The rest is the same as online: `Trainer` takes the updates on the data first, so checkpoints, evaluations,
resuming and the run's folder need nothing of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from simbav2.agent import Agent
from simbav2.config import Config, Data, override, presets
from simbav2.datasets import D4RL, dataset
from simbav2.datasets.hdf5 import Source
from simbav2.envs.tasks import Task
from simbav2.envs.vector import make_vector_env
from simbav2.errors import InputError


def make_agent(
    source: str,
    *,
    file: Path | None = None,
    task: str | None = None,
    then_online: int = 0,
    preset: str = presets.FOR_DATA,
    ablation: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Agent:
    """An agent ready to learn from `source`: a D4RL id, `minari/ID` or an HDF5 file.

    `file` is where the source's file is when not in the cache, `task` the environment to evaluate and act in when
    the data does not say or another is wanted, `then_online` the simulator steps to act after learning.
    """
    for name in settings or {}:
        if name.replace("-", "_") in presets.OF_DATA:
            raise InputError(f"{name} follows from the data; choose its --data.passes and --then-online instead")
    if then_online < 0:
        raise InputError(f"--then-online is {then_online}; expected at least 0")
    config = override(presets.from_data(presets.preset(preset, ablation)), settings or {})
    data = replace(config.data, source=_name(source), file=None if file is None else str(file.resolve()))
    with dataset.opened(replace(data, transitions=1)) as opened:
        task = task or _task(source, opened)
        envs = make_vector_env(task, config.seed, config.num_envs, **config.env_options)
        _check_sizes(opened, envs.task)
        config = config.resolve(envs.task)
        assert config.discount is not None
        experience = dataset.read(opened, config.discount, config.replay.n_step)
    data = replace(data, transitions=len(experience), sha256=experience.sha256())
    return Agent.from_config(_lasting(config, data, then_online), envs.task, task, envs, experience)


def _lasting(config: Config, data: Data, then_online: int) -> Config:
    """The config of a run as long as its data and the steps after it."""
    config = replace(config, data=data)
    return replace(config, env_steps=config.offline_updates + then_online)


def _name(source: str) -> str:
    """Files by their full path: a run may be resumed from anywhere."""
    path = Path(source).expanduser()
    return str(path.resolve()) if path.is_file() else source


def _task(source: str, opened: Source) -> str:
    if source in D4RL:
        return D4RL[source].task
    if opened.task is None:
        raise InputError(f"{source} does not say which environment it was recorded in; give --task")
    return opened.task


def _check_sizes(opened: Source, task: Task) -> None:
    theirs = (opened.observation_size, opened.action_size)
    expected = (task.observation_size, task.action_size)
    if theirs != expected:
        raise InputError(
            f"{opened.name} has {theirs[0]} observations and {theirs[1]} actions, {task.id} has "
            f"{expected[0]} and {expected[1]}; give the environment it was recorded in with --task"
        )
