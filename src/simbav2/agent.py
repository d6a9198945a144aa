"""The thin stateful shell around the learner: what a user holds in hand.

One seed makes everything: environment, initialisation, exploration, replay and evaluation draw from streams of
their own, so that taking more of one never shifts another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import jax
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from simbav2 import diagnostics
from simbav2.config import UPDATES_PER_DISPATCH, Config, Schedule, override, presets
from simbav2.envs.make import make_another
from simbav2.envs.spaces import Spaces
from simbav2.envs.tasks import CUSTOM, Task
from simbav2.envs.vector import Envs, Step, make_vector_env
from simbav2.errors import InputError, printable
from simbav2.learner import Learner, LearnerState
from simbav2.normalization import RunningStatistics
from simbav2.replay import Replay
from simbav2.types import Normalizer, Transition

if TYPE_CHECKING:
    from simbav2.datasets.dataset import Dataset
    from simbav2.training.callbacks import Callback
    from simbav2.training.evaluate import Evaluation
    from simbav2.training.trainer import Loop

log = logging.getLogger("simbav2")
_WARMUP, _REPLAY, _EVALUATION, _MEASURES = 1, 2, 3, 4
_PREDICTIONS = 1 << 31  # their noise is drawn behind that of any run's decisions


def _compiled(config: Config) -> Config:
    """`config` without what the compiled programs do not depend on."""
    config = replace(config, seed=0, schedule=Schedule(), drop_bad_steps=Config.drop_bad_steps, reset_every=None)
    return config if config.scheduled else replace(config, env_steps=Config.env_steps)


@lru_cache(maxsize=8)
def _programs(config: Config, observation_size: int, action_size: int) -> tuple[Learner, Callable[..., Any]]:
    """What agents that differ only in seed and schedule share in a process: traced, compiled or loaded once."""
    learner = Learner(config, observation_size, action_size)
    return learner, jax.jit(partial(diagnostics.measures, learner))


class Agent:
    """Soft actor-critic on the unit hypersphere, for any continuous-control environment.

    `env` is a task id (`dmc/walker-walk`), a Gymnasium id, an environment, a vector environment or a callable
    that makes either. Observations and actions are those of its spaces; a task id has flat observations and
    actions in [-1, 1], as `make_env` gives them. `ablation` is a change of the paper's ablation study, made to
    the preset (`simbav2 presets` lists both). Settings are given by their dotted names: `**{"critic.width": 128}`.
    """

    def __init__(
        self,
        env: Any,
        seed: int = 0,
        preset: str = presets.DEFAULT,
        ablation: str | None = None,
        **settings: Any,
    ) -> None:
        config = override(presets.preset(preset, ablation), {"seed": seed, **settings})
        if config.imitates:
            raise InputError(
                f"objective {type(config.objective).__name__} of preset {preset!r} needs recorded data; use "
                "`simbav2 offline` or simbav2.training.offline.make_agent"
            )
        given = {name.replace("-", "_") for name in settings}
        num_envs = config.num_envs if "num_envs" in given else None  # a vector environment has its own
        envs = make_vector_env(env, config.seed, num_envs, config.action_repeat, config.drop_bad_steps)
        self._prepare(replace(config, num_envs=envs.num_envs).resolve(envs.task), envs.task, env, envs)
        self._open_ended = "env_steps" not in given

    def _prepare(self, config: Config, task: Task, source: Any, envs: Envs | None = None) -> None:
        self.task = task
        self.source = source
        self._configure(config)
        key = jax.random.PRNGKey(config.seed)
        self._act_key, learn_key = np.asarray(jax.random.split(key))
        self.state: LearnerState = self.learner.init(learn_key)
        self.statistics = RunningStatistics.start(task.observation_size, config.num_envs)
        self.decisions = 0
        self.updates = 0  # those of the state, counted here as well: reading it there would wait for the device
        self.warmup_rng = np.random.default_rng([config.seed, _WARMUP])
        self.replay_rng = np.random.default_rng([config.seed, _REPLAY])
        self._replay: Replay | None = None
        self._data: Dataset | None = None
        self._envs = envs
        self.known_spaces = envs.spaces if envs is not None else None
        self._open_ended = False  # True: the first call of `learn` says how many steps the schedules are for
        self._loop: Loop | None = None
        self._normalizer: tuple[RunningStatistics, Normalizer] | None = None  # of which statistics
        self._predictions = 0  # random ones

    def _configure(self, config: Config) -> None:
        self.config = config
        sizes = self.task.observation_size, self.task.action_size
        learner, self._measures = _programs(_compiled(config), *sizes)
        self.learner = copy(learner)

    @classmethod
    def from_config(
        cls, config: Config, task: Task, source: Any, envs: Envs | None = None, data: Dataset | None = None
    ) -> Agent:
        """An agent for a resolved config; environments and data are made when first needed, where not given."""
        agent = cls.__new__(cls)
        agent._prepare(config, task, source, envs)
        agent._data = data
        return agent

    # What a user calls. ------------------------------------------------------------------------------------

    def learn(
        self,
        env_steps: int,
        callbacks: Sequence[Callback] = (),
        *,
        evaluate_every: int | None = None,
        evaluation_env: Any = None,
        progress: bool = True,
    ) -> Agent:
        """Train for `env_steps` more simulator steps.

        Schedules such as the learning rate's are made for the setting `env_steps`; where it was not given, for the
        steps of the first call. With `evaluate_every` (simulator steps) the deterministic policy is evaluated in
        `evaluation_env` (anything that an agent can be made from; default: environments like those trained on).
        Progress goes to the logger `simbav2`, every `schedule.log_every` steps; `progress=False` leaves it out.
        """
        from simbav2.training import learning
        from simbav2.training.trainer import Loop

        if env_steps < 1:
            raise InputError(f"env_steps is {env_steps}; expected at least 1")
        if evaluate_every is not None and evaluate_every < 1:
            raise InputError(f"evaluate_every is {evaluate_every}; expected at least 1")
        if self._trains_on(evaluation_env):
            raise InputError(f"evaluation_env is {evaluation_env}, which is trained on; give another environment")
        if evaluation_env is not None and evaluate_every is None:
            evaluate_every = self.config.schedule.evaluate_every
        if self._open_ended and self.env_steps == 0:
            self._configure(replace(self.config, env_steps=env_steps).resolve(self.task))
        self._open_ended = False
        if self._loop is None:
            self._loop = Loop(self)
        until = self.env_steps + env_steps
        with self._evaluating(evaluation_env) if evaluate_every else nullcontext() as envs:
            learning.learn(self._loop, until, callbacks, evaluate_every, envs, progress)
        return self

    def evaluate(self, episodes: int = 10, env: Any = None, seed: int | None = None) -> Evaluation:
        """Play `episodes` with the deterministic policy, in environments of its own or in `env`.

        `env` is anything that an agent can be made from. `seed` is that of the episodes (default:
        `evaluation_seed`, so that they are never those trained on).
        """
        from simbav2.training.evaluate import Evaluation, evaluate

        if episodes < 1:
            raise InputError(f"episodes is {episodes}; expected at least 1")
        with self._evaluating(env, seed) as envs:
            played = evaluate(self, envs, episodes)
        if self._trains_on(env) and self._loop is not None:
            self._loop.restart()  # the episode that training was in is over
        return Evaluation.of(played)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray, Any]:
        """Actions for one observation or a batch, in the convention of Stable-Baselines3.

        Both are as the spaces of the environment say: an observation is an array of the Box's shape or a dict, an
        action has the units, the shape and the dtype of the action space. The policy has no memory: `state` is
        handed back as it came, and `episode_start` makes no difference.
        """
        batch, batched = self.spaces.observations.batch(observation)
        if deterministic:
            action = self.act(batch, noise=0.0)
        else:
            action = self.act(batch, noise=1.0, draw=_PREDICTIONS + self._predictions)
            self._predictions += 1
        action = self.spaces.actions.to_environment(action)
        return (action if batched else action[0]), state

    def q_values(self, observation: Any, action: Any) -> NDArray:
        """Every critic's value [critics, batch], in the units of the scaled reward.

        Observations and actions are those of the environment's spaces, as in `predict`.
        """
        observations, _ = self.spaces.observations.batch(observation)
        actions = self.spaces.batch_of_actions(action)
        if len(observations) != len(actions):
            raise InputError(f"{len(observations)} observations and {len(actions)} actions; expected as many")
        return self.values(observations, actions)

    @property
    def spaces(self) -> Spaces:
        """What `predict` takes and gives; saved with the agent."""
        if self.known_spaces is None:
            self.known_spaces = self._find_spaces()
        return self.known_spaces

    def _find_spaces(self) -> Spaces:
        """For an agent that was saved by an older version."""
        vectors = Spaces.vectors(self.task.observation_size, self.task.action_size)
        if self.task.suite != CUSTOM:
            return vectors
        try:
            return self.envs.spaces
        except InputError as error:
            log.warning(
                "simbav2: the action bounds of %s are unknown (%s); actions are in [-1, 1] and observations flat",
                printable(self.task.id),
                error,
            )
            return vectors

    def save(self, folder: str | Path) -> None:
        """Write networks, optimisers and statistics (not the replay) to a new folder, all or nothing."""
        from simbav2.checkpoint import checkpoint

        checkpoint.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, env: Any = None) -> Agent:
        """An agent from what `save` or a run wrote; `env` where it is to go on in another environment."""
        from simbav2.checkpoint import rotation

        return rotation.load(Path(folder), env)

    # What the training loop calls. -------------------------------------------------------------------------

    @property
    def env_steps(self) -> int:
        """Simulator steps so far; an update on recorded data counts as one."""
        offline = min(self.updates, self.config.offline_updates)
        return offline + self.decisions * (self.config.action_repeat or 1)

    @property
    def offline(self) -> bool:
        """Whether updates on recorded data alone are still to come."""
        return self.updates < self.config.offline_updates

    @property
    def envs(self) -> Envs:
        """The environments trained on, made when first needed."""
        if self._envs is None:
            self._envs = self._make_envs(self.source, self.config.seed, self.config.num_envs)
            self.known_spaces = self._envs.spaces
        return self._envs

    def _make_envs(self, source: Any, seed: int, num_envs: int | None) -> Envs:
        config, task = self.config, self.task
        envs = make_vector_env(source, seed, num_envs, config.action_repeat, config.drop_bad_steps)
        expected, found = (task.observation_size, task.action_size), (envs.observation_size, envs.action_size)
        if found != expected:
            if not isinstance(source, gym.Env | VectorEnv):  # that is the user's own
                envs.close()
            raise InputError(
                f"the agent learned {task.id}, with {expected[0]} observations and {expected[1]} actions; "
                f"{envs.task.id} has {found[0]} and {found[1]}: give an environment of the same sizes"
            )
        return envs

    def _trains_on(self, env: Any) -> bool:
        return isinstance(env, gym.Env | VectorEnv) and env is self.source

    def make_evaluation_envs(self, seed: int | None = None, env: Any = None) -> Envs:
        """Environments that training never touches: like those trained on, or made from `env`."""
        source, num_envs = env, None
        if env is None:
            alone = isinstance(self.source, gym.Env | VectorEnv)
            source = make_another(self.source) if alone else self.source
            num_envs = self.config.num_envs
        return self._make_envs(source, self.evaluation_seed if seed is None else seed, num_envs)

    @contextmanager
    def _evaluating(self, env: Any, seed: int | None = None) -> Iterator[Envs]:
        envs = self.make_evaluation_envs(seed, env)
        try:
            yield envs
        finally:
            if not isinstance(env, gym.Env | VectorEnv):  # that is the user's own
                envs.close()

    def values(self, observation: NDArray, action: NDArray) -> NDArray:
        """`q_values` of flat observations [N, O] and actions [N, A] in [-1, 1]."""
        return np.asarray(self.learner.q_values(self.state.critic.params, self.normalizer, observation, action))

    @property
    def evaluation_seed(self) -> int:
        """Evaluation episodes are never those trained on."""
        return int(np.random.SeedSequence([self.config.seed, _EVALUATION]).generate_state(1)[0])

    @property
    def replay(self) -> Replay:
        """Reserved when first needed: a policy that only acts needs none."""
        if self._replay is None:
            config = self.config
            assert config.discount is not None
            self._replay = Replay(
                config.replay.capacity,
                self.task.observation_size,
                self.task.action_size,
                config.num_envs,
                config.replay.n_step,
                config.discount,
            )
        return self._replay

    @property
    def data(self) -> Dataset:
        """The recorded experience that the config names, read when first needed."""
        if self._data is None:
            from simbav2.datasets import dataset

            assert self.config.discount is not None
            self._data = dataset.load(self.config.data, self.config.discount, self.config.replay.n_step)
        return self._data

    def fit(self) -> None:
        """Take the statistics of the recorded experience as one's own."""
        self.statistics = self.data.statistics(self.config.num_envs)

    @property
    def normalizer(self) -> Normalizer:
        if self._normalizer is None or self._normalizer[0] is not self.statistics:
            self._normalizer = self.statistics, self.statistics.normalizer(self.config.rewards)
        return self._normalizer[1]

    @property
    def warming_up(self) -> bool:
        return self.decisions < self.config.warmup_decisions

    @property
    def prefilling(self) -> bool:
        """Before there is enough to learn from: an agent loaded without its experience starts with none."""
        enough = min(self.config.warmup_decisions, self.config.replay.capacity)
        return self.warming_up or self.replay.held < enough or not len(self.replay)

    def act(self, observation: NDArray, noise: float, draw: int | None = None) -> NDArray:
        """Actions [N, A]; small batches are padded to `num_envs`, so that all of them share one compilation.

        The noise is a function of the number `draw`: unless given, that of the decision.
        """
        missing = max(0, self.config.num_envs - len(observation))
        padded = np.pad(observation, ((0, missing), (0, 0))) if missing else observation
        action = self.learner.act(
            self.state.actor.params,
            self.normalizer,
            padded,
            self._act_key,
            np.uint32(self.decisions if draw is None else draw),
            np.float32(noise),
        )
        return np.asarray(action)[: len(observation)]

    def explore(self, observation: NDArray) -> NDArray:
        """Uniform while warming up, unless there is something learned from data; then the policy's own noise."""
        if self.warming_up and self.config.data.source is None:
            return self.warmup_rng.uniform(-1, 1, (len(observation), self.task.action_size)).astype(np.float32)
        return self.act(observation, noise=1.0)

    def observe(self, observation: NDArray) -> None:
        """Include the observations in the statistics, before acting on them (as the authors' code does)."""
        self.statistics = self.statistics.with_observation(observation)

    def record(self, observation: NDArray, action: NDArray, step: Step) -> None:
        """Take in what one decision in every environment led to."""
        assert self.config.discount is not None
        ended = step.terminated | step.truncated
        self.statistics = self.statistics.with_reward(step.reward, ended, self.config.discount, step.dropped)
        self.replay.add(observation, action, step)
        self.decisions += len(observation)

    def begin_episodes(self) -> NDArray:
        """Start an episode in every environment; returns their first observations.

        Of episodes before, in the replay or in loaded statistics, nothing carries over.
        """
        self.replay.truncate_episode()
        returns = self.statistics.returns
        self.statistics = self.statistics._replace(
            returns=returns._replace(running=np.zeros_like(returns.running))
        )
        observation = self.envs.reset()
        self.replay.head[:] = observation
        return observation

    def abandon_episodes(self) -> NDArray:
        """Start new episodes in place of those under way; returns their first observations."""
        self.envs.episodes = [number + 1 for number in self.envs.episodes]
        return self.begin_episodes()

    def update(self) -> dict[str, Any] | None:
        """The updates due now, if any: the next on recorded data, or those after the latest decision.

        Their metrics stay on the device.
        """
        updates, every = (UPDATES_PER_DISPATCH, 1) if self.offline else self.config.update_schedule
        if not self.offline and (self.prefilling or self.decisions // self.config.num_envs % every):
            return None
        if self._resets(self.updates + updates) > self._resets(self.updates):
            self.state = self.learner.reset(self.state)
        batches = self._sample(updates, self.replay_rng)
        self.state, metrics = self.learner.learn(self.state, self.normalizer, batches)
        self.updates += updates
        return metrics

    def _sample(self, batches: int, rng: np.random.Generator) -> Transition:
        """From recorded data, from the replay, or half and half from both."""
        size = self.config.replay.batch_size
        if self.config.data.source is None:
            return self.replay.sample(batches, size, rng)
        if not len(self.replay):
            return self.data.replay.sample(batches, size, rng)
        recorded = self.data.replay.sample(batches, size // 2, rng)
        own = self.replay.sample(batches, size - size // 2, rng)
        return Transition(*(np.concatenate(both, axis=1) for both in zip(recorded, own, strict=True)))

    def measure(self) -> dict[str, Any]:
        """Norms and the like (`diagnostics`), on a batch that no update sees; they stay on the device."""
        if self.config.data.source is None and not len(self.replay):
            return {}
        rng = np.random.default_rng([self.config.seed, _MEASURES, self.env_steps])
        batch = Transition(*(array[0] for array in self._sample(1, rng)))
        return self._measures(self.state, self.normalizer, batch)

    @property
    def resets(self) -> int:
        """How often the networks have started anew."""
        return self._resets(self.updates)

    def _resets(self, updates: int) -> int:
        """A reset comes before the first dispatch that begins at or after a multiple of `reset_every`."""
        config = self.config
        period = config.reset_every
        in_one_dispatch = UPDATES_PER_DISPATCH if updates <= config.offline_updates else config.update_schedule[0]
        return max(0, updates - in_one_dispatch) // period if period else 0


SimbaV2 = Agent  # its other name
