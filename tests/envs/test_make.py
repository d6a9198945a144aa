import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import TimeLimit

from simbav2.envs import rendering, wrappers
from simbav2.envs.make import Attempt, attempt, describe, make_env
from simbav2.envs.spaces import UnitActions
from simbav2.envs.tasks import find
from simbav2.errors import InputError


class Counter(gym.Env):
    """Observes [seed, step], is rewarded with the step's number, fails after `length` steps."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, length=5, actions=None, observations=None):
        self.length = length
        self.action_space = actions or Box(-1, 1, (2,), np.float32)
        self.observation_space = observations or Box(-np.inf, np.inf, (2,), np.float64)
        self.received = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.time = seed, 0
        return self.observe(), {}

    def step(self, action):
        self.received = action
        self.time += 1
        return self.observe(), float(self.time), self.time == self.length, False, {"success": self.time == 1}

    def observe(self):
        return np.array([self.seed, self.time], np.float64)


class Sensors(Counter):
    """The same, seen through a nested Dict whose keys are not given in order."""

    def __init__(self):
        super().__init__()
        place = Dict({"y": Box(0, 1, (1,)), "x": Box(0, 1, (1,), np.float64)})
        self.observation_space = Dict({"table": Box(0, 255, (2, 2), np.float32), "goal": place})

    def observe(self):
        table = np.array([[1, 2], [3, 4]], np.float32)
        return {"table": table, "goal": {"x": np.array([0.25]), "y": np.array([0.5], np.float32)}}


def test_actions_are_rescaled_to_the_bounds_and_clipped():
    low, high = np.array([[-2.0, 0.0]], np.float32), np.array([[2.0, 10.0]], np.float32)
    inner = Counter(actions=Box(low, high))
    env = make_env(inner)
    assert env.action_space == Box(-1, 1, (2,), np.float32)
    env.reset()
    for action, expected in [
        ([-1, -1], [[-2, 0]]),
        ([1, 1], [[2, 10]]),
        ([0, 0.5], [[0, 7.5]]),
        ([-3, 3], [[-2, 10]]),
    ]:
        env.step(np.array(action, np.float32))
        np.testing.assert_array_equal(inner.received, np.array(expected, np.float32))
        assert inner.received.dtype == np.float32

    env = make_env(inner := Counter())  # of unit bounds: to the last bit
    env.reset()
    env.step(action := np.array([1e-9, -0.1], np.float32))
    np.testing.assert_array_equal(inner.received, action)


def test_action_repeat_adds_rewards_and_stops_at_the_end():
    env = make_env(Counter(length=5), action_repeat=3)
    env.reset()
    _, reward, terminated, _, info = env.step(np.zeros(2))
    assert (reward, terminated) == (1 + 2 + 3, False)
    assert info["success"]  # met at the first of the three steps
    observation, reward, terminated, _, info = env.step(np.zeros(2))
    assert (reward, terminated, observation[1]) == (4 + 5, True, 5)
    assert not info["success"]
    env = make_env(TimeLimit(Counter(length=100), 3), action_repeat=2)  # its own limit counts simulator steps
    env.reset()
    assert env.step(np.zeros(2))[2:4] == (False, False)
    observation, reward, terminated, truncated, _ = env.step(np.zeros(2))
    assert (observation[1], reward, terminated, truncated) == (3, 3, False, True)


def test_every_episode_has_its_own_seed():
    def seeds(env, count=4):
        return [env.reset()[0][0] for _ in range(count)]

    env = make_env(Counter, seed=7)
    assert env.episode == 0
    first = seeds(env)
    assert len(set(first)) == 4
    assert env.episode == 3
    assert seeds(make_env(Counter, seed=7)) == first
    assert set(first).isdisjoint(seeds(make_env(Counter, seed=8)))

    env.episode = 2
    assert env.episode == 2
    assert seeds(env, 2) == first[2:]
    assert env.episode == 3


def test_a_given_seed_is_used_itself_and_begins_a_new_run():
    env = make_env(Counter, seed=7)
    env.reset()
    env.reset()
    assert env.reset(seed=42)[0][0] == 42
    assert env.episode == 0
    following, _ = env.reset()
    assert env.episode == 1
    other = make_env(Counter, seed=42)
    other.episode = 1
    np.testing.assert_array_equal(other.reset()[0], following)


def test_dict_observations_are_flattened_in_gymnasiums_order():
    env = make_env(Sensors)
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation, np.array([0.25, 0.5, 1, 2, 3, 4], np.float32))
    assert observation.dtype == np.float32
    raw = Sensors()
    expected = gym.spaces.flatten(raw.observation_space, raw.reset()[0])
    np.testing.assert_array_equal(observation, expected)
    np.testing.assert_array_equal(env.observation_space.high, [1, 1, 255, 255, 255, 255])
    assert observation in env.observation_space


def test_observations_become_float32_and_small_tables_are_no_images(recwarn):
    for space in (Box(-1, 1, (2, 3)), Box(0, 255, (7,), np.uint8), Box(0, 3, (4, 4), np.uint8)):
        assert make_env(Counter(observations=space)).observation_space.shape == (space.sample().size,)
    env = make_env(Counter(observations=Box(-1e300, 0.1, (2,), np.float64)))
    np.testing.assert_array_equal(env.observation_space.low, [-np.inf, -np.inf])  # float32 has no such bound
    np.testing.assert_array_equal(env.observation_space.high, np.array([0.1, 0.1], np.float32))
    assert not recwarn.list


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_actions_on_asymmetric_bounds_are_on_the_cube(kind):
    rng = np.random.default_rng(0)
    low = rng.uniform(-3, 3, 1_000).astype(kind)
    high = (low + rng.uniform(0.01, 3, 1_000)).astype(kind)
    units = UnitActions(Box(low, high, dtype=kind), "toy")
    for sign, bound in ((-1, low), (1, high)):
        on_bound = np.full((1, 1_000), sign, np.float32)
        np.testing.assert_array_equal(units.from_environment(bound[None]), on_bound)
        # Stored as float32, a bound may lie on either side of itself.
        stored = units.from_environment(bound.astype(np.float32)[None])
        np.testing.assert_allclose(stored, on_bound, atol=1e-4)
        assert np.abs(stored).max() == 1
    # What is truly outside stays outside, to be refused.
    assert (units.from_environment((high + 1e-4 * (high - low) + 1e-5)[None]) > 1).all()


def test_an_observation_is_not_a_view_of_the_environments_own():
    class Reuses(Counter):
        buffer = np.zeros(2, np.float32)

        def observe(self):
            self.buffer[1] = self.time
            return self.buffer

    env = make_env(Reuses)
    first, _ = env.reset()
    env.step(np.zeros(2))
    assert first[1] == 0


def test_the_facts_of_an_environment():
    task = describe(make_env("Pendulum-v1"), "Pendulum-v1")
    assert (task.id, task.suite, task.observation_size, task.action_size) == ("Pendulum-v1", "custom", 3, 1)
    assert (task.action_repeat, task.episode_length, task.early_termination) == (1, 200, True)
    assert task.normalized(1.0) is None
    task = describe(make_env(Counter), Counter)
    assert (task.id, task.episode_length) == ("Counter", 1000)
    limited = TimeLimit(Counter(), 30)
    task = describe(make_env(limited, action_repeat=3), limited)
    assert (task.episode_length, task.action_repeat) == (30, 3)
    # A task of the benchmark keeps all but the action repeat.
    task = describe(make_env("dmc/pendulum-swingup", action_repeat=4), "dmc/pendulum-swingup")
    assert (task.suite, task.action_repeat, task.episode_length) == ("dmc-easy", 4, 1000)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("CartPole-v1", r"actions of .*CartPole.* are Discrete\(2\); expected a Box"),
        (Counter(actions=Box(-np.inf, 1, (2,))), "actions of .*Counter.* are Box.*finite bounds"),
        (Counter(actions=Box(0, 3, (2,), np.int64)), "actions of .*Counter.* are Box.*Box of floats"),
        (Counter(observations=Discrete(3)), r"observations of .*Counter.* are Discrete\(3\); expected a Box"),
        (Counter(observations=Dict({"a": Discrete(3)})), "observations of .*Counter.* are Dict.*Dict of Boxes"),
        (Counter(observations=Box(0, 1, (64, 64, 3))), r"an image, .*\(64, 64, 3\).*no convolutional encoder"),
        (Counter(observations=Box(0, 255, (84, 84), np.uint8)), "hold an image, .*FlattenObservation"),
        (Counter(observations=Dict({"camera": Box(0, 255, (8, 8), np.uint8)})), "hold an image"),
        ("dmc/walker-wlak", "unknown task 'dmc/walker-wlak'.*did you mean 'dmc/walker-walk'"),
        ("hbench/no-such-thing", "unknown task 'hbench/no-such-thing'"),
        ("walker-walk", "neither a task nor a Gymnasium id; did you mean 'dmc/walker-walk'"),
        ("Pendulm-v1", "neither a task nor a Gymnasium id; did you mean 'Pendulum-v1'"),
        ("ALE/Pong-v5", "'ALE/Pong-v5' is neither a task nor a Gymnasium id"),
        ("no_such_module:Thing-v0", "'no_such_module:Thing-v0' is neither a task nor a Gymnasium id"),
        (lambda: 3, "expected a task id, .* which made 3"),
        (17, "expected a task id, .* got 17"),
        ({"seed": -1}, "seed"),
        ({"action_repeat": 0}, "action_repeat"),
        ({"render_mode": "rgb_array"}, "render_mode"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(source, message, monkeypatch):
    monkeypatch.setattr("simbav2.envs.make.choose_library", lambda: "egl")
    settings, source = (source, Counter) if isinstance(source, dict) else ({}, source)
    with pytest.raises(InputError, match=message) as error:
        make_env(source, **settings)
    assert "\n" not in str(error.value)


def test_a_missing_package_comes_with_its_install_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "simbav2.envs.dmc", raising=False)
    monkeypatch.setitem(sys.modules, "dm_control", None)
    with pytest.raises(InputError, match=r"dmc/walker-walk cannot be built .*dm_control.*; pip install 'simbav2'"):
        make_env("dmc/walker-walk")


def test_without_a_gl_library_a_frame_is_refused_and_training_is_not(monkeypatch):
    rendering.choose_library.cache_clear()
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "draws", lambda library: False)
    with pytest.raises(InputError, match=r"no frame can be drawn .*; install libegl1"):
        make_env("dmc/pendulum-swingup", render_mode="rgb_array")
    make_env("dmc/pendulum-swingup").reset()
    make_env("Pendulum-v1", render_mode="rgb_array")  # needs none
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(rendering, "draws", lambda library: library == "osmesa")
    assert rendering.choose_library() == "osmesa"  # the first that draws
    rendering.choose_library.cache_clear()


# Whether tasks work here. ---------------------------------------------------------------------------------


def test_a_task_that_works_is_stepped_as_often_as_asked(monkeypatch):
    steps = []
    step = wrappers.EpisodeSeeds.step
    monkeypatch.setattr(wrappers.EpisodeSeeds, "step", lambda env, action: steps.append(1) or step(env, action))
    hopper = find("mujoco/Hopper-v4")  # falls within the fifty steps
    assert attempt(hopper) == Attempt("mujoco/Hopper-v4", "mujoco", True)
    assert len(steps) == 50


@pytest.mark.parametrize(
    ("error", "problem", "remedy"),
    [
        (InputError("mujoco/Ant-v4 cannot be built (a; b); pip c"), "cannot be built (a; b)", "pip c"),
        (OSError("broken"), "OSError('broken')", "pip install --force-reinstall simbav2"),
    ],
)
def test_a_problem_comes_with_its_remedy(monkeypatch, error, problem, remedy):
    def fail(name):
        raise error

    monkeypatch.setattr("simbav2.envs.make.make_env", fail)
    assert attempt(find("mujoco/Ant-v4")) == Attempt("mujoco/Ant-v4", "mujoco", False, problem, remedy)
