"""The agent as a user holds it: it acts in the spaces of its environment, is saved, loaded, and repeatable."""

import logging

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from short_runs import edit
from toys import TINY, Chain

from simbav2 import Agent, CheckpointError, InputError, SimbaV2, make_env
from simbav2.checkpoint.checkpoint import params_sha256
from simbav2.envs.wrappers import episode_seed


@pytest.fixture(scope="module")
def agent() -> SimbaV2:
    return SimbaV2("dmc/cartpole-swingup", seed=3, **TINY).learn(500)


def observations(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)


def test_deterministic_or_not(agent):
    batch = observations(50)
    np.testing.assert_array_equal(agent.predict(batch)[0], agent.predict(batch)[0])
    assert not np.array_equal(agent.predict(batch, deterministic=False)[0], agent.predict(batch)[0])
    once, again = (agent.predict(batch, deterministic=False)[0] for _ in range(2))
    assert isinstance(agent, Agent)
    assert not np.array_equal(once, again)  # or a policy evaluated so would lean to one side


def test_saved_and_loaded_acts_the_same_bit_for_bit(agent, tmp_path):
    agent.save(tmp_path / "saved")
    again = SimbaV2.load(tmp_path / "saved")
    batch = observations(20)
    np.testing.assert_array_equal(again.predict(batch)[0], agent.predict(batch)[0])
    np.testing.assert_array_equal(again.act(batch, noise=1.0), agent.act(batch, noise=1.0))
    np.testing.assert_array_equal(
        again.q_values(batch, np.zeros((20, 1))), agent.q_values(batch, np.zeros((20, 1)))
    )
    assert params_sha256(again) == params_sha256(agent)
    assert again.config == agent.config
    with pytest.raises(InputError, match="not empty"):
        agent.save(tmp_path / "saved")


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    digests = [params_sha256(SimbaV2("dmc/cartpole-swingup", seed=seed, **TINY).learn(600)) for seed in (5, 5, 6)]
    assert digests[0] == digests[1] != digests[2]


def test_nothing_is_compiled_but_act_and_learn():
    # Of a size of its own: equal ones share their programs.
    agent = SimbaV2(lambda: Chain(3), **{**TINY, "replay.batch_size": 48}, num_envs=2)
    compiled = []
    listener = lambda name, duration, **_: compiled.append(name)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        agent.learn(600)
        agent.predict(np.zeros(2))
        agent.predict(np.zeros((2, 2)), deterministic=False)
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert sum("backend_compile" in name for name in compiled) == 2
    assert (agent.learner.act._cache_size(), agent.learner.learn._cache_size()) == (1, 1)


def test_agents_that_differ_only_in_seed_and_steps_share_their_programs():
    one, other = (SimbaV2(lambda: Chain(3), seed=seed, **TINY).learn(250 + seed) for seed in range(2))
    assert one.learner.learn is other.learner.learn
    assert one.learner.learn._cache_size() == 1
    other.learner.learn = None
    one.learn(1)


def test_an_observation_enters_the_statistics_before_it_is_acted_on(monkeypatch):
    agent = SimbaV2(lambda: Chain(3), **TINY)
    acted_on, explore = [], agent.trainer.explore
    monkeypatch.setattr(
        agent.trainer,
        "explore",
        lambda o: (acted_on.append((o[0], agent.statistics.observation.mean)), explore(o))[1],
    )
    agent.learn(1)
    observation, mean = acted_on[0]
    np.testing.assert_allclose(mean, observation, rtol=2e-4)  # the start's mean of zero weighs 1e-4 of a sample


def test_many_environments_and_fractional_updates():
    agent = SimbaV2(lambda: Chain(3), **TINY, num_envs=4, updates_per_decision=0.5).learn(400)
    assert agent.decisions == 400
    assert int(agent.state.updates) == (400 - 200) // 2 + 2  # the decision that ends the warm-up counts
    assert len(agent.trainer.replay) == 400


class Lever(gym.Env):
    """A Dict to see, in an order that is not the alphabet's, and a matrix of float64 to do, with uneven bounds."""

    observation_space = Dict(
        [
            ("speed", Box(-1, 1, (2, 2), np.float64)),
            ("place", Dict({"x": Box(-9, 9, (), np.float32), "y": Box(-9, 9, (1,), np.float32)})),
        ]
    )
    action_space = Box(np.array([[0.0, -4.0], [5.0, 3.0]]), np.array([[1.0, 4.0], [9.0, 3.0]]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, False, {}


def flat(observation) -> np.ndarray:
    """In the space's own order."""
    parts = observation["speed"], observation["place"]["x"], observation["place"]["y"]
    return np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)


def stacked(observations):
    first = observations[0]
    if isinstance(first, dict):
        return {key: stacked([each[key] for each in observations]) for key in first}
    return np.stack(observations)


def sync(*members):
    return gym.vector.SyncVectorEnv(members, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)


@pytest.fixture(scope="module")
def lever() -> Agent:
    return Agent(Lever, **TINY)


@pytest.fixture(scope="module")
def seen() -> list:
    env = Lever()
    return [env.reset(seed=seed)[0] for seed in range(5)]


@pytest.mark.parametrize(
    "source",
    [
        "Pendulum-v1",
        lambda: gym.make("Pendulum-v1"),
        lambda: sync(*[lambda: gym.make("Pendulum-v1")] * 2),
        gym.make("Pendulum-v1"),
    ],
    ids=["id", "callable", "callable making a vector", "environment"],
)
def test_actions_have_the_units_of_the_environment_given(source):
    agent = Agent(source, **TINY)
    batch = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    actions, _ = agent.predict(batch)
    assert actions.shape == (50, 1)
    assert actions.dtype == np.float32
    np.testing.assert_allclose(actions, 2 * agent.act(batch, noise=0.0), rtol=1e-6)
    assert agent.predict(batch[0])[0].shape == (1,)
    np.testing.assert_allclose(
        agent.q_values(batch, actions), agent.values(batch, actions / np.float32(2)), rtol=1e-5, atol=1e-6
    )


def test_a_task_of_ours_has_the_units_of_make_env():
    agent = Agent("mujoco/Humanoid-v4", **TINY)  # the simulator's bounds are +-0.4
    observation, _ = make_env("mujoco/Humanoid-v4").reset(seed=0)
    action, _ = agent.predict(observation)
    assert action.shape == (17,)
    np.testing.assert_array_equal(action, agent.act(observation[None], noise=0.0)[0])


def test_dict_observations_and_shaped_actions_one_or_a_batch(lever, seen):
    together, _ = lever.predict(stacked(seen))
    assert together.shape == (5, 2, 2)
    assert together.dtype == np.float64
    for observation, action in zip(seen, together, strict=True):
        alone, _ = lever.predict(observation)
        np.testing.assert_allclose(alone, action, rtol=1e-5)
        unit = lever.act(flat(observation)[None], noise=0.0)[0].reshape(2, 2)
        center, reach = np.array([[0.5, 0.0], [7.0, 3.0]]), np.array([[0.5, 4.0], [2.0, 0.0]])
        np.testing.assert_allclose(alone, center + reach * unit, rtol=1e-5, atol=1e-6)
        assert Lever.action_space.contains(alone)
    q = lever.q_values(stacked(seen), together)
    assert q.shape == (2, 5)
    units = lever.act(np.stack([flat(observation) for observation in seen]), noise=0.0).copy()
    units[:, 3] = 0  # an entry without a choice
    np.testing.assert_allclose(q, lever.values(np.stack(list(map(flat, seen))), units), rtol=1e-4, atol=1e-5)
    assert lever.q_values(seen[0], together[0]).shape == (2, 1)


def without(observation, key):
    return {name: part for name, part in observation.items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: np.zeros(6), "observation is of type ndarray; expected a dict with the keys 'speed', 'place'"),
        (lambda o: without(o, "place"), "observation has the keys 'speed'; expected 'speed', 'place'"),
        (lambda o: {**o, "more": 1}, "observation has the keys 'speed', 'place', 'more'; expected"),
        (lambda o: {**o, "place": 3.0}, r"observation\['place'\] is of type float; expected a dict"),
        (
            lambda o: {**o, "speed": np.zeros(4)},
            r"observation\['speed'\] has shape \(4,\); expected \(2, 2\) or \(batch, 2, 2\)",
        ),
        (
            lambda o: {**o, "place": {"x": np.zeros(3), "y": np.zeros((3, 1))}},
            r"observation\['place'\]\['x'\] has shape \(3,\); expected \(\)",
        ),
        (lambda o: {**o, "speed": "fast"}, r"observation\['speed'\] is str; expected numbers of shape \(2, 2\)"),
    ],
)
def test_what_is_no_observation_or_action_is_one_clear_line(lever, seen, change, message):
    with pytest.raises(InputError, match=message) as caught:
        lever.predict(change(seen[0]))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"action has shape \(4,\); expected \(2, 2\) or \(batch, 2, 2\)"):
        lever.q_values(seen[0], np.zeros(4))
    with pytest.raises(InputError, match="5 observations and 1 actions"):
        lever.q_values(stacked(seen), np.zeros((2, 2)))


# Saved and loaded. -------------------------------------------------------------------------------------------


def test_a_loaded_agent_predicts_the_same_without_its_environment(lever, seen, tmp_path):
    lever.save(tmp_path / "saved")
    again = Agent.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict(stacked(seen))[0], lever.predict(stacked(seen))[0])
    assert again.predict(seen[0])[0].dtype == np.float64
    again.save(tmp_path / "again")
    assert Agent.load(tmp_path / "again").spaces.to_json() == lever.spaces.to_json()


def test_an_environment_given_at_loading_has_its_own_units(tmp_path):
    agent = Agent("Pendulum-v1", **TINY)
    agent.save(tmp_path / "saved")
    low, high = np.zeros(1, np.float32), np.full(1, 10, np.float32)
    other = Agent.load(
        tmp_path / "saved", env=lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), low, high)
    )
    observation = np.ones(3, np.float32)
    unit = agent.act(observation[None], noise=0.0)[0]
    np.testing.assert_allclose(other.predict(observation)[0], 5 + 5 * unit, rtol=1e-5)


def test_agents_saved_by_older_versions(tmp_path, caplog):
    """Without saved spaces: the task's, else those of the environment made from its id, else the cube."""

    def old(source, name) -> Agent:
        Agent(source, **TINY).save(tmp_path / name)
        edit(tmp_path / name, "state.json", lambda state: state.pop("spaces"))
        return Agent.load(tmp_path / name)

    batch = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    with caplog.at_level(logging.WARNING):
        task = old("dmc/cartpole-balance", "task")
        np.testing.assert_array_equal(task.predict(batch)[0], task.act(batch, noise=0.0))
        registered = old("Pendulum-v1", "registered")
        three = batch[:, :3]
        np.testing.assert_allclose(registered.predict(three)[0], 2 * registered.act(three, noise=0.0), rtol=1e-6)
    assert not caplog.messages
    with caplog.at_level(logging.WARNING):
        unknown = old(Lever, "unknown")
        for _ in range(2):
            assert unknown.predict(np.zeros(6))[0].shape == (4,)
    (message,) = caplog.messages
    assert "the action bounds of Lever are unknown" in message
    assert "in [-1, 1]" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda spaces: spaces.pop("action"),
        lambda spaces: spaces.update(observation=[7]),
        lambda spaces: spaces.update(observation=[1 << 40]),
        lambda spaces: spaces.update(observation={"a": [2], "b": "many"}),
        lambda spaces: spaces.update(observation={"a": [-2, -3]}),
        lambda spaces: spaces["action"].update(low=[1.0, 2.0]),
        lambda spaces: spaces["action"].update(low=spaces["action"]["high"], high=spaces["action"]["low"]),
        lambda spaces: spaces["action"].update(dtype="object"),
        lambda spaces: spaces["action"].update(dtype="int8"),
    ],
)
def test_forged_spaces_are_refused(lever, tmp_path, change):
    lever.save(tmp_path / "saved")
    edit(tmp_path / "saved", "state.json", lambda state: change(state["spaces"]))
    with pytest.raises(CheckpointError, match=r"state\.json"):
        Agent.load(tmp_path / "saved")


# As a user steps a plain environment. ------------------------------------------------------------------------


def played(agent: Agent, episodes: int) -> float:
    """The mean return of what `predict` returns, in the episodes of `agent.evaluate`."""
    totals = []
    with gym.make("Pendulum-v1") as env:
        for number in range(episodes):
            observation, _ = env.reset(seed=episode_seed(agent.evaluation_seed, 0, number))
            total, over = 0.0, False
            while not over:
                action, _ = agent.predict(observation)
                observation, reward, terminated, truncated, _ = env.step(action)
                total, over = total + float(reward), terminated or truncated
            totals.append(total)
    return float(np.mean(totals))


def test_a_plain_environment_with_predict_scores_as_evaluate_says():
    agent = Agent(gym.make("Pendulum-v1"), seed=1, **TINY)
    assert played(agent, 2) == pytest.approx(agent.evaluate(2).mean_return, rel=1e-5)


@pytest.mark.full
def test_so_it_does_after_training(tmp_path):
    """46 seconds of one core. With actions in [-1, 1] it would be -486 instead of -137."""
    small = {"actor.width": 32, "critic.width": 32, "critic.depth": 1, "replay.batch_size": 64}
    agent = Agent(gym.make("Pendulum-v1"), preset="quick", updates_per_decision=1, **small).learn(10_000)
    own = agent.evaluate(10).mean_return
    assert played(agent, 10) == pytest.approx(own, rel=0.1)
    agent.save(tmp_path / "saved")
    assert played(Agent.load(tmp_path / "saved"), 10) == pytest.approx(own, rel=0.1)
