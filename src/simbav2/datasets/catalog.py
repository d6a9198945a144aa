"""The D4RL data sets of the paper: one row each, and how their scores are counted. Imports nothing heavy.

The data was recorded in gym's v2 environments. Their observations, rewards and ends of episodes are those of
Gymnasium's v4, which policies are evaluated in; the physics is a later MuJoCo's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simbav2 import cache
from simbav2.envs.tasks import Task
from simbav2.errors import InputError, nearest

LEVELS = ("medium", "medium-replay", "medium-expert")
MIRRORS = (  # folders that hold the files by their names; the first is D4RL's own, often down
    "https://rail.eecs.berkeley.edu/datasets/offline_rl/gym_mujoco_v2/",
    "https://huggingface.co/datasets/imone/D4RL/resolve/main/",
)


@dataclass(frozen=True)
class Dataset:
    id: str
    task: str
    random: float  # the return of a random policy, which scores 0
    expert: float  # the return that scores 100
    sha256: str | None  # of its file; D4RL publishes none, so `download` keeps that of the first download

    @property
    def file(self) -> str:
        """`hopper_medium_replay-v2.hdf5` for `d4rl/hopper-medium-replay-v2`."""
        robot, _, level = self.id.removeprefix("d4rl/").removesuffix("-v2").partition("-")
        return f"{robot}_{level.replace('-', '_')}-v2.hdf5"

    @property
    def path(self) -> Path:
        """Where its file is kept."""
        return cache.folder("d4rl") / self.file

    def score(self, total: float) -> float:
        return 100 * (total - self.random) / (self.expert - self.random)


# fmt: off
_ROBOTS = (
    # name          task                      random        expert
    ("halfcheetah", "mujoco/HalfCheetah-v4", -280.178953,  12135.0),
    ("hopper",      "mujoco/Hopper-v4",       -20.272305,   3234.3),
    ("walker2d",    "mujoco/Walker2d-v4",       1.629008,   4592.3),
)
# fmt: on
_SUMS = {  # as several groups have independently noted of the file on D4RL's own host
    "d4rl/hopper-medium-v2": "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
}
D4RL = {
    name: Dataset(name, task, random, expert, _SUMS.get(name))
    for robot, task, random, expert in _ROBOTS
    for level in LEVELS
    for name in [f"d4rl/{robot}-{level}-v2"]
}


def find(name: str) -> Dataset:
    if name not in D4RL:
        raise InputError(
            f"unknown data set {name!r}; expected an HDF5 file, minari/ID or one of {', '.join(D4RL)}"
            f"{nearest(name, D4RL)}"
        )
    return D4RL[name]


def normalized(name: str | None, task: Task, score: float) -> float | None:
    """D4RL's score for its own data sets, the benchmark's for everything else."""
    return D4RL[name].score(score) if name in D4RL else task.normalized(score)
