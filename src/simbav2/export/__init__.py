"""A trained policy as a file that needs no JAX: normaliser, network, squashing and action bounds in one.

Nothing is written before the file, read back, has given the agent's own actions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simbav2.agent import Agent
from simbav2.checkpoint.checkpoint import params_sha256
from simbav2.checkpoint.files import versions, write
from simbav2.envs.spaces import UnitActions
from simbav2.envs.tasks import CUSTOM
from simbav2.errors import Failure, InputError, nearest
from simbav2.export.formats import FORMATS, Format
from simbav2.export.program import Operation, Rescale, program

TOLERANCE = 1e-5  # of the actions in [-1, 1]
_CHECKED = 256  # observations


class Exported(NamedTuple):
    files: tuple[Path, ...]
    difference: float  # the largest from the agent's own actions in [-1, 1]
    metadata: dict[str, Any]


def export_policy(agent: Agent, format: str, out: str | Path, unit_actions: bool = False) -> Exported:
    """Write the deterministic policy of `agent` to the file `out`, and what else the format needs to its folder.

    Its actions are in the environment's own units, as `agent.predict` gives them. For a task of the benchmark
    these are the simulator's (+-0.4 for `mujoco/Humanoid-v4`), where `predict` gives those of `make_env`, [-1, 1].
    With `unit_actions` they are always in [-1, 1].
    """
    chosen, out = find_format(format), Path(out)
    if out.suffix != chosen.suffix:
        raise InputError(f"{out} does not fit the format {format}; expected {out.stem}{chosen.suffix}")
    bounds = None if unit_actions else _bounds(agent)
    metadata = describe(agent, bounds)
    model = chosen.encode(operations(agent, bounds), metadata)
    difference = _difference(agent, bounds, chosen, model)
    if not difference <= TOLERANCE:
        raise Failure(
            f"the exported policy is off by {difference:.1e} (at most {TOLERANCE:.0e} is allowed); nothing was "
            "written. Please report it with the run's config.json"
        )
    contents = {out: model} | {out.with_name(file.name): file.read_bytes() for file in chosen.companions}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            write(path, [content])
    except OSError as error:
        raise Failure(f"{error.filename or out} cannot be written: {error.strerror or error}") from error
    return Exported(tuple(contents), difference, metadata)


def find_format(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; formats are {', '.join(FORMATS)}{nearest(name, FORMATS)}")
    return FORMATS[name]


def operations(agent: Agent, bounds: UnitActions | None) -> list[Operation]:
    """Raw observations to actions within `bounds`."""
    steps = program(agent.config.actor, agent.state.actor.variables, agent.normalizer)
    if bounds is None or ((bounds.low == -1).all() and (bounds.high == 1).all()):
        return steps
    return [*steps, Rescale(*(x.ravel() for x in (bounds.center, bounds.reach, bounds.low, bounds.high)))]


def describe(agent: Agent, bounds: UnitActions | None) -> dict[str, Any]:
    """The metadata of the file: what was trained, and what goes in and out."""
    config, task = agent.config, agent.task
    one = np.ones(task.action_size)
    return {
        "task": config.task,
        "observation_size": task.observation_size,
        "action_size": task.action_size,
        "action_low": (-one if bounds is None else bounds.low.ravel()).tolist(),
        "action_high": (one if bounds is None else bounds.high.ravel()).tolist(),
        "action_repeat": config.action_repeat,
        "preset": config.preset,
        "ablation": config.ablation,
        "seed": config.seed,
        "env_steps": agent.env_steps,
        "config": config.digest(),
        "params_sha256": params_sha256(agent),
        "versions": versions(),
    }


def _bounds(agent: Agent) -> UnitActions:
    if agent.known_spaces is not None and agent.task.suite == CUSTOM:
        return agent.known_spaces.actions
    try:
        return agent.trainer.envs.actions
    except InputError as error:
        raise InputError(
            f"{error}. Its action bounds are needed: export with --unit-actions (unit_actions=True) to leave "
            "actions in [-1, 1]"
        ) from error


def _difference(agent: Agent, bounds: UnitActions | None, format: Format, model: bytes) -> float:
    """The largest, over observations distributed like those the agent has seen."""
    normal = np.random.default_rng(0).normal(size=(_CHECKED, agent.task.observation_size))
    observations = (agent.normalizer.mean + agent.normalizer.std * normal).astype(np.float32)
    expected = agent.act(observations, noise=0.0)
    found = format.act(model, observations).astype(np.float64)
    if bounds is not None:
        expected = bounds.to_environment(expected).reshape(expected.shape)
        reach = bounds.reach.ravel()
        return float(np.max(np.abs(found - expected) / np.where(reach > 0, reach, 1)))
    return float(np.max(np.abs(found - expected)))
