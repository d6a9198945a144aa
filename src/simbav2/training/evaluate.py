"""Episodes: counting them while training, and playing them with the deterministic policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simbav2.envs.vector import Envs, Step

if TYPE_CHECKING:
    from simbav2.agent import SimbaV2


class Episode(NamedTuple):
    total: float  # the return
    length: int  # decisions
    success: float | None  # 1 where the task was solved at any step; None where the task does not say


class EpisodeCounter:
    """Adds up the episode under way in every environment."""

    def __init__(self, num_envs: int) -> None:
        self.totals = np.zeros(num_envs)
        self.lengths = np.zeros(num_envs, np.int64)
        self.successes = np.full(num_envs, np.nan)

    def observe(self, step: Step) -> list[tuple[int, Episode]]:
        """The episodes that ended with this step, each with its environment's index."""
        self.totals += step.reward
        self.lengths += 1
        self.successes = np.fmax(self.successes, step.success)
        ended = []
        for env in np.flatnonzero(step.terminated | step.truncated):
            success = float(self.successes[env])
            episode = Episode(
                float(self.totals[env]), int(self.lengths[env]), None if np.isnan(success) else success
            )
            ended.append((int(env), episode))
            self.totals[env], self.lengths[env], self.successes[env] = 0.0, 0, np.nan
        return ended


def evaluate(agent: SimbaV2, envs: Envs, episodes: int, first_episode: int = 0) -> list[Episode]:
    """Play `episodes` with the deterministic action, numbered from `first_episode` on.

    Each environment plays a fixed share, so that short episodes are not counted more often than long ones.
    """
    shares = [episodes // envs.num_envs + (i < episodes % envs.num_envs) for i in range(envs.num_envs)]
    played: list[list[Episode]] = [[] for _ in shares]
    counter = EpisodeCounter(envs.num_envs)
    envs.episodes = [first_episode] * envs.num_envs
    observation = envs.reset()
    while any(len(done) < share for done, share in zip(played, shares, strict=True)):
        step = envs.step(agent.act(observation, noise=0.0))
        for env, episode in counter.observe(step):
            played[env].append(episode)
        observation = step.observation
    return [episode for done, share in zip(played, shares, strict=True) for episode in done[:share]]


def mean_total(episodes: list[Episode]) -> float | None:
    return float(np.mean([episode.total for episode in episodes])) if episodes else None


def mean_success(episodes: list[Episode]) -> float | None:
    known = [episode.success for episode in episodes if episode.success is not None]
    return float(np.mean(known)) if known else None
