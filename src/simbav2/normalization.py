"""Running moments of observations and returns, in float64: replicators found that float32 costs return.

Pure functions of small named tuples. The networks see them through `RunningStatistics.normalizer`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2.config import RawObservations, RawRewards, RewardScaling, RunningNorm
from simbav2.types import Normalizer

Float64 = NDArray[np.float64]


class Moments(NamedTuple):
    """Mean and variance of everything observed so far. The tiny weight of the start makes it fade at once."""

    mean: Float64
    variance: Float64
    weight: float  # how many samples they stand for

    @classmethod
    def start(cls, size: int) -> Moments:
        return cls(np.zeros(size), np.ones(size), 1e-4)

    def observe(self, batch: NDArray) -> Moments:
        """Take in `batch` [N, size] (Chan's formula for merging two samples)."""
        added = len(batch)
        weight = self.weight + added
        batch = batch.astype(np.float64)
        batch_mean = batch.mean(axis=0)
        delta = batch_mean - self.mean
        squares = (
            self.variance * self.weight
            + ((batch - batch_mean) ** 2).sum(axis=0)
            + delta**2 * (self.weight * added / weight)
        )
        return Moments(self.mean + delta * (added / weight), squares / weight, weight)


class ReturnStatistics(NamedTuple):
    """The discounted return so far of each environment's episode, and its moments."""

    running: Float64  # [N], G
    moments: Moments  # of G over all environments
    largest: float  # of |G|: the absolute value, so that purely negative returns are bounded too

    @classmethod
    def start(cls, num_envs: int) -> ReturnStatistics:
        return cls(np.zeros(num_envs), Moments.start(1), 0.0)

    def observe(
        self, reward: NDArray, ended: NDArray, discount: float, dropped: NDArray | None = None
    ) -> ReturnStatistics:
        """G <- gamma G + r; an episode that ended starts the next one at zero.

        Where the step was `dropped` there is no reward to learn from, and the next episode starts at zero too.
        """
        running = discount * self.running + reward
        seen = running if dropped is None else running[~dropped]
        if not len(seen):
            return self._replace(running=np.zeros_like(running))
        moments = self.moments.observe(seen[:, None])
        over = ended if dropped is None else ended | dropped
        return ReturnStatistics(
            np.where(over, 0.0, running), moments, max(self.largest, float(np.abs(seen).max()))
        )

    def fit(self, rewards: NDArray, ended: NDArray, discount: float) -> ReturnStatistics:
        """The same as `observe` of one environment, reward by reward in order."""
        returns, total = np.empty(len(rewards)), float(self.running[0])
        for row, (reward, over) in enumerate(zip(rewards.tolist(), ended.tolist(), strict=True)):
            total = returns[row] = discount * total + reward
            total = 0.0 if over else total
        moments = self.moments.observe(returns[:, None])
        return ReturnStatistics(np.array([total]), moments, max(self.largest, float(np.abs(returns).max())))

    def scale(self, rewards: RewardScaling | RawRewards) -> float:
        """What rewards are divided by."""
        match rewards:
            case RewardScaling(bound, epsilon):
                deviation = float(np.sqrt(self.moments.variance[0] + epsilon))
                return deviation if bound is None else max(deviation, self.largest / bound)
            case RawRewards():
                return 1.0


class RunningStatistics(NamedTuple):
    observation: Moments
    returns: ReturnStatistics

    @classmethod
    def start(cls, observation_size: int, num_envs: int) -> RunningStatistics:
        return cls(Moments.start(observation_size), ReturnStatistics.start(num_envs))

    def with_observation(self, observation: NDArray) -> RunningStatistics:
        """Include the observations of every environment; call it before acting on them."""
        return self._replace(observation=self.observation.observe(observation))

    def with_reward(
        self, reward: NDArray, ended: NDArray, discount: float, dropped: NDArray | None = None
    ) -> RunningStatistics:
        """Include the rewards of one decision in every environment, except where the step was `dropped`."""
        return self._replace(returns=self.returns.observe(reward, ended, discount, dropped))

    def fit(self, observations: NDArray, rewards: NDArray, ended: NDArray, discount: float) -> RunningStatistics:
        """The same as one environment row by row, up to rounding: a million rows in half a second."""
        return RunningStatistics(
            self.observation.observe(observations), self.returns.fit(rewards, ended, discount)
        )

    def normalizer(
        self, rewards: RewardScaling | RawRewards, observations: RunningNorm | RawObservations
    ) -> Normalizer:
        mean, std = self.observation.mean, np.sqrt(self.observation.variance + 1e-8)
        if isinstance(observations, RawObservations):
            mean, std = np.zeros_like(mean), np.ones_like(std)
        return Normalizer(
            mean=mean.astype(np.float32),
            std=std.astype(np.float32),
            reward_scale=np.float32(self.returns.scale(rewards)),
        )
