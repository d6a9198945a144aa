"""The agent as a user holds it."""

import gymnasium as gym
import jax
import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import InputError, SimbaV2
from simbav2.checkpoint.checkpoint import params_sha256


@pytest.fixture(scope="module")
def agent() -> SimbaV2:
    return SimbaV2("dmc/cartpole-swingup", seed=3, **TINY).learn(500)


def observations(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)


def test_predict_agrees_for_one_observation_and_for_a_batch(agent):
    batch = observations(7)
    together, state = agent.predict(batch)
    assert together.shape == (7, 1)
    assert state is None
    for observation, action in zip(batch, together, strict=True):
        alone, _ = agent.predict(observation)
        assert alone.shape == (1,)
        np.testing.assert_allclose(alone, action, rtol=1e-5, atol=1e-6)
    assert (np.abs(together) <= 1).all()


def test_deterministic_or_not(agent):
    batch = observations(50)
    np.testing.assert_array_equal(agent.predict(batch)[0], agent.predict(batch)[0])
    assert not np.array_equal(agent.predict(batch, deterministic=False)[0], agent.predict(batch)[0])
    once, again = (agent.predict(batch, deterministic=False)[0] for _ in range(2))
    assert not np.array_equal(once, again)  # or a policy evaluated so would lean to one side


def test_q_values_have_a_row_for_every_critic(agent):
    assert agent.q_values(observations(4), np.zeros((4, 1))).shape == (1, 4)
    hopper = SimbaV2("mujoco/Hopper-v4", **TINY)
    assert hopper.q_values(np.zeros((4, 11)), np.zeros((4, 3))).shape == (2, 4)


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


def test_a_folder_without_an_agent_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no saved agent"):
        SimbaV2.load(tmp_path)


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


def test_a_vector_environment_of_ones_own():
    vector = gym.vector.SyncVectorEnv(
        [lambda: Chain(3), lambda: Chain(4)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    agent = SimbaV2(vector, **TINY).learn(300)
    assert agent.config.num_envs == 2
    assert agent.decisions == 300
    with pytest.raises(InputError, match="callable"):
        agent.trainer.make_evaluation_envs()


def test_n_step_returns_learn_too():
    agent = SimbaV2(lambda: Chain(2), **TINY, **{"replay.n_step": 3}).learn(300)
    assert np.isfinite(agent.q_values(np.zeros(2), np.zeros(1))).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda agent: agent.predict(np.zeros(4)), r"expected \(5,\) or \(batch, 5\)"),
        (lambda agent: agent.q_values(np.zeros(5), np.zeros(2)), "action has shape"),
        (lambda agent: agent.learn(0), "at least 1"),
    ],
)
def test_bad_calls(agent, call, message):
    with pytest.raises(InputError, match=message):
        call(agent)


def test_bad_environments():
    class Discrete(Chain):
        action_space = gym.spaces.Discrete(3)

    with pytest.raises(InputError, match="Discrete"):
        SimbaV2(Discrete)
    with pytest.raises(InputError, match="did you mean 'dmc/walker-walk'"):
        SimbaV2("dmc/walker-wlak")
