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
    sha256: str  # of its file

    @property
    def file(self) -> str:
        """`hopper_medium_replay-v2.hdf5` for `d4rl/hopper-medium-replay-v2`."""
        robot, _, level = self.id.removeprefix("d4rl/").removesuffix("-v2").partition("-")
        return f"{robot}_{level.replace('-', '_')}-v2.hdf5"

    @property
    def path(self) -> Path:
        """Where its file is kept."""
        return cache.folder("d4rl") / self.file


# fmt: off
_SUMS = {  # SHA-256 of the files on D4RL's own host, as TensorFlow Datasets lists them
    "halfcheetah-medium":        "41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0",
    "halfcheetah-medium-replay": "48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683",
    "halfcheetah-medium-expert": "015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06",
    "hopper-medium":             "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
    "hopper-medium-replay":      "e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b",
    "hopper-medium-expert":      "9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26",
    "walker2d-medium":           "cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda",
    "walker2d-medium-replay":    "e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db",
    "walker2d-medium-expert":    "6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04",
}
# fmt: on
D4RL = {
    name: Dataset(name, ROBOTS[kind.partition("-")[0]], sha256)
    for kind, sha256 in _SUMS.items()
    for name in [f"d4rl/{kind}-v2"]
}


def find(name: str) -> Dataset:
    if name not in D4RL:
        raise InputError(
            f"unknown data set {name!r}; expected an HDF5 file, minari/ID or one of {', '.join(D4RL)}"
            f"{nearest(name, D4RL)}"
        )
    return D4RL[name]


def normalized(name: str | None, task: Task | None, score: float) -> float | None:
    """D4RL's score for its own data sets, the benchmark's for everything else; None where neither has one."""
    if name in D4RL:
        return D4RL[name].robot.score(score)
    return None if task is None else task.normalized(score)
