"""What a run takes: updates, time on one core, disk, memory. Rough, and computed without building anything.

Work is counted from the config (`compute`). The times of updates and simulator steps were measured once, on one
core of a busy machine, by `benchmarks/sweep_rate.py`; the other numbers are guesses of the right size.
`pace` corrects them by the finished runs of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from simbav2.checkpoint.files import read_json
from simbav2.envs.tasks import SUITES, custom_task
from simbav2.errors import CheckpointError
from simbav2.experiments.compute import count_compute
from simbav2.experiments.sweep.plan import PlannedRun
from simbav2.experiments.sweep.status import status

# Seconds.
UPDATE, UPDATE_GFLOP = 0.0015, 0.0136  # an update, and each GFLOP of it
DECISION = 0.001  # a guess: choose an action, store the transition
START = 30  # a guess: imports, compilation, the report

# Bytes.
NUMBER = 4  # float32
ACTOR_COPIES, CRITIC_COPIES = 3, 4  # weights and two moments of the optimiser; critics also have a target
RECORDS = 2 << 20  # tables, metrics, the report
PROCESS = 700 << 20  # interpreter, libraries, compilation
LEARNER_STATES = 3  # in memory at a time: the present one, the next, and intermediate values
_CGROUP = Path("/sys/fs/cgroup")

# Of D4RL's data sets, about.
_TRANSITIONS = {"medium-replay": 300_000, "medium-expert": 2_000_000, "medium": 1_000_000}
# An environment that is not in the benchmark.
_UNKNOWN = custom_task("unknown", 32, 8)


@dataclass(frozen=True)
class Estimate:
    updates: int
    seconds: float  # on one core
    disk: int  # bytes
    memory: int  # bytes, at the end of the run


@cache
def estimate(run: PlannedRun) -> Estimate:
    task = run.task or _UNKNOWN
    config = run.config.resolve(task)
    schedule, repeat = config.schedule, config.action_repeat or 1
    if run.learns_from_data:  # an update counts as a step
        transitions = next(size for level, size in _TRANSITIONS.items() if level in run.config.task)
        updates = round(config.data.passes * transitions / config.replay.batch_size)
        until = updates = min(updates, run.until or updates)
        env_steps = 0
    else:
        until = env_steps = run.until or config.env_steps
        decisions = until // repeat
        transitions = min(config.replay.capacity, decisions)
        updates = max(0, round((decisions - config.warmup_decisions) * (config.updates_per_decision or 1)))
    evaluations = 2 + until // schedule.evaluate_every  # including one at the start and one at the end
    env_steps += evaluations * schedule.evaluation_episodes * task.episode_length
    compute = count_compute(config, task.observation_size, task.action_size)
    seconds = (
        START
        + updates * UPDATE
        + updates * compute.update / 1e9 * UPDATE_GFLOP
        + env_steps / repeat * DECISION
        + env_steps * SUITES.get(task.suite, SUITES["mujoco"]).step_seconds
    )
    learner = NUMBER * (ACTOR_COPIES * compute.actor_weights + CRITIC_COPIES * compute.critic_weights)
    # A transition has the observation once, the action, the reward and how it ended.
    replay = transitions * (NUMBER * (task.observation_size + task.action_size + 2) + 1)
    return Estimate(
        updates,
        seconds,
        # A data set is not copied into the run.
        disk=RECORDS + schedule.keep * learner + (0 if run.learns_from_data else replay),
        memory=PROCESS + LEARNER_STATES * learner + replay,
    )


def pace(runs: Iterable[PlannedRun], out: Path) -> float | None:
    """The time that finished runs took as a multiple of their estimate, the median; None if no run is finished."""
    ratios = []
    for run in runs:
        with suppress(CheckpointError, KeyError, TypeError):
            if status(run, out).state == "finished":
                ratios.append(read_json(out / run.name / "summary.json")["seconds"] / estimate(run).seconds)
    return median(ratios) if ratios else None


def free_memory() -> int:
    """Free bytes of this machine, or of its container if it has less; all bytes where neither is known (macOS)."""
    found = []
    with suppress(OSError, IndexError):
        _, _, rest = Path("/proc/meminfo").read_text().partition("MemAvailable:")
        found.append(int(rest.split()[0]) * 1024)
    with suppress(OSError, ValueError):  # "max" where there is no limit
        limit = int((_CGROUP / "memory.max").read_text())
        found.append(max(0, limit - int((_CGROUP / "memory.current").read_text())))
    return min(found) if found else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
