"""Whether tasks work on this machine: each is built, reset with a seed and stepped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simbav2.envs.tasks import Task
from simbav2.errors import InputError

STEPS = 50
OPTIONAL = ("myosuite", "hbench")  # suites that need more than the core install


class Attempt(NamedTuple):
    task: str
    suite: str
    ok: bool
    problem: str = ""
    remedy: str = ""


def attempt(task: Task, steps: int = STEPS) -> Attempt:
    """Try a task; whatever stands in its way is part of the answer."""
    try:
        _play(task, steps)
    except InputError as error:
        # One line, by convention: what is wrong, then what to do.
        problem, _, remedy = str(error).rpartition("; ")
        return Attempt(task.id, task.suite, False, problem.removeprefix(f"{task.id} "), remedy)
    except Exception as error:  # a broken install may throw anything
        return Attempt(task.id, task.suite, False, repr(error), "pip install --force-reinstall simbav2")
    return Attempt(task.id, task.suite, True)


def missing(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The first attempt of every suite none of whose tasks works."""
    working = {one.suite for one in attempts if one.ok}
    first = {one.suite: one for one in reversed(attempts) if one.suite not in working}
    return list(reversed(first.values()))


def _play(task: Task, steps: int) -> None:
    import numpy as np

    from simbav2.envs.humanoid_bench import assets
    from simbav2.envs.make import make_env

    if task.family == "hbench":
        assets.verify()
    with make_env(task.id) as env:
        env.action_space.seed(0)
        observation, _ = env.reset(seed=0)
        for _ in range(steps):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                observation, _ = env.reset()
            assert observation.shape == (task.observation_size,), f"observation of shape {observation.shape}"
            assert np.isfinite(observation).all(), "observation is not finite"
