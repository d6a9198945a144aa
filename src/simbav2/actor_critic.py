"""Networks and running statistics: what acts and estimates values. `Trainer` trains it, users hold an `Agent`."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from simbav2 import diagnostics
from simbav2.config import Config
from simbav2.envs.spaces import Spaces
from simbav2.envs.tasks import Task
from simbav2.learner import Learner, LearnerState
from simbav2.normalization import RunningStatistics
from simbav2.types import Normalizer

_EVALUATION = 3  # the random stream; the others are the trainer's


def _compiled(config: Config) -> Config:
    """`config` without what the compiled programs do not depend on."""
    config = replace(config.essential(), seed=0, drop_bad_steps=Config.drop_bad_steps, reset_every=None)
    return config if config.scheduled else replace(config, env_steps=Config.env_steps)


@lru_cache(maxsize=8)
def _programs(config: Config, observation_size: int, action_size: int) -> tuple[Learner, Callable[..., Any]]:
    learner = Learner(config, observation_size, action_size)
    return learner, jax.jit(partial(diagnostics.compute, learner))


def programs(config: Config, task: Task) -> tuple[Learner, Callable[..., Any]]:
    """The learner and the diagnostics; agents that differ only in seed and schedule share what is compiled."""
    learner, compute = _programs(_compiled(config), task.observation_size, task.action_size)
    return copy(learner), compute


def count_env_steps(config: Config, decisions: int, updates: int) -> int:
    """Simulator steps so far; an update on recorded data counts as one."""
    return min(updates, config.offline_updates) + decisions * (config.action_repeat or 1)


class ActorCritic:
    """Actor, critics, optimisers and statistics of one config and task, new or with a given `state`."""

    def __init__(
        self,
        config: Config,
        task: Task,
        state: LearnerState | None = None,
        statistics: RunningStatistics | None = None,
        decisions: int = 0,
        spaces: Spaces | None = None,
    ) -> None:
        self.task = task
        self.configure(config)
        self._act_key, learn_key = np.asarray(jax.random.split(jax.random.PRNGKey(config.seed)))
        self.state: LearnerState = self.learner.init(learn_key) if state is None else state
        self.statistics = statistics or RunningStatistics.start(task.observation_size, config.num_envs)
        self.decisions = decisions  # taken so far, in all environments
        # Those of the state, counted here as well: reading them there would wait for the device.
        self.updates = 0 if state is None else int(state.updates)
        self.known_spaces = spaces
        self._normalizer: tuple[RunningStatistics, Normalizer] | None = None  # of which statistics

    def configure(self, config: Config) -> None:
        self.config = config
        self.learner, self.compute_diagnostics = programs(config, self.task)

    @property
    def env_steps(self) -> int:
        """Simulator steps so far; an update on recorded data counts as one."""
        return count_env_steps(self.config, self.decisions, self.updates)

    @property
    def evaluation_seed(self) -> int:
        """Evaluation episodes are never those trained on."""
        return int(np.random.SeedSequence([self.config.seed, _EVALUATION]).generate_state(1)[0])

    @property
    def normalizer(self) -> Normalizer:
        if self._normalizer is None or self._normalizer[0] is not self.statistics:
            normalizer = self.statistics.normalizer(self.config.rewards, self.config.observations)
            self._normalizer = self.statistics, normalizer
        return self._normalizer[1]

    def act(self, observation: NDArray, noise: float, draw: int | None = None) -> NDArray:
        """Actions [N, A] in [-1, 1] for flat observations [N, O].

        Small batches are padded to `num_envs`, so that all share one compilation. The noise is a function of the
        number `draw`: unless given, that of the decision.
        """
        missing = max(0, self.config.num_envs - len(observation))
        padded = np.pad(observation, ((0, missing), (0, 0))) if missing else observation
        action = self.learner.act(
            self.state.actor.variables,
            self.normalizer,
            padded,
            self._act_key,
            np.uint32(self.decisions if draw is None else draw),
            np.float32(noise),
        )
        return np.asarray(action)[: len(observation)]

    def values(self, observation: NDArray, action: NDArray) -> NDArray:
        """Every critic's value [critics, N] of flat observations [N, O] and actions [N, A] in [-1, 1]."""
        return np.asarray(self.learner.q_values(self.state.critic.variables, self.normalizer, observation, action))
