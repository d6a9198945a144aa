"""`make_env`: any task id, Gymnasium id, environment or callable, wrapped as the benchmark demands.

Time limits count simulator steps, so they sit inside the action repeat. A simulator is imported when one of its
environments is made.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from simbav2.envs.rendering import check_import, choose_library
from simbav2.envs.tasks import SUITES, TASKS, Suite, Task, custom_task, find
from simbav2.envs.wrappers import ActionRepeat, EpisodeSeeds, VectorSpaces
from simbav2.errors import InputError, nearest

Source: TypeAlias = str | gym.Env | Callable[[], gym.Env]


def make_env(
    source: Source,
    seed: int = 0,
    action_repeat: int | None = None,
    render_mode: str | None = None,
    *,
    stream: int = 0,
) -> EpisodeSeeds:
    """The environment of `source`: actions in [-1, 1], flat float32 observations, a seed for every episode.

    A task of the benchmark brings its own action repeat and time limit. Everything else has action repeat 1
    and the time limit it was made with. `stream` numbers the environments that share one seed.
    """
    if seed < 0:
        raise InputError(f"seed is {seed}; expected at least 0")
    if action_repeat is not None and action_repeat < 1:
        raise InputError(f"action_repeat is {action_repeat}; expected at least 1")
    task = find(source) if isinstance(source, str) else None
    env = _make_task(task, render_mode) if task else _make_custom(source, render_mode)
    repeat = action_repeat or (task.action_repeat if task else 1)
    return EpisodeSeeds(VectorSpaces(ActionRepeat(env, repeat)), seed, stream)


def describe(env: gym.Env, source: object) -> Task:
    """The facts of an environment that `make_env` made from `source`."""
    repeat = env.get_wrapper_attr("action_repeat")
    task = find(source) if isinstance(source, str) else None
    if task:
        return replace(task, action_repeat=repeat)
    spec = env.unwrapped.spec
    name = source if isinstance(source, str) else spec.id if spec else type(env.unwrapped).__name__
    (observation_size,), (action_size,) = env.observation_space.shape or (), env.action_space.shape or ()
    return custom_task(name, observation_size, action_size, repeat, _time_limit(env))


def make_another(env: gym.Env | VectorEnv) -> gym.Env | VectorEnv:
    """A new environment like `env`, made from its spec."""
    refusal = InputError(
        f"{env} is used for training, evaluation needs another one, and there is no spec to make it from; "
        "give one (`env=` of evaluate, `evaluation_env=` of learn), or make the agent from a callable or an id"
    )
    spec = copy.deepcopy(env.spec)
    vector = isinstance(env, VectorEnv)
    if spec is None or (vector and env.unwrapped is not env):  # a vector's spec does not list its wrappers
        raise refusal
    spec.kwargs.pop("render_mode", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gym.make_vec(spec) if vector else gym.make(spec, disable_env_checker=True)
    except (gym.error.Error, ValueError) as error:  # such as a wrapper that does not record its arguments
        raise refusal from error


def obtain(source: object) -> gym.Env | VectorEnv:
    """`source` itself where it is an environment or a vector environment, else what it makes."""
    env = source if isinstance(source, gym.Env | VectorEnv) else source() if callable(source) else None
    if not isinstance(env, gym.Env | VectorEnv):
        came = f"{source!r}" if env is None else f"{source!r}, which made {env!r}"
        raise InputError(
            "expected a task id, a Gymnasium id, a gymnasium.Env, a gymnasium.vector.VectorEnv or a callable "
            f"making one; got {came}"
        )
    return env


def check_registered(name: str, others: Iterable[str] = ()) -> None:
    """Refuse an unknown Gymnasium id without making anything; an id with a module is accepted unseen.

    `others` are further names to suggest.
    """
    try:
        if ":" not in name:
            gym.spec(name)
    except gym.error.Error as error:
        raise _unregistered(name, others) from error


def _suite_module(suite: Suite, task: Task) -> Any:
    try:
        return importlib.import_module(suite.module or "mujoco")
    except ImportError as error:
        package = f"simbav2[{suite.extra}]" if suite.extra else "simbav2"
        raise InputError(f"{task.id} cannot be built ({error}); pip install '{package}'") from error


def _make_task(task: Task, render_mode: str | None) -> gym.Env:
    check_import()
    suite = SUITES[task.suite]
    module = _suite_module(suite, task)
    if render_mode is not None:
        choose_library()
    if suite.module is None:
        return _make_registered(task.name, render_mode, max_episode_steps=task.episode_length)
    env: gym.Env = module.build(task, render_mode)
    return env


def _make_custom(source: Source, render_mode: str | None) -> gym.Env:
    """An environment outside the benchmark."""
    if render_mode is not None:
        with suppress(InputError):  # it may need no GL library
            choose_library()
    if isinstance(source, str):
        return _make_registered(source, render_mode)
    env = obtain(source)
    if not isinstance(env, gym.Env):
        raise InputError(f"{source!r} made {env}; expected a single environment")
    if render_mode not in (None, env.render_mode):
        raise InputError(f"{env.unwrapped} has render_mode {env.render_mode!r}; make it with {render_mode!r}")
    return env


def _make_registered(name: str, render_mode: str | None, **keywords: Any) -> gym.Env:
    if render_mode is not None:  # an environment that cannot be drawn need not accept the argument
        keywords["render_mode"] = render_mode
    try:
        with warnings.catch_warnings():
            # Gymnasium's advice (newer versions and so on) is for whoever chose the id, not for a training run.
            warnings.simplefilter("ignore")
            return gym.make(name, disable_env_checker=True, **keywords)
    except gym.error.DependencyNotInstalled as error:
        raise InputError(f"{name!r} lacks a package: {error}") from error
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise _unregistered(name) from error


def _unregistered(name: str, others: Iterable[str] = ()) -> InputError:
    hint = nearest(name, [*TASKS, *others, *gym.registry]) or "; see `simbav2 tasks` and gymnasium.registry"
    return InputError(f"{name!r} is neither a task nor a Gymnasium id{hint}")


def _time_limit(env: gym.Env) -> int | None:
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            return env._max_episode_steps
        env = env.env
    return env.spec.max_episode_steps if env.spec else None


# Whether tasks work on this machine. ----------------------------------------------------------------------


class Attempt(NamedTuple):
    task: str
    suite: str
    ok: bool
    problem: str = ""
    remedy: str = ""


def attempt(task: Task, steps: int = 50) -> Attempt:
    """Build, reset and step a task; an error is part of the answer."""
    try:
        suite = SUITES[task.suite]
        if suite.model_files:
            _suite_module(suite, task).verify()
        _play(task, steps)
    except InputError as error:
        # One line, by convention: the problem, then the remedy.
        problem, _, remedy = str(error).rpartition("; ")
        return Attempt(task.id, task.suite, False, problem.removeprefix(f"{task.id} "), remedy)
    except Exception as error:  # a broken install may raise anything
        return Attempt(task.id, task.suite, False, repr(error), "pip install --force-reinstall simbav2")
    return Attempt(task.id, task.suite, True)


def missing(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The first attempt of every suite none of whose tasks works."""
    working = {one.suite for one in attempts if one.ok}
    first = {one.suite: one for one in reversed(attempts) if one.suite not in working}
    return list(reversed(first.values()))


def _play(task: Task, steps: int) -> None:
    with make_env(task.id) as env:
        env.action_space.seed(0)
        observation, _ = env.reset(seed=0)
        for _ in range(steps):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                observation, _ = env.reset()
            assert observation.shape == (task.observation_size,), f"observation of shape {observation.shape}"
            assert np.isfinite(observation).all(), "observation is not finite"
