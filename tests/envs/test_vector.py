import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from simbav2.envs.make import make_env
from simbav2.envs.vector import make_vector_env
from simbav2.errors import InputError


class Line(gym.Env):
    """Observes [seed, step]; every episode takes `length` steps and ends in failure or, if odd, by time."""

    action_space = Box(-2, 2, (1,), np.float32)
    observation_space = Box(0, np.inf, (2,), np.float64)

    def __init__(self, length=3, tells=True):
        self.length, self.tells = length, tells

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start, self.time = self.np_random.integers(1000), 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        over, odd = self.time == self.length, self.length % 2 == 1
        info = {"success": over} if self.tells else {}
        return self.observe(), float(action[0]), over and not odd, over and odd, info

    def observe(self):
        return np.array([self.start, self.time], np.float64)


class Named(Line):
    observation_space = Dict({"where": Box(0, np.inf, (2,), np.float64)})

    def observe(self):
        return {"where": super().observe()}


class ResetsLate(gym.vector.VectorWrapper):
    """A vector environment of somebody else, of which nothing is known but its autoreset mode."""

    autoreset_mode = AutoresetMode.NEXT_STEP

    def __init__(self, members):
        super().__init__(SyncVectorEnv(members))

    @property
    def unwrapped(self):
        return self


def sync(*members, mode=AutoresetMode.SAME_STEP):
    return SyncVectorEnv(members, autoreset_mode=mode)


@pytest.mark.parametrize(
    "source",
    [Line, lambda: sync(Line, Line), lambda: sync(Named, Named)],
    ids=["ours", "vector environment", "vector environment with Dict observations"],
)
def test_the_final_observation_and_the_next_first_one_are_both_there(source):
    envs = make_vector_env(Line, num_envs=2) if source is Line else make_vector_env(source())
    observation = envs.reset()
    assert (envs.num_envs, envs.observation_size, envs.action_size) == (2, 2, 1)
    np.testing.assert_array_equal(observation[:, 1], [0, 0])
    start = observation[:, 0]
    actions = np.array([[0.5], [-1.0]], np.float32)
    for time in (1, 2):
        step = envs.step(actions)
        np.testing.assert_array_equal(step.next_observation, np.stack([start, [time, time]], axis=1))
        np.testing.assert_array_equal(step.observation, step.next_observation)
        np.testing.assert_array_equal(step.reward, [1.0, -2.0])
        assert not (step.terminated | step.truncated | (step.success > 0)).any()
    assert envs.episodes == [0, 0]

    last = envs.step(actions)
    np.testing.assert_array_equal(last.next_observation, np.stack([start, [3, 3]], axis=1))
    np.testing.assert_array_equal(last.observation[:, 1], [0, 0])
    assert not last.terminated.any()
    assert last.truncated.all()
    np.testing.assert_array_equal(last.success, [1.0, 1.0])
    assert envs.episodes == [1, 1]
    assert last.observation.dtype == last.next_observation.dtype == np.float32
    assert last.reward.dtype == last.success.dtype == np.float64

    kept = last.observation.copy()
    envs.step(actions)
    np.testing.assert_array_equal(last.observation, kept)


def test_members_of_different_length_end_on_their_own():
    envs = make_vector_env(sync(lambda: Line(2), lambda: Line(3)))
    envs.reset()
    steps = [envs.step(np.zeros((2, 1))) for _ in range(3)]
    assert [step.terminated.tolist() for step in steps] == [[False, False], [True, False], [False, False]]
    assert [step.truncated.tolist() for step in steps] == [[False, False], [False, False], [False, True]]
    assert [step.next_observation[:, 1].tolist() for step in steps] == [[1, 1], [2, 2], [1, 3]]
    assert [step.observation[:, 1].tolist() for step in steps] == [[1, 1], [0, 2], [1, 0]]
    assert [step.success.tolist() for step in steps] == [[0, 0], [1, 0], [0, 1]]
    assert envs.episodes == [1, 1]


@pytest.mark.parametrize("source", [lambda: Line(tells=False), sync(lambda: Line(tells=False))])
def test_success_is_unknown_where_nobody_tells(source):
    envs = make_vector_env(source)
    envs.reset()
    assert all(np.isnan(envs.step(np.zeros((1, 1))).success).all() for _ in range(4))


def test_members_differ_and_the_first_is_the_single_environment():
    name = "dmc/cartpole-balance"
    two, one, single = make_vector_env(name, 5, num_envs=2), make_vector_env(name, 5), make_env(name, 5)
    for _ in range(2):
        both, alone = two.reset(), one.reset()
        np.testing.assert_array_equal(both[0], alone[0])
        np.testing.assert_array_equal(both[0], single.reset()[0])
        assert not np.array_equal(both[0], both[1])
        action = np.array([0.3], np.float32)
        np.testing.assert_array_equal(two.step(np.stack([action, action])).observation[0], single.step(action)[0])


@pytest.mark.parametrize("source", [Line, sync(Line)])
def test_the_seed_decides_and_episodes_can_be_chosen(source):
    def starts(seed):
        return make_vector_env(source, seed).reset()

    np.testing.assert_array_equal(starts(1), starts(1))
    assert not np.array_equal(starts(1), starts(2))
    envs = make_vector_env(Line, num_envs=2)
    firsts = [envs.reset() for _ in range(3)]
    envs.episodes = [2, 0]
    assert envs.episodes == [2, 0]
    np.testing.assert_array_equal(envs.reset(), [firsts[2][0], firsts[0][1]])


def test_an_episode_under_way_is_restored():
    envs = make_vector_env("dmc/cartpole-balance", seed=2, num_envs=2, action_repeat=250)
    envs.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 2, 1)).astype(np.float32)
    for action in actions:
        step = envs.step(action)
    assert envs.episodes == [1, 1]

    again = make_vector_env("dmc/cartpole-balance", seed=2, num_envs=2, action_repeat=250)
    np.testing.assert_array_equal(again.restore(envs.episodes, [actions[4:, 0], actions[4:, 1]]), step.observation)
    assert again.episodes == [1, 1]
    np.testing.assert_array_equal(again.step(actions[0]).reward, envs.step(actions[0]).reward)


def test_facts_come_with_the_environments():
    assert make_vector_env("dmc/walker-walk", action_repeat=4).task.action_repeat == 4
    foreign = gym.make_vec(
        "Pendulum-v1", num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"}
    )
    task = make_vector_env(foreign).task
    assert (task.id, task.episode_length, task.observation_size) == ("Pendulum-v1", 200, 3)
    assert task.early_termination


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        (Line(), {"num_envs": 2}, "num_envs is 2, but one environment came; give a callable"),
        (Line, {"num_envs": 0}, "num_envs is 0; expected at least 1"),
        (ResetsLate([Line]), {}, "mode .*NEXT_STEP; make it with .*SAME_STEP"),
        (sync(Line), {"num_envs": 3}, "num_envs is 3, but SyncVectorEnv"),
        (sync(Line), {"action_repeat": 2}, "action_repeat is 2, but SyncVectorEnv"),
        (sync(lambda: gym.make("CartPole-v1")), {}, r"actions of .* are Discrete\(2\)"),
    ],
)
def test_what_cannot_be_used_is_refused(source, settings, message):
    with pytest.raises(InputError, match=message):
        make_vector_env(source, **settings)
