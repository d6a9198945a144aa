"""An agent from a checkpoint of the authors' released code: networks, optimisers and statistics.

The sizes of the networks are read from the arrays. That code saves no replay, so an agent that continues learning
first collects experience with its own policy (`Agent.update`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from simbav2.agent import Agent
from simbav2.checkpoint.files import damage
from simbav2.config import Config, override, presets
from simbav2.envs.tasks import Task, custom_task
from simbav2.envs.vector import make_vector_env
from simbav2.errors import InputError
from simbav2.interop.release_networks import Network, actor_names, critic_names, file_of, read_msgpack
from simbav2.learner import Learner, LearnerState
from simbav2.normalization import Moments, ReturnStatistics, RunningStatistics

NAME = "release-checkpoint"  # of the task where none is given
_MOST_ENVS = 1024  # a forged file with more would take long to load


def from_release(folder: str | Path, observation_size: int, action_size: int, env: Any = None) -> Agent:
    """The agent saved in `folder` by the authors' code.

    `env` is what it was trained on (a task id, an environment, a callable making one); without it the agent acts
    and can be exported, but not be evaluated or trained.
    """
    for name, size in (("observation_size", observation_size), ("action_size", action_size)):
        if size < 1:
            raise InputError(f"{name} is {size}; expected at least 1")
    folder = Path(folder)
    actor, critic = Network.read(folder, "actor"), Network.read(folder, "critic")
    _check_inputs(actor, observation_size, 0)
    _check_inputs(critic, observation_size, action_size)
    statistics = RunningStatistics(_observations(folder, observation_size), _returns(folder))
    num_envs = len(statistics.returns.running)
    envs = None if env is None else make_vector_env(env, num_envs=num_envs)
    task = custom_task(NAME, observation_size, action_size) if envs is None else envs.task
    if (task.observation_size, task.action_size) != (observation_size, action_size):
        raise InputError(
            f"{task.id} has {task.observation_size} observations and {task.action_size} actions; "
            f"{observation_size} and {action_size} were given"
        )
    config = _config(actor, critic, task, num_envs)
    # Shapes only: arrays that do not fit are refused before anything is allocated.
    planned = jax.eval_shape(Learner(config, observation_size, action_size).init, jax.random.PRNGKey(0))
    state = LearnerState(
        actor=actor.trained(planned.actor, actor_names(actor)),
        critic=critic.trained(planned.critic, critic_names(critic)),
        target=Network.read(folder, "target_critic").params(planned.target, critic_names(critic)),
        log_temperature=Network.read(folder, "temperature").trained(planned.log_temperature, {"": "log_temp"}),
        updates=critic.updates,
        key=None,
    )
    agent = Agent.from_config(config, task, task.id if env is None else env, envs)
    agent.state = jax.tree.map(jax.device_put, state._replace(key=agent.state.key))
    agent.statistics = statistics
    agent.updates = int(critic.updates)
    agent.decisions = round(statistics.observation.weight) // num_envs * num_envs  # each was one sample
    return agent


def _config(actor: Network, critic: Network, task: Task, num_envs: int) -> Config:
    """The preset of the authors' code with the sizes of the arrays."""
    settings: dict[str, Any] = {"num_envs": num_envs, "value.atoms": critic.atoms()}
    settings["critic.num_critics"] = critic.sizes().members
    for name, sizes in (("actor", actor.sizes()), ("critic", critic.sizes())):
        settings |= {f"{name}.width": sizes.width, f"{name}.depth": sizes.depth}
    with damage(actor.file.parents[2]):
        return override(presets.preset("release"), settings).resolve(task)


def _check_inputs(network: Network, observations: int, actions: int) -> None:
    inputs = network.sizes().inputs
    if inputs != observations + actions:
        given = f"{observations} observations" + (f" and {actions} actions" if actions else "")
        raise InputError(f"{network.file} is for {inputs} inputs, but {given} were given")


# Statistics. ----------------------------------------------------------------------------------------------


def _observations(folder: Path, size: int) -> Moments:
    file = file_of(folder, "obs_norm")
    return _moments(file, read_msgpack(file), "obs_rms", size)


def _returns(folder: Path) -> ReturnStatistics:
    file = file_of(folder, "rew_norm")
    data = read_msgpack(file)
    moments = _moments(file, data, "G_rms", 1)
    with damage(file):
        running = _numbers(data["G"])
        if len(running) > _MOST_ENVS:
            raise ValueError(f"G is of {len(running):,} environments; at most {_MOST_ENVS:,} are accepted")
        return ReturnStatistics(running, moments, float(_numbers(data["G_r_max"])[0]))


def _moments(file: Path, data: Mapping[str, Any], name: str, size: int) -> Moments:
    with damage(file):
        mean, variance, count = (_numbers(data[f"{name}_{of}"]) for of in ("mean", "var", "count"))
        if len(mean) != size or len(variance) != size:
            raise ValueError(
                f"{name}_mean has {len(mean)} entries and {name}_var {len(variance)}; expected {size}"
            )
        if (variance < 0).any() or not 0 <= count[0] < 1 << 62:
            raise ValueError(f"{name}_var or {name}_count is out of range")
        return Moments(mean, variance, float(count[0]))


def _numbers(value: Any) -> NDArray[np.float64]:
    """A number or an array, flat."""
    array = np.asarray(value, np.float64).ravel()
    if not array.size or not np.isfinite(array).all():
        raise ValueError("its statistics are not all finite numbers")
    return array
