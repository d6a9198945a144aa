"""What the environments' tests need of this machine, and the reason where it is missing."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from simbav2.envs.humanoid_bench.assets import VARIABLE
from simbav2.envs.rendering import choose_library
from simbav2.envs.tasks import Task
from simbav2.errors import InputError

# Beside the repository where the tests are run for every change.
SHARED = Path(__file__).resolve().parents[3] / "shared" / "humanoid_bench"
ASSETS = Path(os.environ.get(VARIABLE) or SHARED / "assets")
if ASSETS.is_dir():
    os.environ[VARIABLE] = str(ASSETS)


@pytest.fixture(scope="session")
def humanoid_bench() -> Path:
    """The folder of the model files."""
    if not ASSETS.is_dir():
        pytest.skip(f"no HumanoidBench files in {ASSETS}; set {VARIABLE} to their folder")
    return ASSETS


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of trajectories recorded with the original."""
    if not (SHARED / "golden").is_dir():
        pytest.skip(f"no recorded trajectories in {SHARED / 'golden'}")
    return SHARED / "golden"


@pytest.fixture
def simulator(task: Task, request: pytest.FixtureRequest) -> None:
    """Skips a test of `task` where its simulator is not installed."""
    if task.family == "hbench":
        request.getfixturevalue("humanoid_bench")
    if task.family == "myosuite" and importlib.util.find_spec("myosuite") is None:
        pytest.skip("no myosuite; pip install 'simbav2[myosuite]'")


@pytest.fixture(scope="session")
def gl() -> None:
    """Skips a test where no frame can be drawn."""
    try:
        choose_library()
    except InputError as error:
        pytest.skip(str(error))
