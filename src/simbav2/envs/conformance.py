"""Whether a vector environment hands over terminal observations: `check_vector_env`.

An off-policy critic bootstraps from the observation that an action led to. Where an episode is reset in the step
that ends it, this observation is easily lost: the first one of the next episode stands in its place. Or a
truncation is reported as a termination. Both train without an error, towards wrong values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from simbav2.envs.env_list import Envs, Step
from simbav2.envs.vector import make_vector_env
from simbav2.errors import BadStep, InputError

DISCOUNT = 0.5
SUCCESSOR = "info['final_obs'] must be the observation that the last action led to"
MEANING = {True: "a termination", False: "a truncation"}


class Probe(gym.Env):
    """Episodes of 2, 3 and 4 steps that terminate and are truncated in turn. All rewards of episode n are n + 1.

    It observes [n, steps taken, whether the episode terminates]. The value of every observation is known: in an
    episode that is truncated, the value of going on for ever. It is found only by bootstrapping from the last
    observation of the episode; the first one of the next has another value.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self) -> None:
        self.episode, self.taken = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray, dict]:
        super().reset(seed=seed)
        self.episode, self.taken = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: NDArray) -> tuple[NDArray, float, bool, bool, dict]:
        self.taken += 1
        over, terminates = self.taken == length(self.episode), bool(self.episode % 2 == 0)
        return self._observe(), self.episode + 1.0, over and terminates, over and not terminates, {}

    def _observe(self) -> NDArray:
        return np.array([self.episode, self.taken, self.episode % 2 == 0], np.float32)


def length(episode: int) -> int:
    return 2 + episode % 3


def value(observation: NDArray) -> float:
    """Discounted return from an observation of the probe on."""
    episode, taken, terminates = observation.tolist()
    left = length(int(episode)) - taken if terminates else np.inf
    return (episode + 1) * (1 - DISCOUNT**left) / (1 - DISCOUNT)


class Checked(NamedTuple):
    """What a check has seen."""

    decisions: int
    terminations: int
    truncations: int


def check_vector_env(make: Callable[..., Any], decisions: int = 1_000, seed: int = 0) -> Checked:
    """Check that the vector environment of `make` keeps terminal observations; an InputError names the fault.

    `make(probe)` builds it around environments that `probe()` makes, whose values are known: for wrappers and
    vector classes. `make()` gives a vector environment as it is, for simulators that contain their own tasks:
    `decisions` random actions are played, and at least one episode must end.
    """
    with_probe = any(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
        for each in inspect.signature(make).parameters.values()
    )
    made = make(Probe) if with_probe else make()
    envs = made if isinstance(made, Envs) else make_vector_env(made, seed, drop_bad_steps="never")
    rng, seen = np.random.default_rng(seed), [0, 0]
    with envs:
        try:
            observation = envs.reset()
            rounds = 60 if with_probe else -(-decisions // envs.num_envs)
            for _ in range(rounds):
                step = envs.step(rng.uniform(-1, 1, (envs.num_envs, envs.action_size)).astype(np.float32))
                for member in range(envs.num_envs):
                    fault = (_probe_fault if with_probe else _fault)(observation[member], step, member)
                    if fault:
                        raise InputError(f"{envs.task.id}, environment {member}: {fault}")
                seen[0] += int(step.terminated.sum())
                seen[1] += int(step.truncated.sum())
                observation = step.observation
        except BadStep as error:
            raise InputError(f"the environment failed: {error}") from error
    if not all(seen) if with_probe else not any(seen):
        raise InputError(f"{envs.task.id}: no episode ended in {rounds} steps; give more `decisions`")
    return Checked(rounds * envs.num_envs, *seen)


def _fault(before: NDArray, step: Step, member: int) -> str | None:
    """What can be told without knowing the environment."""
    last, first = step.next_observation[member], step.observation[member]
    if not (step.terminated[member] or step.truncated[member]):
        return None
    if np.array_equal(last, first):
        return (
            "the terminal observation is the first observation of the next episode, or the episode was not reset: "
            f"they are equal; {SUCCESSOR}, and the observation returned the first of the next episode"
        )
    if np.array_equal(last, before):
        return f"the terminal observation is the one before the last action; {SUCCESSOR}"
    return None


def _probe_fault(before: NDArray, step: Step, member: int) -> str | None:
    """What keeps the value of `before` from being found with the step's transition."""
    last, first = step.next_observation[member], step.observation[member]
    terminated, truncated = bool(step.terminated[member]), bool(step.truncated[member])
    episode, taken, terminates = before.tolist()
    over = taken + 1 == length(int(episode))
    expected = [episode, taken + 1, terminates]
    start = [episode + 1, 0, episode % 2 == 1]
    if over and not (terminated or truncated):
        return f"the end of an episode is not reported: {MEANING[bool(terminates)]} was expected"
    if not over and (terminated or truncated):
        return "an end is reported before the episode has ended"
    if over and terminated != bool(terminates):
        return f"{MEANING[bool(terminates)]} is reported as {MEANING[terminated]}: values " + (
            "would ignore what comes after a time limit" if terminated else "would go on after the end"
        )
    if last.tolist() == start:
        return (
            "the terminal observation is lost: the first observation of the next episode stands in its place, and "
            f"values would be bootstrapped from it; {SUCCESSOR}"
        )
    if over and last.tolist() == before.tolist():
        return f"the terminal observation is the one before the last action; {SUCCESSOR}"
    target = float(step.reward[member]) + DISCOUNT * (not terminated) * value(last)
    if last.tolist() != expected or not np.isclose(target, value(before)):
        return (
            f"a step from {before.tolist()} led to {last.tolist()}; expected {expected}: transitions are mixed up"
        )
    if over and first.tolist() != start:
        return (
            f"the episode is reset too late: after its end the observation to act on is {first.tolist()}; "
            f"expected the first of the next episode, {start}. Is it autoreset_mode NEXT_STEP?"
        )
    return None
