"""`check_vector_env` passes on every path to the training loop, and names the fault of what is not sound."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from simbav2 import InputError, check_vector_env
from simbav2.envs.vector import make_vector_env

SAME_STEP = AutoresetMode.SAME_STEP
PATHS = {
    "one environment": lambda probe: probe(),
    "list": lambda probe: make_vector_env(probe, num_envs=3),
    "workers": lambda probe: make_vector_env(probe, num_envs=3, workers=2),
    **{f"sync {mode.name}": partial(SyncVectorEnv, autoreset_mode=mode) for mode in AutoresetMode},
    **{
        f"async {mode.name}": partial(AsyncVectorEnv, autoreset_mode=mode, context="forkserver")
        for mode in AutoresetMode
    },
}


@pytest.mark.parametrize("path", PATHS)
def test_every_path_keeps_terminal_observations(path):
    make = PATHS[path]
    seen = check_vector_env((lambda probe: make([probe] * 2)) if isinstance(make, partial) else make)
    assert seen.decisions >= 60
    assert min(seen.terminations, seen.truncations) >= 8


class Wrong(SyncVectorEnv):
    """A vector environment with one fault."""

    def __init__(self, probe, fault):
        super().__init__([probe] * 2, autoreset_mode=AutoresetMode.NEXT_STEP if fault == "late" else SAME_STEP)
        self.fault = fault
        if fault == "late":  # it does not say so
            self.metadata = {**self.metadata, "autoreset_mode": SAME_STEP}

    @property
    def unwrapped(self):
        return gym.vector.VectorWrapper(self) if self.fault == "late" else self

    def step(self, actions):
        before = np.array(self._observations)
        observation, reward, terminated, truncated, info = super().step(actions)
        ended = terminated | truncated
        match self.fault:
            case "reset observation" if ended.any():
                info["final_obs"] = np.array(list(observation), object)
            case "stale" if ended.any():
                info["final_obs"] = np.array(list(before), object)
            case "truncation lost":
                terminated, truncated = ended, np.zeros_like(ended)
            case "termination lost":
                terminated, truncated = np.zeros_like(ended), ended
            case "late" if ended.any():
                info["final_obs"] = np.array(list(observation), object)
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "reset observation",
            "the terminal observation is lost: the first observation of the next episode stands in",
        ),
        ("stale", "the terminal observation is the one before the last action"),
        ("truncation lost", "a truncation is reported as a termination: .* ignore what comes after a time limit"),
        ("termination lost", "a termination is reported as a truncation: values would go on after the end"),
        ("late", "the episode is reset too late: .* is it autoreset_mode NEXT_STEP"),
    ],
)
def test_a_wrong_adapter_is_told_its_fault(fault, message):
    with pytest.raises(InputError, match=f"(?i)environment [01]: {message}") as error:
        check_vector_env(lambda probe: Wrong(probe, fault))
    assert "\n" not in str(error.value)


def pendulums(fault=None):
    def make():
        if fault is None:
            return SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2, autoreset_mode=SAME_STEP)
        return Wrong(lambda: gym.make("Pendulum-v1"), fault)

    return make


def test_a_simulator_with_tasks_of_its_own_is_checked_by_what_can_be_seen():
    assert check_vector_env(pendulums()) == (1_000, 0, 4)
    with pytest.raises(InputError, match="no episode ended in 50 steps; give more `decisions`"):
        check_vector_env(pendulums(), decisions=100)
    with pytest.raises(InputError, match="is the first observation of the next episode, or the episode was not"):
        check_vector_env(pendulums("reset observation"))
    with pytest.raises(InputError, match="the one before the last action"):
        check_vector_env(pendulums("stale"))


def test_an_end_without_a_terminal_observation_is_refused_in_training_too():
    class Silent(SyncVectorEnv):
        def step(self, actions):
            *step, info = super().step(actions)
            info.pop("final_obs", None)
            return *step, info

    with pytest.raises(InputError, match="info has no final_obs: the terminal observation is lost"):
        check_vector_env(lambda probe: Silent([probe], autoreset_mode=SAME_STEP))
