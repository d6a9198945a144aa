"""One saved agent: networks, optimisers and statistics, and for a run the replay and the episodes under way.

A folder of plain files: safetensors for arrays, JSON for the rest, a manifest with the sum of each. It is written
beside and renamed. Loading never executes anything and believes nothing: sums first, then every size and type is
compared with what the config asks for, before it is allocated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym
import jax
import numpy as np

from simbav2.checkpoint import manifest, replay_segments
from simbav2.checkpoint.files import (
    Arrays,
    array_names,
    check,
    damage,
    length,
    read_arrays,
    read_json,
    specs,
    sync,
    versions,
    write_arrays,
    write_json,
)
from simbav2.checkpoint.manifest import Manifest
from simbav2.checkpoint.replay_segments import Segment
from simbav2.config import Config, from_json, leaves, to_json, upgrade
from simbav2.config.presets import given
from simbav2.envs.spaces import Spaces
from simbav2.envs.tasks import Task
from simbav2.errors import CheckpointError, InputError
from simbav2.learner import Learner
from simbav2.normalization import RunningStatistics

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.trainer import Loop

LEARNER, STATISTICS, STATE, CONFIG = "learner.safetensors", "statistics.safetensors", "state.json", "config.json"
NEWEST = "newest.safetensors"  # the newest step of the replay
ORDER = "observation_order"
AGENT = (LEARNER, STATISTICS, STATE, CONFIG)
Tree = TypeVar("Tree")


def description(config: Config, task: Task) -> dict[str, Any]:
    """What `config.json` holds: the whole config, what it changes in its preset, the environment, the versions."""
    return {
        **to_json(config),
        "settings": given(config, task),
        "environment": dataclasses.asdict(task),
        ORDER: task.observation_order,
        "versions": versions(),
    }


def params_sha256(agent: Agent) -> str:
    """A digest of all networks: equal digests, equal bits."""
    digest = hashlib.sha256()
    nets = (agent.state.actor.params, agent.state.critic.params, agent.state.target)
    for name, array in sorted(_named(nets).items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Saving. --------------------------------------------------------------------------------------------------


def save(agent: Agent, folder: Path, loop: Loop | None = None, replay: tuple[Segment, ...] = ()) -> None:
    """Write `folder`, all or nothing; `loop`, with the files of the `replay`, is what a run needs to go on."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another folder or remove it first")
    beside = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        state: dict[str, Any] = {
            "decisions": agent.decisions,
            "warmup_rng": agent.warmup_rng.bit_generator.state,
            "replay_rng": agent.replay_rng.bit_generator.state,
            "spaces": None if agent.known_spaces is None else agent.known_spaces.to_json(),
        }
        files = {
            LEARNER: write_arrays(beside / LEARNER, _named(agent.state)),
            STATISTICS: write_arrays(beside / STATISTICS, _named(agent.statistics)),
            CONFIG: write_json(beside / CONFIG, description(agent.config, agent.task)),
        }
        if loop is not None:
            state["loop"] = loop.snapshot()
            state["replay_steps"] = agent.replay.added  # fewer than decided where a run began with a loaded agent
            files[NEWEST] = replay_segments.write_newest(agent.replay, beside / NEWEST)
        files[STATE] = write_json(beside / STATE, state)
        manifest.write(beside, Manifest(files, replay))
        os.replace(beside, folder)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    sync(folder.parent)


# Loading. -------------------------------------------------------------------------------------------------


def load(folder: Path, env: Any = None) -> Agent:
    """The agent saved in `folder`."""
    manifest.verify(folder, AGENT)
    config, task = read_description(folder / CONFIG)
    return _load(folder, config, task, env)


def load_run(folder: Path, replay_folder: Path, env: Any = None) -> tuple[Agent, Loop, tuple[Segment, ...]]:
    """The agent, the loop and the replay files of a run's checkpoint."""
    from simbav2.training.trainer import Loop

    found = manifest.verify(folder, (*AGENT, NEWEST))
    for segment in found.replay:
        check(replay_folder / segment.name, segment.sum)
    config, task = read_description(folder / CONFIG)
    agent = _load(folder, config, task, env)
    state = read_json(folder / STATE)
    with damage(folder / STATE):
        if int(folder.name) != agent.env_steps:
            raise ValueError(f"its steps are {agent.env_steps:,}, the folder is of {int(folder.name):,}")
        # Checkpoints without the field are of runs that began with a new agent.
        added = _count(state.get("replay_steps", agent.decisions // config.num_envs))
        snapshot = _snapshot(state["loop"], config.num_envs, added)
    with damage(folder / CONFIG):
        replay = agent.replay
    replay_segments.restore(replay, added, found.replay, replay_folder, folder / NEWEST)
    return agent, Loop(agent, snapshot), found.replay


def read_description(path: Path) -> tuple[Config, Task]:
    """The config, resolved, and the task that `description` wrote."""
    data = upgrade(read_json(path))
    for name in ("settings", "versions", "stop_after", ORDER):
        data.pop(name, None)
    with damage(path):
        task = _task(data.pop("environment"))
        config = from_json(data)
        if config.task != task.id:
            raise ValueError(f"task is {config.task!r}, but environment.id is {task.id!r}")
        return config.resolve(task), task  # fields that an older version did not write may need the task's values


def source(task: Task, env: Any = None) -> Any:
    """Where environments come from: `env`, else the saved id, unless that would import a module of its choice."""
    if env is not None or ":" not in task.id:
        return task.id if env is None else env
    return _refusing(
        f"{task.id!r} names a module to import, which a saved file must not decide; give the environment "
        f"(`env=`, or `simbav2 train {task.id} ... --auto-resume`)"
    )


def _refusing(reason: str) -> Callable[[], gym.Env]:
    """In the place of an environment that must not be made: the agent can act and be exported, but not more."""

    def refuse() -> gym.Env:
        raise InputError(reason)

    return refuse


def _load(folder: Path, config: Config, task: Task, env: Any) -> Agent:
    from simbav2.agent import Agent

    _check_sizes(config, task, folder)
    with damage(folder / CONFIG):
        learner = Learner(config, task.observation_size, task.action_size)
        expected = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    arrays = read_arrays(folder / LEARNER, specs(_paths(expected)))
    with damage(folder / CONFIG):
        agent = Agent.from_config(config, task, source(task, env))
    if env in (None, task.id) and read_json(folder / CONFIG).get(ORDER) != task.observation_order:
        agent.source = _refusing(
            f"{folder} learned {task.id} with observations in dm_control's own order; now they are sorted by key: "
            "train it again, or give `env=` an environment of the old order"
        )
    agent.state = jax.tree.map(jax.device_put, _fill(agent.state, arrays))
    agent.statistics = _read_statistics(agent.statistics, folder / STATISTICS)
    state = read_json(folder / STATE)
    with damage(folder / STATE):
        agent.decisions = _count(state["decisions"])
        agent.updates = _count(int(agent.state.updates))
        if agent.decisions % config.num_envs:
            raise ValueError(f"{agent.decisions} decisions of {config.num_envs} environments")
        agent.warmup_rng.bit_generator.state = state["warmup_rng"]
        agent.replay_rng.bit_generator.state = state["replay_rng"]
        if (saved := state.get("spaces")) is not None:  # older versions saved none
            agent.known_spaces = Spaces.from_json(saved, task.observation_size, task.action_size)
    if env is not None:
        agent.envs  # noqa: B018  made now: its spaces count, and one that does not fit is refused here
    return agent


def _check_sizes(config: Config, task: Task, folder: Path) -> None:
    """Networks are only planned that the file can hold: no size exceeds its bytes, no number its arrays."""
    size, arrays = length(folder / LEARNER), len(array_names(folder / LEARNER))
    found = {"observation_size": task.observation_size, "action_size": task.action_size}
    found |= {name: value for name, value in leaves(config).items() if name.partition(".")[2]}
    for name, value in found.items():
        if name.startswith(("replay.", "data.", "schedule.", "target.")) or type(value) is not int:
            continue
        limit = arrays if name.endswith((".depth", ".num_critics")) else size
        if value > limit:
            raise CheckpointError(f"{folder / CONFIG} does not fit {LEARNER}: {name} is {value}")


def _read_statistics(template: RunningStatistics, path: Path) -> RunningStatistics:
    arrays = read_arrays(path, specs(_named(template)))
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path} is damaged: {name} is not finite")
    return _fill(template, arrays)


def _task(data: dict[str, Any]) -> Task:
    for name, kind in typing.get_type_hints(Task).items():
        options, value = typing.get_args(kind) or (kind,), data[name]
        if type(value) not in options and value not in options:
            raise ValueError(f"environment.{name} is {value!r}")
        if type(value) is int and value < 1:
            raise ValueError(f"environment.{name} is {value}; expected at least 1")
    return Task(**data)


def _snapshot(data: dict[str, Any], num_envs: int, added: int) -> dict[str, Any]:
    """What `Loop.snapshot` gave, every entry of its kind."""
    for name in ("episodes", "totals", "lengths", "successes"):
        if len(data[name]) != num_envs:
            raise ValueError(f"{len(data[name])} {name} of {num_envs} environments")
    for name in ("episodes", "lengths"):
        data[name] = [_count(value) for value in data[name]]
    if max(data["lengths"]) > added:
        raise ValueError("an episode is longer than the run")
    data["dropped_steps"] = _count(data.get("dropped_steps", 0))  # not in checkpoints of earlier versions
    data["totals"] = [float(value) for value in data["totals"]]
    data["successes"] = [None if value is None else float(value) for value in data["successes"]]
    for total, decisions, success in data["ended"]:
        if type(total) is not float or type(decisions) is not int or not isinstance(success, float | None):
            raise ValueError("an episode that ended is no episode")
    return data


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is no count")
    return value


def _paths(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in flat}


def _named(tree: Any) -> Arrays:
    return {name: np.asarray(leaf) for name, leaf in _paths(tree).items()}


def _fill(template: Tree, arrays: Arrays) -> Tree:
    """`template` with its leaves replaced by `arrays`, numbers staying numbers."""
    filled = [
        float(arrays[name]) if isinstance(leaf, float) else arrays[name] for name, leaf in _paths(template).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(template), filled)
