"""Episodes: counting them while training, and playing them with the deterministic policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2.actor_critic import ActorCritic
from simbav2.envs.vector import Envs, Step


class Episode(NamedTuple):
    total: float  # the return
    length: int  # decisions
    success: float | None  # 1 where the task was solved at any step; None where the task does not say


class EvaluationEpisode(NamedTuple):
    """An episode of an evaluation: the same, and what its critic thought of it."""

    total: float
    length: int
    success: float | None
    discounted: float  # the discounted return
    q: float  # the discounted return that the critic expected at the start
    dropped: bool = False  # cut short by an environment step that failed


class Evaluation(NamedTuple):
    """What `agent.evaluate` found."""

    mean_return: float
    std_return: float  # over the episodes
    success: float | None  # the share of episodes in which the task was solved; None where the task does not say
    lengths: tuple[int, ...]  # decisions
    episodes: tuple[EvaluationEpisode, ...]

    @classmethod
    def of(cls, episodes: Sequence[EvaluationEpisode]) -> Evaluation:
        returns = [episode.total for episode in episodes]
        lengths = tuple(episode.length for episode in episodes)
        mean, std = float(np.mean(returns)), float(np.std(returns))
        return cls(mean, std, mean_success(episodes), lengths, tuple(episodes))


class EpisodeCounter:
    """Adds up the current episode of every environment."""

    def __init__(self, num_envs: int) -> None:
        self.totals = np.zeros(num_envs)
        self.lengths = np.zeros(num_envs, np.int64)
        self.successes = np.full(num_envs, np.nan)

    def observe(self, step: Step) -> list[tuple[int, Episode]]:
        """The episodes that ended or were cut by a dropped step, each with its environment's index."""
        self.totals += step.reward
        self.lengths += ~step.dropped
        self.successes = np.fmax(self.successes, step.success)
        ended = []
        for env in np.flatnonzero(step.terminated | step.truncated | step.dropped):
            success = float(self.successes[env])
            episode = Episode(
                float(self.totals[env]), int(self.lengths[env]), None if np.isnan(success) else success
            )
            ended.append((int(env), episode))
            self.totals[env], self.lengths[env], self.successes[env] = 0.0, 0, np.nan
        return ended


def evaluate(agent: ActorCritic, envs: Envs, episodes: int, first_episode: int = 0) -> list[EvaluationEpisode]:
    """Play `episodes` with the deterministic action, numbered from `first_episode` on.

    Each environment plays a fixed share, so that short episodes are not counted more often than long ones. An
    episode with a dropped step ends there, with the return it has until then.
    """
    assert agent.config.discount is not None
    shares = [episodes // envs.num_envs + (i < episodes % envs.num_envs) for i in range(envs.num_envs)]
    played: list[list[EvaluationEpisode]] = [[] for _ in shares]
    counter = EpisodeCounter(envs.num_envs)
    envs.episodes = [first_episode] * envs.num_envs
    observation = envs.reset()
    expected = _expected(agent, observation)
    discounted, weight = np.zeros(envs.num_envs), np.ones(envs.num_envs)
    while any(len(done) < share for done, share in zip(played, shares, strict=True)):
        step = envs.step(agent.act(observation, noise=0.0))
        observation = step.observation
        discounted += weight * step.reward
        weight *= agent.config.discount
        ended = counter.observe(step)
        for env, episode in ended:
            outcome = float(discounted[env]), float(expected[env]), bool(step.dropped[env])
            played[env].append(EvaluationEpisode(*episode, *outcome))
            discounted[env], weight[env] = 0.0, 1.0
        if ended:
            started = [env for env, _ in ended]
            expected[started] = _expected(agent, observation)[started]
    return [episode for done, share in zip(played, shares, strict=True) for episode in done[:share]]


def _expected(agent: ActorCritic, observation: NDArray) -> NDArray:
    """The smallest critic's value of the deterministic action [N], in the units of the reward."""
    q = agent.values(observation, agent.act(observation, noise=0.0))
    return np.asarray(q.min(axis=0) * agent.normalizer.reward_scale, np.float64)


def evaluation_metrics(episodes: Sequence[EvaluationEpisode]) -> dict[str, float]:
    """What the critic expected at the start of the episodes, and what they gave; both in the reward's units."""
    dropped = sum(episode.dropped for episode in episodes)
    return {
        "evaluation/q": sum(episode.q for episode in episodes) / len(episodes),
        "evaluation/discounted_return": sum(episode.discounted for episode in episodes) / len(episodes),
        **({"evaluation/dropped_episodes": dropped} if dropped else {}),
    }


def mean_total(episodes: Sequence[Episode | EvaluationEpisode]) -> float | None:
    return float(np.mean([episode.total for episode in episodes])) if episodes else None


def mean_success(episodes: Sequence[Episode | EvaluationEpisode]) -> float | None:
    known = [episode.success for episode in episodes if episode.success is not None]
    return float(np.mean(known)) if known else None
