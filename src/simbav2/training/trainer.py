"""The training loop and what exists only while training: environments, replay, data, random streams, counters.

Data flows one way: environment, statistics and replay, learner. Where there is recorded data, updates on it come
first.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from simbav2.actor_critic import ActorCritic
from simbav2.checkpoint.checkpoint import Checkpoint
from simbav2.config import UPDATES_PER_DISPATCH, Config
from simbav2.datasets import dataset
from simbav2.datasets.dataset import Dataset
from simbav2.envs.make import make_another
from simbav2.envs.vector import Envs, Step, check_dropped, make_vector_env
from simbav2.errors import BadStep, InputError
from simbav2.replay import Replay
from simbav2.runtime import StopRequest
from simbav2.training.callbacks import Logger
from simbav2.training.evaluate import Episode, EpisodeCounter, EvaluationEpisode, evaluate
from simbav2.types import Transition

_WARMUP, _REPLAY, _DIAGNOSTICS, _NOISE = 1, 2, 4, 5  # random streams; 3 is that of evaluations


class HeldNoise:
    """Which draw of exploration noise a decision uses: held for n decisions, P(n) proportional to 1 / n^2.

    Noise is a function of the number of its draw, so holding it means to name the draw again.
    """

    def __init__(self, seed: int, longest: int, num_envs: int) -> None:
        weights = 1 / np.arange(1, longest + 1) ** 2.0
        self.seed, self.num_envs, self.shares = seed, num_envs, np.cumsum(weights / weights.sum())
        self.drawn, self.until = 0, 0  # decisions: of the present draw, and of the next one

    def draw(self, decision: int) -> int:
        if len(self.shares) == 1:
            return decision
        if decision >= self.until:
            at = np.random.default_rng([self.seed, _NOISE, decision]).random()
            self.drawn, steps = decision, 1 + int(np.searchsorted(self.shares[:-1], at, side="right"))
            self.until = decision + steps * self.num_envs
        return self.drawn


class Trainer:
    """Steps the environments, fills the replay and updates `agent`."""

    def __init__(
        self, agent: ActorCritic, source: Any, envs: Envs | None = None, data: Dataset | None = None
    ) -> None:
        self.agent = agent
        self.source = source  # what environments are made from
        seed = agent.config.seed
        self.warmup_rng = np.random.default_rng([seed, _WARMUP])
        self.replay_rng = np.random.default_rng([seed, _REPLAY])
        self.held_noise = HeldNoise(seed, agent.config.policy.noise_repeat, agent.config.num_envs)
        self._envs, self._data = envs, data
        self._replay: Replay | None = None
        self.observation: NDArray | None = None  # to act on next; None before training starts
        self._reset_counters()

    def _reset_counters(self) -> None:
        self.episodes = EpisodeCounter(self.config.num_envs)
        self.ended: list[Episode] = []  # since the last log
        self.dropped_steps = 0  # of the whole run
        self.cut_episodes = 0  # lost with a worker, in the whole run
        self.metrics: dict[str, Any] | None = None  # of the latest updates, on the device

    @property
    def config(self) -> Config:
        return self.agent.config

    # Environments, replay and data, each made when first needed. -------------------------------------------

    def close_envs(self) -> None:
        """Close the environments unless they are the user's own; they are made again when needed."""
        if self._envs is not None and not isinstance(self.source, gym.Env | VectorEnv):
            self._envs.close()
            self._envs = None

    @property
    def envs(self) -> Envs:
        """The environments trained on."""
        if self._envs is None:
            self._envs = self.make_envs(self.source, self.config.seed, self.config.num_envs)
            self.agent.known_spaces = self._envs.spaces
        return self._envs

    def make_envs(self, source: Any, seed: int, num_envs: int | None, **options: Any) -> Envs:
        config, task = self.config, self.agent.task
        envs = make_vector_env(source, seed, num_envs, **{**config.env_options, **options})
        expected, found = (task.observation_size, task.action_size), (envs.observation_size, envs.action_size)
        if found != expected:
            if not isinstance(source, gym.Env | VectorEnv):  # that is the user's own
                envs.close()
            raise InputError(
                f"the agent learned {task.id}, with {expected[0]} observations and {expected[1]} actions; "
                f"{envs.task.id} has {found[0]} and {found[1]}: give an environment of the same sizes"
            )
        return envs

    def make_evaluation_envs(self, seed: int | None = None, env: Any = None) -> Envs:
        """Environments that training never touches: like those trained on, or made from `env`."""
        source, num_envs, workers = env, None, 0
        if env is None:
            single = isinstance(self.source, gym.Env | VectorEnv)
            source = make_another(self.source) if single else self.source
            num_envs, workers = self.config.num_envs, 0 if single else self.config.evaluation_workers
        seed = self.agent.evaluation_seed if seed is None else seed
        # Here, also where training has a cluster: an agent is evaluated when that is gone, too.
        return self.make_envs(source, seed, num_envs, workers=workers, backend="local", address=None)

    @property
    def replay(self) -> Replay:
        if self._replay is None:
            self._replay = Replay.make(self.config, self.agent.task)
        return self._replay

    @property
    def data(self) -> Dataset:
        """The recorded experience that the config names."""
        if self._data is None:
            assert self.config.discount is not None
            self._data = dataset.load(self.config.data, self.config.discount, self.config.replay.n_step)
        return self._data

    # Episodes. ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start training: statistics of recorded data where it comes first, and new episodes."""
        self._reset_counters()
        if self.offline:
            self.agent.statistics = self.data.statistics(self.config.num_envs)
        self._begin_episodes()

    def restart_episodes(self) -> None:
        """Start new episodes in place of the current ones."""
        self.envs.episodes = [number + 1 for number in self.envs.episodes]
        self._begin_episodes()

    def _begin_episodes(self) -> None:
        """Nothing carries over from episodes before, in the replay or in loaded statistics."""
        self.replay.truncate_episode()
        statistics = self.agent.statistics
        returns = statistics.returns._replace(running=np.zeros_like(statistics.returns.running))
        self.agent.statistics = statistics._replace(returns=returns)
        self.observation = self.envs.reset()
        self.replay.head[:] = self.observation
        self.episodes = EpisodeCounter(self.config.num_envs)

    def checkpoint(self, episodes: bool) -> Checkpoint:
        """What to save; with `episodes` all that a run needs to continue."""
        agent = self.agent
        return Checkpoint(
            config=agent.config,
            task=agent.task,
            state=agent.state,
            statistics=agent.statistics,
            decisions=agent.decisions,
            spaces=agent.known_spaces,
            random_streams={
                "warmup_rng": self.warmup_rng.bit_generator.state,
                "replay_rng": self.replay_rng.bit_generator.state,
            },
            episodes=self.snapshot() if episodes else None,
            replay=self.replay if episodes else None,
        )

    def snapshot(self) -> dict[str, Any]:
        """Where every environment is, as plain data."""
        return {
            "episodes": self.envs.episodes,
            "totals": self.episodes.totals.tolist(),
            "lengths": self.episodes.lengths.tolist(),
            "successes": [None if np.isnan(value) else value for value in self.episodes.successes.tolist()],
            "ended": self.ended,
            "dropped_steps": self.dropped_steps,
            "cut_episodes": self.cut_episodes,
            "held_noise": [self.held_noise.drawn, self.held_noise.until],
        }

    def restore(self, saved: Checkpoint) -> bool:
        """Continue as the checkpoint says; False where new episodes had to be started.

        The current episodes are restored by playing their actions again from their seeds.
        """
        self.warmup_rng.bit_generator.state = saved.random_streams["warmup_rng"]
        self.replay_rng.bit_generator.state = saved.random_streams["replay_rng"]
        snapshot = saved.episodes
        if snapshot is None:
            return False
        self._replay = saved.replay
        self.ended = [Episode(*episode) for episode in snapshot["ended"]]
        self.dropped_steps, lengths = snapshot["dropped_steps"], snapshot["lengths"]
        self.cut_episodes = snapshot["cut_episodes"]
        self.held_noise.drawn, self.held_noise.until = snapshot.get("held_noise", (0, 0))
        # Of an episode longer than the replay not all actions are left.
        known = max(lengths) <= self.replay.added - self.replay.oldest
        actions = self.replay.recent_actions(lengths if known else [0] * len(lengths))
        observation = self.envs.restore(snapshot["episodes"], actions)
        if not known or observation is None or not np.array_equal(observation, self.replay.head):
            self.restart_episodes()
            return False
        self.observation = observation
        self.episodes.totals[:] = snapshot["totals"]
        self.episodes.lengths[:] = lengths
        self.episodes.successes[:] = [np.nan if value is None else value for value in snapshot["successes"]]
        return True

    # The loop. ---------------------------------------------------------------------------------------------

    def train(
        self, until: int, logger: Logger, evaluate_every: int, envs: Envs | None, stop: StopRequest | None = None
    ) -> None:
        """Train to `until` simulator steps, or until a signal or a callback asks to stop; evaluate in `envs`."""
        agent, log_every = self.agent, self.config.schedule.log_every
        while agent.env_steps < until and not logger.stop_requested and not (stop and stop.requested):
            before, offline = agent.env_steps, self.offline
            try:
                self.ended += self.step()
            except BadStep:
                logger.checkpoint()
                raise
            logger.call("on_step")
            now = agent.env_steps
            last = now >= until
            if last or now // log_every > before // log_every:
                logger.progress(last)
                self.ended = []
            data_done = offline and not self.offline
            due = last or data_done or now // evaluate_every > before // evaluate_every
            if due and envs is not None:
                logger.evaluation(self.evaluate(envs, evaluate_every))
            logger.checkpoint(since=before)

    def evaluate(self, envs: Envs, evaluate_every: int) -> list[EvaluationEpisode]:
        """The evaluation due now. Episodes are numbered by the step, so that a resumed run plays the same."""
        episodes = self.config.schedule.evaluation_episodes
        return evaluate(self.agent, envs, episodes, self.agent.env_steps // evaluate_every * episodes)

    def step(self) -> list[Episode]:
        """One decision in every environment and the updates due after it; returns the episodes that ended.

        As long as there are updates on recorded data to take, some of them instead. After a `BadStep` everything
        is as it was before, unless it says that too many steps were dropped: then this one has been taken.
        """
        agent, observation = self.agent, self.observation
        if self.offline:
            self.metrics = self.update()
            return []
        assert observation is not None
        before = self.warmup_rng.bit_generator.state, agent.statistics
        held = self.held_noise.drawn, self.held_noise.until
        try:
            # Observations enter the statistics before they are acted on, as in the authors' code.
            agent.statistics = agent.statistics.with_observation(observation)
            action = self.explore(observation)
            step = self.envs.step(action)
        except BadStep:
            self.warmup_rng.bit_generator.state, agent.statistics = before
            self.held_noise.drawn, self.held_noise.until = held
            raise
        self._record(observation, action, step)
        self.observation = step.observation
        self.metrics = self.update() or self.metrics
        ended = [episode for env, episode in self.episodes.observe(step) if not step.dropped[env]]
        if step.dropped.any():
            self.cut_episodes += self.envs.lost
            self.dropped_steps += int(step.dropped.sum()) - self.envs.lost  # not the environment's fault
            try:
                check_dropped(self.dropped_steps, self.replay.added * self.config.num_envs, self.envs)
            except BadStep:
                self.ended += ended  # the next log of the run tells of them
                raise
        return ended

    @property
    def warming_up(self) -> bool:
        return self.agent.decisions < self.config.warmup_decisions

    def explore(self, observation: NDArray) -> NDArray:
        """Uniform actions during the warm-up, unless the agent learned from data; then the policy's own noise."""
        if self.warming_up and self.config.data.source is None:
            shape = (len(observation), self.agent.task.action_size)
            return self.warmup_rng.uniform(-1, 1, shape).astype(np.float32)
        return self.agent.act(observation, noise=1.0, draw=self.held_noise.draw(self.agent.decisions))

    def _record(self, observation: NDArray, action: NDArray, step: Step) -> None:
        agent, discount = self.agent, self.config.discount
        assert discount is not None
        ended = step.terminated | step.truncated
        agent.statistics = agent.statistics.with_reward(step.reward, ended, discount, step.dropped)
        self.replay.add(observation, action, step)
        agent.decisions += len(observation)

    # Updates. ----------------------------------------------------------------------------------------------

    @property
    def offline(self) -> bool:
        """Whether updates on recorded data alone are still to come."""
        return self.agent.updates < self.config.offline_updates

    @property
    def prefilling(self) -> bool:
        """Before there is enough to learn from: an agent loaded without its replay starts with none."""
        enough = min(self.config.warmup_decisions, self.config.replay.capacity)
        return self.warming_up or self.replay.held < enough or not len(self.replay)

    def update(self) -> dict[str, Any] | None:
        """The updates due now, if any: the next on recorded data, or those after the latest decision.

        Their metrics stay on the device.
        """
        agent = self.agent
        updates, every = (UPDATES_PER_DISPATCH, 1) if self.offline else self.config.update_schedule
        if not self.offline and (self.prefilling or agent.decisions // self.config.num_envs % every):
            return None
        if self._resets(agent.updates + updates) > self._resets(agent.updates):
            agent.state = agent.learner.reset(agent.state)
        batches = self.sample(updates, self.replay_rng)
        agent.state, metrics = agent.learner.learn(agent.state, agent.normalizer, batches)
        agent.updates += updates
        return metrics

    def sample(self, batches: int, rng: np.random.Generator) -> Transition:
        """From recorded data, from the replay, or half and half from both."""
        size = self.config.replay.batch_size
        if self.config.data.source is None:
            return self.replay.sample(batches, size, rng)
        if not len(self.replay):
            return self.data.replay.sample(batches, size, rng)
        recorded = self.data.replay.sample(batches, size // 2, rng)
        own = self.replay.sample(batches, size - size // 2, rng)
        return Transition(*(np.concatenate(both, axis=1) for both in zip(recorded, own, strict=True)))

    def diagnostics(self) -> dict[str, Any]:
        """Norms and the like (`simbav2.diagnostics`), on a batch that no update sees; they stay on the device."""
        agent = self.agent
        if self.config.data.source is None and not len(self.replay):
            return {}
        rng = np.random.default_rng([self.config.seed, _DIAGNOSTICS, agent.env_steps])
        batch = Transition(*(array[0] for array in self.sample(1, rng)))
        return agent.compute_diagnostics(agent.state, agent.normalizer, batch)

    @property
    def resets(self) -> int:
        """How often the networks have been reset."""
        return self._resets(self.agent.updates)

    def _resets(self, updates: int) -> int:
        """A reset comes before the first dispatch that begins at or after a multiple of `reset_every`."""
        config = self.config
        period = config.reset_every
        in_one_dispatch = UPDATES_PER_DISPATCH if updates <= config.offline_updates else config.update_schedule[0]
        return max(0, updates - in_one_dispatch) // period if period else 0
