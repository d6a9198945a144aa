"""Running moments and the reward scale."""

import numpy as np
import pytest

from simbav2.config import RewardScaling, RunningNorm
from simbav2.normalization import Moments, ReturnStatistics, RunningStatistics

pytestmark = pytest.mark.numerics


def test_one_by_one_or_all_at_once():
    data = np.random.default_rng(0).normal(5.0, 2.0, (300, 4)).astype(np.float32)
    one_by_one = Moments.start(4)
    for row in data:
        one_by_one = one_by_one.observe(row[None])
    at_once = Moments.start(4).observe(data)
    np.testing.assert_allclose(one_by_one.mean, at_once.mean, rtol=1e-12)
    np.testing.assert_allclose(one_by_one.variance, at_once.variance, rtol=1e-9)
    np.testing.assert_allclose(at_once.mean, data.mean(axis=0, dtype=np.float64), rtol=1e-5)


def test_moments_do_not_drift_after_a_million_samples():
    # In float32 the count stops growing near 2**24 and the mean stands still long before.
    moments = Moments(np.zeros(1), np.ones(1), 5e7)
    moved = moments.observe(np.ones((1, 1), np.float32))
    assert moved.mean.dtype == np.float64
    np.testing.assert_allclose(moved.mean, [1 / (5e7 + 1)], rtol=1e-9)
    assert moved.weight == 5e7 + 1


def test_return_by_hand_and_reset_at_the_end():
    returns = ReturnStatistics.start(1)
    seen = []
    for reward, ended in ((1.0, False), (2.0, True), (-3.0, False)):
        running = 0.5 * returns.running[0] + reward
        seen.append(running)
        returns = returns.observe(np.array([reward]), np.array([ended]), 0.5)
    assert seen == [1.0, 2.5, -3.0]  # the third episode step starts from zero
    assert returns.largest == 3.0  # of the absolute value
    assert returns.running[0] == -3.0
    np.testing.assert_allclose(returns.moments.mean, [np.mean(seen)], rtol=1e-3)
    deviation = np.sqrt(np.var(seen))
    assert returns.scale(RewardScaling(bound=5.0)) == pytest.approx(deviation, rel=1e-3)
    assert returns.scale(RewardScaling(bound=1.0)) == pytest.approx(3.0)


REWARDS = {
    "constant": lambda rng, t: 1.0,
    "sparse": lambda rng, t: float(t % 97 == 0),
    "huge": lambda rng, t: 1e6 * rng.normal(),
    "tiny": lambda rng, t: 1e-6 * rng.uniform(),
    "negative": lambda rng, t: -rng.uniform(),
    "late": lambda rng, t: 100.0 * (t > 1_500),
}


@pytest.mark.parametrize("kind", REWARDS)
def test_scaled_returns_stay_inside_the_support(kind):
    rng = np.random.default_rng(0)
    discount, scaling = 0.99, RewardScaling()
    returns, rewards = ReturnStatistics.start(1), []
    for t in range(2_000):
        reward = REWARDS[kind](rng, t)
        rewards.append(reward)
        returns = returns.observe(np.array([reward]), np.array([t % 500 == 499]), discount)
    scaled = np.array(rewards) / returns.scale(scaling)
    largest, running = 0.0, 0.0
    for t, reward in enumerate(scaled):
        running = discount * running + reward
        largest = max(largest, abs(running))
        running *= t % 500 != 499
    assert 0 < largest <= 5.0 + 1e-6


def test_normalizer_centres_and_scales():
    data = np.random.default_rng(1).normal(100.0, 0.1, (5_000, 3)).astype(np.float32)
    statistics = RunningStatistics.start(3, 1)
    for row in data:
        statistics = statistics.with_observation(row[None])
    normalized = statistics.normalizer(RewardScaling(), RunningNorm()).observation(data)
    np.testing.assert_allclose(normalized.mean(axis=0), 0.0, atol=1e-2)
    # The start value (mean 0, weight 1e-4) still widens the variance by 100^2 * 1e-4 / 5000.
    np.testing.assert_allclose(normalized.std(axis=0), np.sqrt(0.01 / 0.0102), atol=3e-3)
