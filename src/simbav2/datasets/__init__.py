"""Recorded experience. Here: the D4RL data sets of the paper and where their files come from; light to import."""

from __future__ import annotations

from dataclasses import dataclass

from simbav2.envs.tasks import D4RL_ROBOTS
from simbav2.errors import InputError, nearest

LEVELS = ("medium", "medium-replay", "medium-expert")
MIRRORS = (  # folders that hold the files by their names; the first is D4RL's own, often down
    "https://rail.eecs.berkeley.edu/datasets/offline_rl/gym_mujoco_v2/",
    "https://huggingface.co/datasets/imone/D4RL/resolve/main/",
)


@dataclass(frozen=True)
class D4RLDataset:
    robot: str
    level: str
    sha256: str  # of the file on D4RL's own host, as TensorFlow Datasets lists it

    @property
    def id(self) -> str:
        return f"d4rl/{self.robot}-{self.level}-v2"

    @property
    def file(self) -> str:
        """`hopper_medium_replay-v2.hdf5` for `d4rl/hopper-medium-replay-v2`."""
        return f"{self.robot}_{self.level.replace('-', '_')}-v2.hdf5"

    @property
    def task(self) -> str:
        """The id of the task that it was recorded in."""
        return D4RL_ROBOTS[self.robot].task


# fmt: off
_ROWS = (
    ("halfcheetah", "medium",        "41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0"),
    ("halfcheetah", "medium-replay", "48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683"),
    ("halfcheetah", "medium-expert", "015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06"),
    ("hopper",      "medium",        "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0"),
    ("hopper",      "medium-replay", "e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b"),
    ("hopper",      "medium-expert", "9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26"),
    ("walker2d",    "medium",        "cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda"),
    ("walker2d",    "medium-replay", "e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db"),
    ("walker2d",    "medium-expert", "6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04"),
)
# fmt: on
D4RL = {row.id: row for row in (D4RLDataset(*facts) for facts in _ROWS)}


def find(name: str) -> D4RLDataset:
    if name not in D4RL:
        raise InputError(
            f"unknown data set {name!r}; expected an HDF5 file, minari/ID or one of {', '.join(D4RL)}"
            f"{nearest(name, D4RL)}"
        )
    return D4RL[name]
