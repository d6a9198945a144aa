"""What a run will take: updates, time on one core, disk, memory. Rough, at once, and without making anything.

Work is counted from the config (`compute`). The times of updates and simulator steps were measured once, on one
core of a busy machine, by `benchmarks/sweep_rate.py`; the other numbers are guesses of the right size.
Runs that are finished tell how fast this machine is: `pace`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from simbav2.checkpoint.files import read_json
from simbav2.config import Config
from simbav2.envs.tasks import Task
from simbav2.errors import CheckpointError
from simbav2.experiments.compute import Compute, count_compute
from simbav2.experiments.sweep.plan import Run
from simbav2.experiments.sweep.status import finished

# Seconds.
UPDATE, UPDATE_GFLOP = 0.0015, 0.0136  # of an update, and of its work
DECISION = 0.001  # a guess: choosing an action, storing what came of it
STEPS = {
    "mujoco": 2e-4,
    "dmc-easy": 2.4e-4,
    "dmc-hard": 4.2e-4,
    "myosuite": 1.5e-3,
    "hbench": 5e-4,
}  # simulator steps
START = 30  # a guess: imports, compilation, the report

# Bytes.
NUMBER = 4  # float32
ACTOR_COPIES, CRITIC_COPIES = 3, 4  # weights and two moments of the optimiser; critics have a target besides
RECORDS = 2 << 20  # tables, measures, the report
PROCESS = 700 << 20  # interpreter, libraries, compilation
LEARNING = 3  # states of the learner at a time: present, next, and what lies between

# Of D4RL's data sets, about.
_TRANSITIONS = {"medium-replay": 300_000, "medium-expert": 2_000_000, "medium": 1_000_000}
# An environment that we know nothing about before it is made.
_UNKNOWN = Task("unknown", "custom", 32, 8, 1, 1000, True, "return", None, None)


@dataclass(frozen=True)
class Estimate:
    updates: int
    seconds: float  # on one core
    disk: int  # bytes
    memory: int  # bytes, at its end


class Work(NamedTuple):
    """What a run does, in numbers."""

    updates: int
    env_steps: int  # of training
    transitions: int  # held in the end
    looks: int  # evaluations


@cache
def estimate(run: Run) -> Estimate:
    task = run.task or _UNKNOWN
    config = run.config.resolve(task)
    work = _on_data(run, config) if run.learns_from_data else _online(run, config)
    schedule, repeat = config.schedule, config.action_repeat or 1
    compute = count_compute(config, task.observation_size, task.action_size)
    steps = work.env_steps + work.looks * schedule.evaluation_episodes * task.episode_length
    seconds = (
        START
        + work.updates * UPDATE
        + work.updates * compute.update / 1e9 * UPDATE_GFLOP
        + steps / repeat * DECISION
        + steps * STEPS.get(task.suite, STEPS["mujoco"])
    )
    learner = _learner(compute)
    replay = work.transitions * _transition(task)
    return Estimate(
        work.updates,
        seconds,
        # Dataset data stays where it is.
        disk=RECORDS + schedule.keep * learner + (0 if run.learns_from_data else replay),
        memory=PROCESS + LEARNING * learner + replay,
    )


def _online(run: Run, config: Config) -> Work:
    until = run.until or config.env_steps
    decisions = until // (config.action_repeat or 1)
    updates = max(0, round((decisions - config.warmup_decisions) * (config.updates_per_decision or 1)))
    return Work(updates, until, min(config.replay.capacity, decisions), _looks(config, until))


def _on_data(run: Run, config: Config) -> Work:
    """An update counts as a step."""
    transitions = next(size for level, size in _TRANSITIONS.items() if level in run.config.task)
    updates = round(config.data.passes * transitions / config.replay.batch_size)
    updates = min(updates, run.until or updates)
    return Work(updates, 0, transitions, _looks(config, updates))


def _looks(config: Config, until: int) -> int:
    return 2 + until // config.schedule.evaluate_every  # one at the start, one at the end


def _learner(compute: Compute) -> int:
    """Bytes of networks and optimisers."""
    return NUMBER * (ACTOR_COPIES * compute.actor_weights + CRITIC_COPIES * compute.critic_weights)


def _transition(task: Task) -> int:
    """Bytes in the replay: the observation once, the action, the reward, how it ended."""
    return NUMBER * (task.observation_size + task.action_size + 2) + 1


def pace(runs: Iterable[Run], out: Path) -> float | None:
    """Time taken by the finished ones of `runs` as a multiple of its estimate; None where none is finished."""
    ratios = []
    for run in runs:
        with suppress(CheckpointError, KeyError, TypeError):
            if finished(run, out / run.name):
                ratios.append(read_json(out / run.name / "summary.json")["seconds"] / estimate(run).seconds)
    return median(ratios) if ratios else None
