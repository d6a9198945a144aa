"""What a user holds: an agent that learns, acts, is saved and loaded.

One seed makes everything: environment, initialisation, exploration, replay and evaluation draw from streams of
their own, so that taking more of one never shifts another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from simbav2.actor_critic import ActorCritic
from simbav2.checkpoint import checkpoint, rotation
from simbav2.checkpoint.checkpoint import Checkpoint
from simbav2.config import Config, override, presets
from simbav2.datasets.dataset import Dataset
from simbav2.envs.spaces import Spaces
from simbav2.envs.tasks import CUSTOM, Task
from simbav2.envs.vector import Envs, make_vector_env
from simbav2.errors import InputError, printable
from simbav2.training.callbacks import Callback
from simbav2.training.evaluate import Evaluation, evaluate
from simbav2.training.logger import ProgressLogger, visible_logging
from simbav2.training.trainer import Trainer

log = logging.getLogger("simbav2")
_PREDICTIONS = 1 << 31  # their noise is drawn behind that of any run's decisions


class Agent(ActorCritic):
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
        envs = make_vector_env(env, config.seed, num_envs, **config.env_options)
        config = replace(config, num_envs=envs.num_envs).resolve(envs.task)
        super().__init__(config, envs.task, spaces=envs.spaces)
        self._start(Trainer(self, env, envs), open_ended="env_steps" not in given)

    def _start(self, trainer: Trainer, open_ended: bool = False) -> None:
        self.trainer = trainer
        self._open_ended = open_ended  # the first call of `learn` says how many steps the schedules are for
        self._predictions = 0  # random ones

    @classmethod
    def from_config(
        cls, config: Config, task: Task, source: Any, envs: Envs | None = None, data: Dataset | None = None
    ) -> Agent:
        """An agent for a resolved config; environments and data are made when first needed, where not given."""
        agent = cls.__new__(cls)
        ActorCritic.__init__(agent, config, task, spaces=None if envs is None else envs.spaces)
        agent._start(Trainer(agent, source, envs, data))
        return agent

    @classmethod
    def from_checkpoint(cls, saved: Checkpoint, env: Any = None) -> Agent:
        """The saved agent; its trainer has yet to `restore` the checkpoint's episodes."""
        agent = cls.__new__(cls)
        ActorCritic.__init__(
            agent, saved.config, saved.task, saved.state, saved.statistics, saved.decisions, saved.spaces
        )
        agent._start(Trainer(agent, saved.source(env)))
        if env is not None:
            agent.trainer.envs  # noqa: B018  made now: its spaces count, and one that does not fit is refused here
        return agent

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
        if env_steps < 1:
            raise InputError(f"env_steps is {env_steps}; expected at least 1")
        if evaluate_every is not None and evaluate_every < 1:
            raise InputError(f"evaluate_every is {evaluate_every}; expected at least 1")
        if self._trains_on(evaluation_env):
            raise InputError(f"evaluation_env is {evaluation_env}, which is trained on; give another environment")
        if evaluation_env is not None and evaluate_every is None:
            evaluate_every = self.config.schedule.evaluate_every
        if self._open_ended and self.env_steps == 0:
            self.configure(replace(self.config, env_steps=env_steps).resolve(self.task))
        self._open_ended = False
        trainer = self.trainer
        if trainer.observation is None:
            trainer.begin()
        until = self.env_steps + env_steps
        with (
            self._evaluation_envs(evaluation_env) if evaluate_every else nullcontext() as envs,
            visible_logging() if progress else nullcontext(),
        ):
            logger = ProgressLogger(trainer, until, callbacks, visible=progress)
            logger.call("on_start", None)
            try:
                trainer.train(until, logger, evaluate_every or until, envs)
            finally:
                logger.call("on_end")
        return self

    def evaluate(self, episodes: int = 10, env: Any = None, seed: int | None = None) -> Evaluation:
        """Play `episodes` with the deterministic policy, in environments of its own or in `env`.

        `env` is anything that an agent can be made from. `seed` is that of the episodes (default:
        `evaluation_seed`, so that they are never those trained on).
        """
        if episodes < 1:
            raise InputError(f"episodes is {episodes}; expected at least 1")
        with self._evaluation_envs(env, seed) as envs:
            played = evaluate(self, envs, episodes)
        if self._trains_on(env) and self.trainer.observation is not None:
            self.trainer.restart_episodes()  # the episode that training was in is over
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
            return self.trainer.envs.spaces
        except InputError as error:
            log.warning(
                "simbav2: the action bounds of %s are unknown (%s); actions are in [-1, 1] and observations flat",
                printable(self.task.id),
                error,
            )
            return vectors

    @property
    def source(self) -> Any:
        """What environments are made from."""
        return self.trainer.source

    def save(self, folder: str | Path) -> None:
        """Write networks, optimisers and statistics (not the replay) to a new folder, all or nothing."""
        checkpoint.save(self.trainer.checkpoint(episodes=False), Path(folder))

    @classmethod
    def load(cls, folder: str | Path, env: Any = None) -> Agent:
        """An agent from what `save` or a run wrote; `env` where it is to continue in another environment."""
        saved = rotation.load(Path(folder))
        agent = cls.from_checkpoint(saved, env)
        agent.trainer.restore(saved)
        return agent

    def _trains_on(self, env: Any) -> bool:
        return isinstance(env, gym.Env | VectorEnv) and env is self.source

    @contextmanager
    def _evaluation_envs(self, env: Any, seed: int | None = None) -> Iterator[Envs]:
        envs = self.trainer.make_evaluation_envs(seed, env)
        try:
            yield envs
        finally:
            if not isinstance(env, gym.Env | VectorEnv):  # that is the user's own
                envs.close()


SimbaV2 = Agent  # its other name
