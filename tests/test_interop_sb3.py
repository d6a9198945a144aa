"""Stable-Baselines3's `evaluate_policy` and `VecEnv` take our agents as they are.

The package is not among our dependencies: `make test-interop` runs this file where it is installed.
"""

import importlib.util

import numpy as np
import pytest
from toys import TINY

from simbav2 import SimbaV2, make_env
from simbav2.training.evaluate import evaluate, mean_total

TASK = "mujoco/Hopper-v4"
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None, reason="Stable-Baselines3 is not installed"
)


@pytest.fixture(scope="module")
def agent():
    return SimbaV2(TASK, seed=4, **TINY)


@pytest.fixture(scope="module")
def expected(agent) -> float:
    """Our own evaluation: the episodes 0 to 4 of the evaluation seed."""
    with agent.trainer.make_evaluation_envs() as envs:
        total = mean_total(evaluate(agent, envs, 5))
    assert total is not None
    return total


def test_predict_keeps_the_protocol(agent, expected):
    """What `evaluate_policy` does with a model and a vector of one environment, written out."""
    env = make_env(TASK, seed=agent.evaluation_seed)
    totals, total, states, starts = [], 0.0, None, np.ones(1, bool)
    observation = env.reset()[0][None]
    while len(totals) < 5:
        actions, states = agent.predict(observation, state=states, episode_start=starts, deterministic=True)
        assert actions.shape == (1, 3)
        following, reward, terminated, truncated, _ = env.step(actions[0])
        starts = np.array([terminated or truncated])
        total += float(reward)
        if starts[0]:
            totals.append(total)
            total, following = 0.0, env.reset()[0]
        observation = following[None]
    assert np.mean(totals) == pytest.approx(expected)
    memory = object()
    assert agent.predict(observation, state=memory)[1] is memory


@needs_package
def test_evaluate_policy_gives_our_own_mean_and_takes_several(agent, expected):
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    # It wraps a single environment itself.
    alone = make_env(TASK, seed=agent.evaluation_seed)
    for env in (DummyVecEnv([lambda: make_env(TASK, seed=agent.evaluation_seed)]), alone):
        assert evaluate_policy(agent, env, n_eval_episodes=5, warn=False)[0] == pytest.approx(expected)
    several = VecMonitor(DummyVecEnv([lambda seed=seed: make_env(TASK, seed=seed) for seed in range(3)]))
    returns, lengths = evaluate_policy(agent, several, n_eval_episodes=6, return_episode_rewards=True)
    assert len(returns) == len(lengths) == 6
    assert agent.predict(several.reset())[0].shape == (3, 3)
