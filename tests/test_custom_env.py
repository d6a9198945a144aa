"""The arm of `examples/custom_env.py`: its mechanics.

The example as a whole is a command of docs/your-environment.md, which tests/test_docs_commands.py runs.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from simbav2 import make_env


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parent.parent / "examples" / "custom_env.py"
    spec = spec_from_file_location("custom_env", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del gym.registry["Arm-v0"]


@pytest.fixture
def arm(example):
    arm = example.Arm(render_mode="rgb_array")
    arm.reset(seed=0)
    return arm


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # advice about unbounded observations
def test_it_is_an_environment_as_gymnasium_wants_it(example):
    check_env(example.Arm(render_mode="rgb_array"))
    env = make_env("Arm-v0", seed=0)
    assert (env.observation_space.shape, env.action_space.shape) == ((10,), (2,))


def test_without_motors_and_friction_no_energy_is_lost(example, arm, monkeypatch):
    def energy() -> float:
        """Of the rods as their points move: a Simpson rule over each, exact for rigid rods."""
        before, after = (joints(arm.angles + shift * arm.speeds) for shift in (-1e-6, 1e-6))
        speeds = (after - before) / 2e-6
        ends = [(speeds[0], speeds[1]), (speeds[1], speeds[2])]
        squares = [(np.sum(a**2) + np.sum((a + b) ** 2) + np.sum(b**2)) / 6 for a, b in ends]
        return 0.5 * example.MASS * sum(squares)

    def joints(angles: np.ndarray) -> np.ndarray:
        arm.angles, kept = angles, arm.angles
        found = arm._joints()
        arm.angles = kept
        return found

    monkeypatch.setattr(example, "FRICTION", 0.0)
    monkeypatch.setattr(example, "SECONDS", 1e-4)
    monkeypatch.setattr(example, "SUBSTEPS", 5_000)
    arm.angles, arm.speeds = np.array([0.3, 1.2]), np.array([1.5, -2.0])
    before = energy()
    arm.step(np.zeros(2))
    assert np.abs(arm.speeds - [1.5, -2.0]).max() > 0.1
    assert energy() == pytest.approx(before, rel=1e-3)


def test_the_reward_is_one_at_the_point_and_standing_there_is_success(arm):
    arm.angles, arm.speeds, arm.target = np.zeros(2), np.zeros(2), np.array([1.0, 0.0])
    _, reward, terminated, truncated, info = arm.step(np.zeros(2))
    assert (reward, terminated, truncated, info) == (pytest.approx(1.0), False, False, {"success": True})
    arm.target = np.array([0.0, 1.0])
    _, reward, *_, info = arm.step(np.zeros(2))
    assert reward == pytest.approx(np.exp(-5 * np.sqrt(2)))
    assert info == {"success": False}
