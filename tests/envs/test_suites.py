"""Every task of the two suites that need no extra, against its simulator."""

import warnings

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from simbav2.envs.make import make_env
from simbav2.envs.tasks import tasks

ALL = [*tasks("mujoco"), *tasks("dmc")]
DMC = tasks("dmc")


def by_id(rows):
    return pytest.mark.parametrize("task", rows, ids=[task.id for task in rows])


def play(env, actions, **reset):
    observation, _ = env.reset(**reset)
    observations, rewards = [observation], []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    return np.array(observations), np.array(rewards)


def random_actions(env, count=15):
    return np.random.default_rng(0).uniform(-1, 1, (count, *env.action_space.shape)).astype(np.float32)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@by_id(ALL)
def test_sizes_are_the_simulators_and_seeds_decide_everything(task):
    with make_env(task.id, seed=3) as env:
        assert env.observation_space.shape == (task.observation_size,)
        assert env.observation_space.dtype == np.float32
        assert env.action_space == gym.spaces.Box(-1, 1, (task.action_size,), np.float32)
        assert isinstance(env.unwrapped.model, mujoco.MjModel)
        assert isinstance(env.unwrapped.data, mujoco.MjData)

        actions = random_actions(env)
        first = play(env, actions)
        assert first[0].dtype == np.float32
        assert first[0].shape == (len(first[1]) + 1, task.observation_size)
        second = play(env, actions)
        assert not same(first, second)
        env.episode = 0
        assert same(first, play(env, actions))
        assert same(play(env, actions, seed=11), play(env, actions, seed=11))


@by_id(ALL)
def test_gymnasium_finds_nothing_wrong(task):
    with make_env(task.id) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is wrapped, that bounds are infinite
        check_env(env, skip_render_check=True)


@by_id(DMC)
def test_a_seed_starts_the_episode_that_the_suite_starts_with_it(task):
    from simbav2.envs.dmc import suite

    domain, name = next(
        pair for pair in suite.ALL_TASKS if "-".join(pair).replace("_", "-") == task.id.removeprefix("dmc/")
    )
    control = suite.load(domain, name, task_kwargs={"random": 5})
    assert control._step_limit == task.episode_length
    with make_env(task.id, action_repeat=1) as env:
        play(env, random_actions(env))  # an episode before it must leave no trace
        actions = random_actions(env)
        observations, rewards = play(env, actions, seed=5)
        spec = control.action_spec()
        timesteps = [control.reset()]
        for action in actions.astype(np.float64):
            center, reach = (spec.maximum + spec.minimum) / 2, (spec.maximum - spec.minimum) / 2
            timesteps.append(control.step(center + reach * action))
    expected = [np.concatenate([np.ravel(part) for part in step.observation.values()]) for step in timesteps]
    np.testing.assert_array_equal(observations, np.array(expected, np.float32))
    np.testing.assert_array_equal(rewards, [step.reward for step in timesteps[1:]])


@pytest.mark.parametrize("name", ["dmc/pendulum-swingup", "mujoco/HalfCheetah-v4"])
def test_time_is_counted_in_simulator_steps(name):
    with make_env(name, action_repeat=4) as env:
        env.reset()
        steps = [env.step(env.action_space.sample())[2:4] for _ in range(250)]
    assert steps == [(False, False)] * 249 + [(False, True)]


def test_the_tasks_own_action_repeat_is_used():
    with make_env("dmc/pendulum-swingup") as twice, make_env("dmc/pendulum-swingup", action_repeat=1) as once:
        action = np.array([0.5], np.float32)
        twice.reset(seed=1)
        once.reset(seed=1)
        once.step(action)
        np.testing.assert_array_equal(twice.step(action)[0], once.step(action)[0])


def test_making_a_deprecated_version_is_silent(recwarn):
    make_env("mujoco/Hopper-v4").close()
    make_env("Hopper-v4").close()
    assert not recwarn.list
