"""What flows through the program: transitions and the statistics they are normalised with."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Array: TypeAlias = Any  # a NumPy or JAX array: the same code runs on both
Params: TypeAlias = Any  # a tree of arrays


class Variables(NamedTuple):
    """What a network is applied with."""

    params: Params
    batch_stats: Params  # running statistics of batch normalisation; None where there is none

    @property
    def collections(self) -> dict[str, Params]:
        return {name: value for name, value in self._asdict().items() if value is not None}


class Transition(NamedTuple):
    """Experience, batched; leading axes are free so that several batches can be scanned."""

    observation: Array  # [..., B, O], raw
    action: Array  # [..., B, A], in [-1, 1]
    reward: Array  # [..., B], raw; the discounted sum over n steps
    discount: Array  # [..., B], gamma ** n; zero only where the episode truly ended
    next_observation: Array  # [..., B, O], raw


class Normalizer(NamedTuple):
    """The running statistics as the networks use them, frozen for one call."""

    mean: Array  # [O]
    std: Array  # [O]
    reward_scale: Array  # scalar

    def observation(self, observation: Array) -> Array:
        """RSNorm."""
        return (observation - self.mean) / self.std

    def transition(self, batch: Transition) -> Transition:
        return batch._replace(
            observation=self.observation(batch.observation),
            reward=batch.reward / self.reward_scale,
            next_observation=self.observation(batch.next_observation),
        )
