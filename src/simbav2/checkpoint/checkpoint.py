"""One saved agent: networks, optimisers and statistics, and for a run the replay and the current episodes.

A folder of plain files: safetensors for arrays, JSON for the rest, and a manifest with the checksum of each,
written last. The folder is written under a temporary name and renamed. Loading never executes anything and trusts
nothing: checksums first, then every size and type is compared with what the config asks for, before anything is
allocated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import jax
import numpy as np

from simbav2.actor_critic import ActorCritic, count_env_steps, programs
from simbav2.checkpoint import files
from simbav2.checkpoint.files import Arrays, Checksum, damage, read_arrays, read_json, write_arrays, write_json
from simbav2.config import Config, from_json, leaves, to_json, upgrade
from simbav2.config.presets import given
from simbav2.envs.spaces import Spaces
from simbav2.envs.tasks import Task
from simbav2.errors import CheckpointError, InputError
from simbav2.learner import LearnerState
from simbav2.normalization import RunningStatistics
from simbav2.replay import Replay

LEARNER, STATISTICS, STATE, CONFIG = "learner.safetensors", "statistics.safetensors", "state.json", "config.json"
NEWEST = "newest.safetensors"  # the newest step of the replay
MANIFEST = "manifest.json"
ORDER = "observation_order"
AGENT = (LEARNER, STATISTICS, STATE, CONFIG)
FORMAT = 1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # cannot leave the folder
Tree = TypeVar("Tree")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a folder; `episodes` and `replay` only where it is that of a run."""

    config: Config
    task: Task
    state: LearnerState
    statistics: RunningStatistics
    decisions: int
    spaces: Spaces | None
    random_streams: dict[str, Any]  # the states of the trainer's generators
    episodes: dict[str, Any] | None = None  # `Trainer.snapshot`
    replay: Replay | None = None
    folder: Path | None = None  # where it was read
    observation_order: str | None = None  # the one it was read with

    @property
    def env_steps(self) -> int:
        return count_env_steps(self.config, self.decisions, int(self.state.updates))

    def source(self, env: Any = None) -> Any:
        """Where environments come from: `env`, else the saved id."""
        if env in (None, self.task.id) and self.observation_order != self.task.observation_order:
            return _refusing(
                f"{self.folder} learned {self.task.id} with observations in dm_control's own order; now they are "
                "sorted by key: train it again, or give `env=` an environment of the old order"
            )
        return env_source(self.task, env)


class Segment(NamedTuple):
    """A file of the replay, with its steps [first, last)."""

    first: int
    last: int
    checksum: Checksum

    @property
    def name(self) -> str:
        return f"{self.first:012}-{self.last:012}.safetensors"


class Manifest(NamedTuple):
    """The checksum of every file of a checkpoint."""

    files: dict[str, Checksum]  # in the checkpoint's folder
    replay: tuple[Segment, ...]  # in the run's


def description(config: Config, task: Task) -> dict[str, Any]:
    """What `config.json` holds: the whole config, what it changes in its preset, the environment, the versions."""
    return {
        **to_json(config),
        "settings": given(config, task),
        "environment": dataclasses.asdict(task),
        ORDER: task.observation_order,
        "versions": files.versions(),
    }


def params_sha256(agent: ActorCritic) -> str:
    """A digest of all networks: equal digests, equal bits."""
    digest = hashlib.sha256()
    nets = (agent.state.actor.params, agent.state.critic.params, agent.state.target)
    for name, array in sorted(_named(nets).items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Saving. --------------------------------------------------------------------------------------------------


def save(checkpoint: Checkpoint, folder: Path, segments: tuple[Segment, ...] = ()) -> None:
    """Write `folder`, all or nothing; `segments` are the files that hold the replay."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another folder or remove it first")
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    spaces, replay = checkpoint.spaces, checkpoint.replay
    try:
        temporary.mkdir(parents=True)
        state: dict[str, Any] = {
            "decisions": checkpoint.decisions,
            **checkpoint.random_streams,
            "spaces": None if spaces is None else spaces.to_json(),
        }
        written = {
            LEARNER: write_arrays(temporary / LEARNER, _named(checkpoint.state)),
            STATISTICS: write_arrays(temporary / STATISTICS, _named(checkpoint.statistics)),
            CONFIG: write_json(temporary / CONFIG, description(checkpoint.config, checkpoint.task)),
        }
        if replay is not None:
            state["loop"] = checkpoint.episodes
            state["replay_steps"] = replay.added  # fewer than decided where a run began with a loaded agent
            newest = {**replay.export_rows(replay.sealed, replay.added), "head": replay.head}
            written[NEWEST] = write_arrays(temporary / NEWEST, newest)
        written[STATE] = write_json(temporary / STATE, state)
        write_manifest(temporary, Manifest(written, segments))
        os.replace(temporary, folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files.sync(folder.parent)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    content: dict[str, Any] = {
        "format": FORMAT,
        "files": {name: entry._asdict() for name, entry in manifest.files.items()},
        "replay": [
            {"first": part.first, "last": part.last, **part.checksum._asdict()} for part in manifest.replay
        ],
    }
    write_json(folder / MANIFEST, {**content, "sha256": _sha256(content)})


def _sha256(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Loading. -------------------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> Manifest:
    """The manifest alone; `verify` checks the files."""
    path = folder / MANIFEST
    content = read_json(path)
    with damage(path):
        if content.pop("sha256") != _sha256(content):
            raise ValueError("its own SHA-256 does not match")
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, this version reads {FORMAT}")
        listed = {name: _checksum(entry) for name, entry in dict(content["files"]).items()}
        for name in listed:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a plain file name")
        replay = tuple(
            Segment(count(part["first"]), count(part["last"]), _checksum(part)) for part in list(content["replay"])
        )
        if any(part.first >= part.last for part in replay):
            raise ValueError("a replay file without steps")
    return Manifest(listed, replay)


def verify(folder: Path, needed: tuple[str, ...] = AGENT) -> Manifest:
    """The manifest, once every file of the folder agrees with it."""
    manifest = read_manifest(folder)
    for name in needed:
        if name not in manifest.files:
            raise CheckpointError(f"{folder / MANIFEST} is damaged: it lacks {name!r}")
    for name, entry in manifest.files.items():
        files.check(folder / name, entry)
    return manifest


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


def env_source(task: Task, env: Any = None) -> Any:
    """`env`, else the saved id, unless that would import a module of the file's choice."""
    if env is not None or ":" not in task.id:
        return task.id if env is None else env
    return _refusing(
        f"{task.id!r} names a module to import, which a saved file must not decide; give the environment "
        f"(`env=`, or `simbav2 train {task.id} ... --auto-resume`)"
    )


def _refusing(reason: str) -> Callable[[], gym.Env]:
    """In place of an environment that must not be made: the agent can act and be exported, but not more."""

    def refuse() -> gym.Env:
        raise InputError(reason)

    return refuse


def load(folder: Path, needed: tuple[str, ...] = AGENT) -> tuple[Checkpoint, dict[str, Any], Manifest]:
    """The agent saved in `folder`, all of its `state.json`, and the manifest it was verified by."""
    manifest = verify(folder, needed)
    config, task = read_description(folder / CONFIG)
    _check_sizes(config, task, folder)
    with damage(folder / CONFIG):
        learner, _ = programs(config, task)
        planned = jax.eval_shape(learner.init, jax.random.PRNGKey(config.seed))
    arrays = read_arrays(folder / LEARNER, files.specs(_paths(planned)))
    statistics = _read_statistics(config, task, folder / STATISTICS)
    state = read_json(folder / STATE)
    with damage(folder / STATE):
        decisions = count(state["decisions"])
        if decisions % config.num_envs:
            raise ValueError(f"{decisions} decisions of {config.num_envs} environments")
        streams = {name: state[name] for name in ("warmup_rng", "replay_rng")}
        for stream in streams.values():
            np.random.default_rng().bit_generator.state = stream  # refused here if it does not fit
        spaces = state.get("spaces")  # older versions saved none
        saved = Checkpoint(
            config=config,
            task=task,
            state=jax.tree.map(jax.device_put, _fill(planned, arrays)),
            statistics=statistics,
            decisions=decisions,
            spaces=None if spaces is None else Spaces.from_json(spaces, task.observation_size, task.action_size),
            random_streams=streams,
            folder=folder,
            observation_order=read_json(folder / CONFIG).get(ORDER),
        )
        count(int(saved.state.updates))
    return saved, state, manifest


def _check_sizes(config: Config, task: Task, folder: Path) -> None:
    """Networks are only planned that the file can hold: no size exceeds its bytes, no number its arrays."""
    size, arrays = files.length(folder / LEARNER), len(files.array_names(folder / LEARNER))
    found = {"observation_size": task.observation_size, "action_size": task.action_size}
    sizes = (".width", ".depth", ".num_critics", ".atoms", ".quantiles")
    found |= {name: value for name, value in leaves(config).items() if name.endswith(sizes)}
    for name, value in found.items():
        limit = arrays if name.endswith((".depth", ".num_critics")) else size
        if value > limit:
            raise CheckpointError(f"{folder / CONFIG} does not fit {LEARNER}: {name} is {value}")


def _read_statistics(config: Config, task: Task, path: Path) -> RunningStatistics:
    template = RunningStatistics.start(task.observation_size, config.num_envs)
    arrays = read_arrays(path, files.specs(_named(template)))
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


def count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is not a count")
    return value


def _checksum(entry: Any) -> Checksum:
    return Checksum(count(entry["size"]), str(entry["sha256"]))


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
