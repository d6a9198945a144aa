"""What a run will take: updates, time on one core, disk, memory. Rough, at once, and without making anything.

Work is counted from the config (`analysis.compute`); the rates were measured on one core of a server CPU by
`benchmarks/sweep_rate.py`. Runs that are finished tell how fast this machine is: `pace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from simbav2.analysis.compute import parameters, planned_updates, training_compute
from simbav2.config import Config, to_json
from simbav2.envs.tasks import Task
from simbav2.errors import CheckpointError
from simbav2.sweep.plan import Run
from simbav2.training.files import read_json

# Seconds.
UPDATE, UPDATE_GFLOP = 0.0015, 0.0136  # of an update, and of its work
DECISION = 0.001  # choosing an action, storing what came of it
STEPS = {
    "mujoco": 2e-4,
    "dmc-easy": 2.4e-4,
    "dmc-hard": 4.2e-4,
    "myosuite": 1.5e-3,
    "hbench": 5e-4,
}  # simulator steps
START = 30  # imports, compilation, the report

# Bytes.
NUMBER = 4  # float32
ACTOR_COPIES, CRITIC_COPIES = 3, 4  # weights and two moments of the optimiser; critics have a target besides
RECORDS = 2 << 20  # tables, measures, the report
PROCESS = 700 << 20  # interpreter, libraries, compilation
LEARNING = 3  # states of the learner at a time: present, next, and what lies between

# An environment that we know nothing about before it is made.
_UNKNOWN = Task("unknown", "custom", 32, 8, 1, 1000, True, "return", None, None)


@dataclass(frozen=True)
class Estimate:
    updates: int
    seconds: float  # on one core
    disk: int  # bytes
    memory: int  # bytes, at its end


@cache
def estimate(run: Run) -> Estimate:
    task = run.task or _UNKNOWN
    return _estimate(run.config.resolve(task), task, run.until)


def _estimate(config: Config, task: Task, until: int) -> Estimate:
    settings = {**to_json(config), "env_steps": until}
    updates = round(planned_updates(settings))
    compute = training_compute(settings, task.observation_size, task.action_size, updates)
    assert config.action_repeat is not None
    schedule = config.schedule
    looks = 2 + until // schedule.evaluate_every  # one at the start, one at the end
    evaluated = looks * schedule.evaluation_episodes * task.episode_length
    steps = until + evaluated
    seconds = (
        START
        + updates * UPDATE
        + compute.training / 1e9 * UPDATE_GFLOP
        + steps / config.action_repeat * DECISION
        + steps * STEPS.get(task.suite, STEPS["mujoco"])
    )
    learner = _learner(settings, task)
    replay = min(config.replay.capacity, until // config.action_repeat) * _transition(task)
    return Estimate(
        updates,
        seconds,
        disk=RECORDS + replay + schedule.keep * learner,
        memory=PROCESS + replay + LEARNING * learner,
    )


def _learner(settings: Mapping, task: Task) -> int:
    """Bytes of networks and optimisers."""
    outputs = [settings["value"].get("atoms", 1)]
    actor = parameters(settings["actor"], task.observation_size, [task.action_size] * 2)
    critic = parameters(settings["critic"], task.observation_size + task.action_size, outputs)
    return NUMBER * (ACTOR_COPIES * actor + CRITIC_COPIES * critic)


def _transition(task: Task) -> int:
    """Bytes in the replay: the observation once, the action, the reward, how it ended."""
    return NUMBER * (task.observation_size + task.action_size + 2) + 1


def pace(runs: Iterable[Run], out: Path) -> float | None:
    """Time taken by the finished ones of `runs` as a multiple of its estimate; None where none is finished."""
    ratios = []
    for run in runs:
        with suppress(CheckpointError, KeyError, TypeError):
            summary = read_json(out / run.name / "summary.json")
            if summary["env_steps"] >= run.until:
                ratios.append(summary["seconds"] / estimate(run).seconds)
    return median(ratios) if ratios else None
