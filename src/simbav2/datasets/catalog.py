"""The D4RL data sets of the paper, where their files come from and where they go. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simbav2 import cache
from simbav2.envs.d4rl import ROBOTS, Robot
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
    robot: Robot
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


_SUMS = {  # as several groups have independently noted of the file on D4RL's own host
    "d4rl/hopper-medium-v2": "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
}
D4RL = {
    name: Dataset(name, robot, _SUMS.get(name))
    for kind, robot in ROBOTS.items()
    for level in LEVELS
    for name in [f"d4rl/{kind}-{level}-v2"]
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
    return D4RL[name].robot.score(score) if name in D4RL else task.normalized(score)
