"""Saved agents: networks, optimisers and statistics, and for a run the replay and the episodes under way.

A checkpoint is a folder of plain files: safetensors for arrays, JSON for the rest. It is written beside and
renamed, and the one before it goes only when the new one is whole. Loading never executes anything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from simbav2.config import Config, from_json, to_json
from simbav2.envs.tasks import Task
from simbav2.errors import InputError
from simbav2.learner import LearnerState
from simbav2.presets import given
from simbav2.statistics import Moments, Returns, Statistics
from simbav2.training.files import versions, write_json

if TYPE_CHECKING:
    from simbav2.agent import SimbaV2
    from simbav2.training.online import Loop

Arrays = dict[str, NDArray[Any]]


class CheckpointError(InputError):
    """A checkpoint that is damaged, incomplete or of another kind; the text names the file."""


def description(config: Config, task: Task) -> dict[str, Any]:
    """What `config.json` holds: the whole config, what it changes in its preset, the environment, the versions."""
    return {
        **to_json(config),
        "settings": given(config, task),
        "environment": dataclasses.asdict(task),
        "versions": versions(),
    }


def params_sha256(agent: SimbaV2) -> str:
    """A digest of all networks: equal digests, equal bits."""
    digest = hashlib.sha256()
    nets = (agent.state.actor.params, agent.state.critic.params, agent.state.target)
    for name, array in sorted(_named(nets).items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save(agent: SimbaV2, folder: Path, loop: Loop | None = None) -> None:
    """Write `folder`, all or nothing; `loop` adds what is needed to go on with the run."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another folder or remove it first")
    beside = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    state: dict[str, Any] = {
        "decisions": agent.decisions,
        "warmup_rng": agent.warmup_rng.bit_generator.state,
        "replay_rng": agent.replay_rng.bit_generator.state,
    }
    save_file(_named(agent.state), beside / "learner.safetensors")
    save_file(_statistics_arrays(agent.statistics), beside / "statistics.safetensors")
    if loop is not None:
        state["loop"] = loop.snapshot()
        save_file(agent.replay.snapshot(), beside / "replay.safetensors")
    write_json(beside / "state.json", state)
    write_json(beside / "config.json", description(agent.config, agent.task))
    if folder.exists():
        folder.rmdir()
    os.replace(beside, folder)


def latest(run: Path) -> Path | None:
    """The newest whole checkpoint of a run folder."""
    whole = [path for path in (run / "checkpoints").glob("*") if not path.name.startswith(".")]
    return max(whole, default=None)


def save_in_run(agent: SimbaV2, run: Path, loop: Loop) -> None:
    """The run's newest checkpoint; older ones go once it is whole."""
    folder = run / "checkpoints" / f"{agent.env_steps:012}"
    if not folder.exists():
        save(agent, folder, loop)
    for other in (run / "checkpoints").iterdir():
        if other != folder:
            shutil.rmtree(other)


def load(folder: Path, env: Any = None) -> SimbaV2:
    """The agent saved in `folder`, which may be a run: then its newest checkpoint."""
    from simbav2.agent import SimbaV2

    folder = latest(folder) or folder
    if not (folder / "learner.safetensors").is_file():
        raise InputError(f"{folder} holds no saved agent; expected a run or a folder written by `agent.save`")
    data = read_json(folder / "config.json")
    for name in ("settings", "versions", "stop_after"):
        data.pop(name, None)
    try:
        task = Task(**data.pop("environment"))
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / 'config.json'} is damaged: its environment cannot be read") from error
    config = from_json(data)
    agent = SimbaV2.from_config(config, task, task.id if env is None else env)
    agent.state = _fill(agent.state, _arrays(folder / "learner.safetensors"), folder / "learner.safetensors")
    agent.statistics = _statistics(_arrays(folder / "statistics.safetensors"), folder / "statistics.safetensors")
    state = read_json(folder / "state.json")
    agent.decisions = state["decisions"]
    agent.updates = int(agent.state.updates)
    agent.warmup_rng.bit_generator.state = state["warmup_rng"]
    agent.replay_rng.bit_generator.state = state["replay_rng"]
    return agent


def load_loop(agent: SimbaV2, run: Path) -> Loop:
    """The rest of a run's newest checkpoint: replay and episodes under way."""
    from simbav2.training.online import Loop

    folder = latest(run)
    if folder is None:
        raise InputError(f"{run} holds no checkpoint to go on from; start it again with --overwrite")
    agent.replay.restore(_arrays(folder / "replay.safetensors"))
    return Loop(agent, read_json(folder / "state.json")["loop"])


def read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} is damaged: expected a JSON object")
    return data


def _arrays(path: Path) -> Arrays:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _named(tree: Any) -> Arrays:
    """The leaves of a tree by their path, as NumPy arrays."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in flat}


def _fill(template: LearnerState, arrays: Arrays, path: Path) -> LearnerState:
    """`template` with its leaves replaced by `arrays`, which must fit it exactly."""
    expected = _named(template)
    for name in expected.keys() ^ arrays.keys():
        raise CheckpointError(
            f"{path} does not fit its config: {name} is {'missing' if name in expected else 'unknown'}"
        )
    for name, leaf in expected.items():
        if (leaf.shape, leaf.dtype) != (arrays[name].shape, arrays[name].dtype):
            raise CheckpointError(
                f"{path} does not fit its config: {name} is {arrays[name].dtype}{arrays[name].shape}, "
                f"expected {leaf.dtype}{leaf.shape}"
            )
    return jax.tree.unflatten(jax.tree.structure(template), [jax.device_put(arrays[name]) for name in expected])


def _statistics_arrays(statistics: Statistics) -> Arrays:
    returns = statistics.returns
    return {
        "observation_mean": statistics.observation.mean,
        "observation_variance": statistics.observation.variance,
        "observation_weight": np.array(statistics.observation.weight),
        "return_mean": returns.moments.mean,
        "return_variance": returns.moments.variance,
        "return_weight": np.array(returns.moments.weight),
        "return_largest": np.array(returns.largest),
        "return_running": returns.running,
    }


def _statistics(arrays: Arrays, path: Path) -> Statistics:
    try:
        return Statistics(
            Moments(
                arrays["observation_mean"], arrays["observation_variance"], float(arrays["observation_weight"])
            ),
            Returns(
                arrays["return_running"],
                Moments(arrays["return_mean"], arrays["return_variance"], float(arrays["return_weight"])),
                float(arrays["return_largest"]),
            ),
        )
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error}") from error
