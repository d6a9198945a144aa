"""`make_env`: any task id, Gymnasium id, environment or callable, wrapped as the benchmark demands.

Time limits are counted in simulator steps, hence inside the action repeat. A simulator is imported when one
of its environments is made.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from simbav2.envs.rendering import check_import, choose_library
from simbav2.envs.tasks import Task, find, tasks
from simbav2.envs.wrappers import ActionRepeat, EpisodeSeeds, VectorSpaces
from simbav2.errors import InputError, nearest

Source: TypeAlias = str | gym.Env | Callable[[], gym.Env]

_MODULES = {"hbench": "humanoid_bench"}
CUSTOM = "custom"  # the suite of what is not a task of the benchmark
EPISODE_LENGTH = 1000  # assumed, for the discount only, of an environment that states no time limit


def make_env(
    source: Source, seed: int = 0, action_repeat: int | None = None, render_mode: str | None = None
) -> EpisodeSeeds:
    """The environment of `source`: actions in [-1, 1], flat float32 observations, a seed for every episode.

    A task of the benchmark brings its own action repeat and time limit. Everything else has action repeat 1
    and the time limit it was made with.
    """
    return make_member(source, seed, 0, action_repeat, render_mode)


def make_member(
    source: Source, seed: int, stream: int, action_repeat: int | None = None, render_mode: str | None = None
) -> EpisodeSeeds:
    """`make_env` for member number `stream` of several that share the run's seed."""
    if seed < 0:
        raise InputError(f"seed is {seed}; expected at least 0")
    if action_repeat is not None and action_repeat < 1:
        raise InputError(f"action_repeat is {action_repeat}; expected at least 1")
    task = find(source) if isinstance(source, str) else None
    env = _simulate(task, render_mode) if task else _obtain(source, render_mode)
    repeat = action_repeat or (task.action_repeat if task else 1)
    return EpisodeSeeds(VectorSpaces(ActionRepeat(env, repeat)), seed, stream)


def describe(env: gym.Env, source: object) -> Task:
    """The facts of an environment that `make_env` made from `source`.

    Outside the benchmark failure is assumed possible (two critics are the careful choice), and an episode
    without a time limit is taken to last EPISODE_LENGTH steps.
    """
    repeat = env.get_wrapper_attr("action_repeat")
    task = find(source) if isinstance(source, str) else None
    if task:
        return replace(task, action_repeat=repeat)
    name = source if isinstance(source, str) else _name(env.unwrapped)
    length = _time_limit(env) or EPISODE_LENGTH
    (observation_size,), (action_size,) = env.observation_space.shape or (), env.action_space.shape or ()
    return custom(name, observation_size, action_size, repeat, length)


def custom(name: str, observation_size: int, action_size: int, action_repeat: int, episode_length: int) -> Task:
    """The row that an environment outside the benchmark would have."""
    sizes = observation_size, action_size
    return Task(name, CUSTOM, *sizes, action_repeat, episode_length, True, "return", None, None)


def make_another(env: gym.Env | VectorEnv) -> gym.Env | VectorEnv:
    """A new environment like `env`, made from its spec."""
    spec = copy.deepcopy(env.spec)
    vector = isinstance(env, VectorEnv)
    if spec is None or (vector and env.unwrapped is not env):  # the spec of a vector does not know its wrappers
        raise _alone(env)
    spec.kwargs.pop("render_mode", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gym.make_vec(spec) if vector else gym.make(spec, disable_env_checker=True)
    except (gym.error.Error, ValueError) as error:  # such as a wrapper that does not record its arguments
        raise _alone(env) from error


def _alone(env: gym.Env | VectorEnv) -> InputError:
    return InputError(
        f"{env} is trained on, evaluation needs an environment of its own, and there is no spec to make one from; "
        "give one (`env=` of evaluate, `evaluation_env=` of learn), or make the agent from a callable or an id"
    )


def _simulate(task: Task, render_mode: str | None) -> gym.Env:
    """A task of ours, from the module that bears its family's name."""
    check_import()
    try:
        suite = importlib.import_module(f"simbav2.envs.{_MODULES.get(task.family, task.family)}")
    except ImportError as error:
        package = "simbav2[myosuite]" if task.family == "myosuite" else "simbav2"
        raise InputError(f"{task.id} cannot be built ({error}); pip install '{package}'") from error
    if render_mode is not None:
        choose_library()
    env: gym.Env = suite.build(task, render_mode)
    return env


def _obtain(source: Source, render_mode: str | None) -> gym.Env:
    """Somebody else's environment."""
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


def _make_registered(name: str, render_mode: str | None) -> gym.Env:
    # An environment without pictures need not know of render modes.
    drawn: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    try:
        with warnings.catch_warnings():
            # Gymnasium's advice (newer versions and so on) concerns whoever chose the id, not a training run.
            warnings.simplefilter("ignore")
            return gym.make(name, disable_env_checker=True, **drawn)
    except gym.error.DependencyNotInstalled as error:
        raise InputError(f"{name!r} lacks a package: {error}") from error
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise _unregistered(name) from error


def check_registered(name: str, others: Iterable[str] = ()) -> None:
    """Refuse what is no Gymnasium id, without making anything; one that names a module is left to it.

    `others` are what the name might have been meant for besides tasks and ids.
    """
    try:
        if ":" not in name:
            gym.spec(name)
    except gym.error.Error as error:
        raise _unregistered(name, others) from error


def _unregistered(name: str, others: Iterable[str] = ()) -> InputError:
    known = [*(task.id for task in tasks()), *others, *gym.registry]
    hint = nearest(name, known) or "; see `simbav2 tasks` and gymnasium.registry"
    return InputError(f"{name!r} is neither a task nor a Gymnasium id{hint}")


def _name(env: gym.Env) -> str:
    return env.spec.id if env.spec else type(env).__name__


def _time_limit(env: gym.Env) -> int | None:
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            return env._max_episode_steps
        env = env.env
    return env.spec.max_episode_steps if env.spec else None
