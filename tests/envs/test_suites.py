"""Every task against its simulator."""

import functools
import hashlib
import inspect
import json
import os
import subprocess
import sys
import warnings

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from simbav2.envs.make import make_env
from simbav2.envs.tasks import families, find, tasks

DMC, MYOSUITE = tasks("dmc"), tasks("myosuite")
# `make test` looks at these: of every suite one, of MyoSuite one of each kind.
EVERY_TIME = (
    *("mujoco/Hopper-v4", "dmc/cartpole-swingup", "dmc/dog-run", "hbench/h1-walk"),
    *("myosuite/myo-pose", "myosuite/myo-pose-hard"),
)
FIXED = [task for task in MYOSUITE if not task.id.endswith("-hard")]  # every episode starts alike


def by_id(rows, every_time=EVERY_TIME):
    """A test for each task; those not in `every_time` are left to `make test-all`."""
    marks = {task: () if task.id in every_time else pytest.mark.full for task in rows}
    return pytest.mark.parametrize("task", [pytest.param(t, id=t.id, marks=marks[t]) for t in rows])


def only(*names):
    return by_id([find(name) for name in names], every_time=names)


@functools.cache
def load(name):
    """An environment that the tests share: loading one takes longer than what they do with it."""
    return make_env(name)


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


@by_id(tasks())
@pytest.mark.usefixtures("simulator")
def test_sizes_are_the_simulators_and_seeds_decide_everything(task):
    env = load(task.id)
    assert env.observation_space.shape == (task.observation_size,)
    assert env.observation_space.dtype == np.float32
    assert env.action_space == gym.spaces.Box(-1, 1, (task.action_size,), np.float32)
    assert isinstance(env.unwrapped.model, mujoco.MjModel)
    assert isinstance(env.unwrapped.data, mujoco.MjData)

    actions = random_actions(env)
    env.episode = 0
    first = play(env, actions)
    assert first[0].dtype == np.float32
    assert first[0].shape == (len(first[1]) + 1, task.observation_size)
    assert same(first, play(env, actions)) == (task in FIXED)
    env.episode = 0
    assert same(first, play(env, actions))
    assert same(play(env, actions, seed=11), play(env, actions, seed=11))
    assert same(play(env, actions, seed=11), play(env, actions, seed=12)) == (task in FIXED)


@by_id(tasks())
@pytest.mark.usefixtures("simulator")
def test_gymnasium_finds_nothing_wrong(task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is wrapped, that bounds are infinite
        check_env(load(task.id), skip_render_check=True)


def digest(env):
    """All that the first two episodes of an environment give, bit by bit."""
    found, random = hashlib.sha256(), np.random.default_rng(0)
    for seed in (3, None):
        observation, _ = env.reset(seed=seed)
        found.update(observation.tobytes())
        for _ in range(10):
            action = random.uniform(-1, 1, env.action_space.shape).astype(np.float32)
            observation, reward, terminated, truncated, _ = env.step(action)
            found.update(observation.tobytes() + np.array([reward, terminated, truncated]).tobytes())
            if terminated or truncated:
                break
    return found.hexdigest()


ELSEWHERE = f"""
import hashlib, json, sys
import numpy as np
from simbav2 import make_env
{inspect.getsource(digest)}
print(json.dumps({{name: digest(make_env(name)) for name in sys.argv[1:]}}))
# Gymnasium's own tasks import their viewer; ours import one only to draw.
ours = not any(name.startswith("mujoco/") for name in sys.argv)
assert not (ours and "gymnasium.envs.mujoco.mujoco_rendering" in sys.modules), "nobody asked for frames"
"""


@pytest.mark.parametrize("task", [tasks(name)[0] for name in families()], ids=families())
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)], ids=["some", "all"])
@pytest.mark.usefixtures("simulator")
def test_another_process_makes_the_same_steps(task, whole):
    rows = [row.id for row in tasks(task.family) if whole or row.id in EVERY_TIME]
    run = subprocess.run([sys.executable, "-c", ELSEWHERE, *rows], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == {row: digest(load(row)) for row in rows}


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
    expected = [
        np.concatenate([np.ravel(part) for _, part in sorted(step.observation.items())]) for step in timesteps
    ]
    np.testing.assert_array_equal(observations, np.array(expected, np.float32))
    np.testing.assert_array_equal(rewards, [step.reward for step in timesteps[1:]])


@pytest.mark.parametrize("name", ["dmc/pendulum-swingup", "mujoco/HalfCheetah-v4"])
def test_time_is_counted_in_simulator_steps(name):
    with make_env(name, action_repeat=4) as env:
        env.reset()
        steps = [env.step(env.action_space.sample())[2:4] for _ in range(250)]
    assert steps == [(False, False)] * 249 + [(False, True)]
    with make_env("dmc/pendulum-swingup") as twice, make_env("dmc/pendulum-swingup", action_repeat=1) as once:
        action = np.array([0.5], np.float32)  # by default repeated as often as the task demands
        twice.reset(seed=1)
        once.reset(seed=1)
        once.step(action)
        np.testing.assert_array_equal(twice.step(action)[0], once.step(action)[0])


def test_making_a_deprecated_version_is_silent(recwarn):
    make_env("mujoco/Hopper-v4").close()
    make_env("Hopper-v4").close()
    assert not recwarn.list


# MyoSuite


@by_id(MYOSUITE)
@pytest.mark.usefixtures("simulator")
def test_success_is_solved_and_the_limits_are_those_of_the_suite_and_a_hundred_steps(task):
    env = load(task.id)
    registered = gym.spec(env.unwrapped._hand.spec.id)
    assert registered.id.endswith("Fixed-v0" if task in FIXED else "Random-v0")
    assert task.episode_length == min(registered.max_episode_steps, 100)
    env.reset(seed=0)
    *_, info = env.step(env.action_space.sample())
    assert info["success"] is bool(info["solved"])


@only("myosuite/myo-reach-hard")
@pytest.mark.usefixtures("simulator")
def test_the_seed_reaches_the_generator_that_draws_the_goals(task):
    with make_env(task.id) as env:
        targets = []
        for seed in (0, 1, 0):
            env.reset(seed=seed)
            targets.append([env.unwrapped.model.site(f"{tip}_target").pos.copy() for tip in ("THtip", "LFtip")])
    np.testing.assert_array_equal(targets[0], targets[2])
    assert (np.array(targets[0]) != targets[1]).all()


@only("myosuite/myo-pose")
@pytest.mark.usefixtures("simulator")
def test_a_hand_placed_by_its_data_goes_on_from_there(task):
    with make_env(task.id, action_repeat=1) as env:
        env.reset()
        env.unwrapped.data.qpos[0] += 0.2
        observation, *_ = env.step(np.zeros(39, np.float32))
    assert observation[0] == pytest.approx(0.2, abs=0.03)


@only("myosuite/myo-pose")
@pytest.mark.usefixtures("simulator")
def test_myosuite_is_made_without_a_word_and_leaves_no_trace(task):
    code = (
        "import numpy as np\nfrom simbav2.envs.make import make_env\nbefore = np.get_printoptions()\n"
        f"make_env({task.id!r}).reset()\nassert np.get_printoptions() == before"
    )
    # Nor does it need git, whose package it imports.
    command, environment = [sys.executable, "-W", "error", "-c", code], {**os.environ, "PATH": ""}
    run = subprocess.run(command, env=environment, capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


# Frames


@only("mujoco/Hopper-v4", "dmc/quadruped-run", "myosuite/myo-pose", "hbench/h1-reach")
@pytest.mark.usefixtures("simulator", "gl")
def test_a_frame_changes_where_the_body_moves(task):
    with make_env(task.id, render_mode="rgb_array") as env:
        env.reset(seed=0)
        before = env.render()
        assert (before.shape, before.dtype) == ((480, 480, 3), np.uint8)
        for action in random_actions(env, 5):
            env.step(action)
        after = env.render()
    changed = np.abs(before.astype(int) - after).sum(axis=-1) > 60
    assert changed[120:360, 120:360].mean() > 0.01  # in the middle, where the camera looks
