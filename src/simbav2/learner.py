"""One frozen state and the compiled functions that a run calls: `act` and `learn`.

`learn` takes K updates in one dispatch and owns the state it is given (the old one is donated). SimbaV2's order of
one update is actor, temperature, critic, target; `update_order` and `actor_every` choose another.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from simbav2 import backend, losses  # noqa: F401  (`backend` sets XLA up)
from simbav2.config import (
    Adam,
    AdamW,
    Config,
    Constant,
    CosineDecay,
    HardTarget,
    LinearDecay,
    NoTarget,
    SoftTarget,
)
from simbav2.networks.build import Networks, build
from simbav2.networks.sphere import project
from simbav2.types import Array, Normalizer, Params, Transition, Variables


class TrainState(NamedTuple):
    """Parameters, the state of their optimiser, and the running statistics of batch normalisation."""

    params: Params
    optimizer: Any
    batch_stats: Params = None  # None where there is none

    @property
    def variables(self) -> Variables:
        return Variables(self.params, self.batch_stats)


class LearnerState(NamedTuple):
    actor: TrainState
    critic: TrainState
    target: Params  # an average of projected critics, itself not projected; None without a target network
    log_temperature: TrainState | None  # None where the policy has no entropy
    updates: Array  # scalar int32
    key: Array
    target_actor: Params | None = None  # where the policy has a target network
    actor_metrics: dict[str, Array] | None = None  # of the latest update of an actor that skips updates

    @property
    def temperature(self) -> Array | None:
        return None if self.log_temperature is None else jnp.exp(self.log_temperature.params)


def adam(part: Adam | AdamW) -> optax.GradientTransformation:
    return optax.scale_by_adam(part.b1, part.b2, part.epsilon)


def apply_gradient(
    train_state: TrainState, gradient: Params, rate: Array, part: Adam | AdamW, batch_stats: Params = None
) -> TrainState:
    """One step of the optimiser, and re-projection of the weights that have a norm to keep."""
    step, optimizer = adam(part).update(gradient, train_state.optimizer)
    decay = part.weight_decay if isinstance(part, AdamW) else 0.0

    def move(p: Array, d: Array) -> Array:
        return p - rate * (d + decay * p if decay else d)

    moved = jax.tree.map(move, train_state.params, step)
    return TrainState(project(moved), optimizer, train_state.batch_stats if batch_stats is None else batch_stats)


def learning_rate(part: LinearDecay | CosineDecay | Constant, updates: Array, total: int) -> Array:
    """After so many updates of the network in question; `total` is that of the critic, constant after it."""
    match part:
        case LinearDecay(initial, final):
            return initial + (final - initial) * jnp.minimum(updates / total, 1.0)
        case CosineDecay(initial, final, hold):
            progress = jnp.clip((updates - hold) / max(total - hold, 1), 0.0, 1.0)
            return final + 0.5 * (initial - final) * (1 + jnp.cos(math.pi * progress))
        case Constant(rate):
            return jnp.full((), rate)


def bc_weight(config: Config, updates: Array) -> Array:
    """What is left of the cloning term: all of it on recorded data, then less and less to the last decision."""
    return 1.0 - jnp.clip((updates - config.offline_updates) / config.online_updates, 0.0, 1.0)


def update_target(
    part: SoftTarget | HardTarget | NoTarget, target: Params, online: Params, updates: Array
) -> Params:
    """The target after `updates` updates of the critic."""
    match part:
        case SoftTarget(tau):
            return optax.incremental_update(online, target, tau)
        case HardTarget(every):
            return optax.periodic_update(online, target, updates, every)
        case NoTarget():
            return target


class Learner:
    """The compiled functions for one config and one pair of spaces; holds no state."""

    def __init__(self, config: Config, observation_size: int, action_size: int) -> None:
        self.config = config
        self.networks: Networks = build(config, observation_size, action_size)
        self.init = jax.jit(self._init)
        self.act = jax.jit(self._act)
        self.learn = jax.jit(self._learn, donate_argnums=0)
        self.q_values = jax.jit(self._q_values)
        self.reset = jax.jit(self._reset)

    def _init(self, key: Array) -> LearnerState:
        init_key, learn_key = jax.random.split(key)
        actor, critic = self.networks.init(init_key)
        config = self.config
        with_target = not isinstance(config.target, NoTarget)
        with_target_actor = getattr(config.policy, "target_network", False)
        temperature = self.networks.temperature
        return LearnerState(
            actor=self.start(*actor),
            critic=self.start(*critic),
            target=jax.tree.map(jnp.copy, critic.params) if with_target else None,
            # Typed outright: a weak type would change with the first update, and `learn` be compiled twice.
            log_temperature=temperature
            and self.start(jnp.full((), math.log(temperature.initial), jnp.float32), part=Adam()),
            updates=jnp.zeros((), jnp.int32),
            key=learn_key,
            target_actor=jax.tree.map(jnp.copy, actor.params) if with_target_actor else None,
            actor_metrics=self._no_actor_metrics() if config.actor_every > 1 else None,
        )

    def start(self, params: Params, batch_stats: Params = None, part: Adam | None = None) -> TrainState:
        """Before the first update."""
        return TrainState(params, adam(part or self.config.optimizer).init(params), batch_stats)

    def _no_actor_metrics(self) -> dict[str, Array]:
        names = ["actor_loss", "q"] + (["entropy", "temperature"] if self.networks.temperature else [])
        return {name: jnp.zeros((), jnp.float32) for name in names}

    def _reset(self, state: LearnerState) -> LearnerState:
        """Initialise networks and optimisers again, each time with other weights; schedules continue."""
        fresh = self._init(jax.random.fold_in(state.key, state.updates))
        return fresh._replace(updates=state.updates, key=state.key)

    def _act(
        self,
        actor: Variables,
        normalizer: Normalizer,
        observation: Array,
        key: Array,
        decision: Array,
        noise: Array,
    ) -> Array:
        """Actions [N, A] for raw observations [N, O]; `noise` 1 explores, 0 is deterministic."""
        actions, _ = self.networks.actions(actor, normalizer.observation(observation))
        return actions.sample(jax.random.fold_in(key, decision), noise)

    def _q_values(self, critic: Variables, normalizer: Normalizer, observation: Array, action: Array) -> Array:
        return self.networks.q(critic, normalizer.observation(observation), action)

    def _learn(
        self, state: LearnerState, normalizer: Normalizer, batches: Transition
    ) -> tuple[LearnerState, dict[str, Array]]:
        """One update per entry of `batches` [K, B, ...]; metrics are averaged over them."""
        state, metrics = jax.lax.scan(self._update, state, normalizer.transition(batches))
        return state, jax.tree.map(partial(jnp.mean, axis=0), metrics)

    def _update(self, state: LearnerState, batch: Transition) -> tuple[LearnerState, dict[str, Array]]:
        """One update, in the config's order."""
        actor_key, target_key = jax.random.split(jax.random.fold_in(state.key, state.updates))
        if self.config.update_order == "actor-first":
            state, metrics = self._update_actor(state, state.critic, batch, actor_key)
            state, critic_metrics = self._update_critic(state, batch, target_key)
        else:
            together = self.config.update_order == "together"
            before = state.critic
            state, critic_metrics = self._update_critic(state, batch, target_key)
            state, metrics = self._update_actor(state, before if together else state.critic, batch, actor_key)
        return state._replace(updates=state.updates + 1), {**metrics, **critic_metrics}

    def _update_critic(
        self, state: LearnerState, batch: Transition, key: Array
    ) -> tuple[LearnerState, dict[str, Array]]:
        """The critic's step, and the target's unless it follows the actor."""
        config = self.config
        rate = learning_rate(config.learning_rate, state.updates, config.updates)
        (loss, outcome), gradient = self.critic_gradient(state, batch, key)
        critic = apply_gradient(state.critic, gradient, rate, config.optimizer, outcome.batch_stats)
        state = state._replace(critic=critic)
        if not getattr(config.target, "with_actor", False):
            state = self._update_target(state)
        return state, {"critic_loss": loss, "learning_rate": rate}

    def critic_gradient(self, state: LearnerState, batch: Transition, key: Array) -> Any:
        """((loss, `CriticOutcome`), gradient)."""
        config, networks = self.config, self.networks
        actor = state.actor.variables
        if state.target_actor is not None:
            actor = actor._replace(params=state.target_actor)
        following = losses.next_action(networks, actor, state.temperature, batch, key)
        bootstrap = None
        if state.target is not None:
            target = Variables(state.target, state.critic.batch_stats)
            bootstrap = losses.bootstrap_target(config, networks, target, following, batch, key)
        return jax.value_and_grad(losses.critic_loss, argnums=2, has_aux=True)(
            config, networks, state.critic.params, state.critic.batch_stats, bootstrap, following, batch, key
        )

    def _update_target(self, state: LearnerState) -> LearnerState:
        part, updates = self.config.target, state.updates + 1
        target_actor = state.target_actor
        if target_actor is not None:
            target_actor = update_target(part, target_actor, state.actor.params, updates)
        target = update_target(part, state.target, state.critic.params, updates)
        return state._replace(target=target, target_actor=target_actor)

    def _update_actor(
        self, state: LearnerState, critic: TrainState, batch: Transition, key: Array
    ) -> tuple[LearnerState, dict[str, Array]]:
        """The steps of actor and temperature; in an update that they skip, the metrics of their latest one."""
        every, first = self.config.actor_every, self.config.actor_turn == "first"
        if every == 1:
            return self._step_actor(state, state.updates, critic, batch, key)
        steps = (state.updates + (every - 1 if first else 0)) // every

        def take(_: None) -> tuple[LearnerState, dict[str, Array]]:
            return self._step_actor(small, steps, critic, batch, key)

        def skip(_: None) -> tuple[LearnerState, dict[str, Array]]:
            assert state.actor_metrics is not None
            if not self.config.actor.statistics_when_skipped:
                return small, state.actor_metrics
            moved = losses.actor_pass(self.config, self.networks, state.actor.variables, batch)[1]
            return small._replace(actor=state.actor._replace(batch_stats=moved)), state.actor_metrics

        # What no branch changes stays outside: a conditional copies what it returns.
        moves_target = getattr(self.config.target, "with_actor", False)
        kept = {"critic": state.critic} if moves_target else {"critic": state.critic, "target": state.target}
        small = state if moves_target else state._replace(target=None)
        small = small._replace(actor_metrics=None)
        turn = state.updates % every == (0 if first else every - 1)
        after, metrics = jax.lax.cond(turn, take, skip, None)
        return after._replace(**kept, actor_metrics=metrics), metrics

    def _step_actor(
        self, state: LearnerState, steps: Array, critic: TrainState, batch: Transition, key: Array
    ) -> tuple[LearnerState, dict[str, Array]]:
        config, temperature = self.config, self.networks.temperature
        rate = learning_rate(config.learning_rate, steps, config.updates)
        (loss, outcome), gradient = self.actor_gradient(state, critic, batch, key)
        actor = apply_gradient(state.actor, gradient, rate, config.optimizer, outcome.batch_stats)
        state = state._replace(actor=actor)
        metrics = {"actor_loss": loss, "q": outcome.q}
        if temperature is not None:
            assert state.log_temperature is not None
            gradient = jax.grad(losses.temperature_loss)(
                state.log_temperature.params, outcome.entropy, temperature.target_entropy, temperature.loss
            )
            optimizer = replace(config.optimizer, b1=Adam().b1)
            state = state._replace(
                log_temperature=apply_gradient(state.log_temperature, gradient, rate, optimizer)
            )
            metrics |= {"entropy": outcome.entropy, "temperature": state.temperature}
        if getattr(config.target, "with_actor", False):
            state = self._update_target(state)
        return state, metrics

    def actor_gradient(self, state: LearnerState, critic: TrainState, batch: Transition, key: Array) -> Any:
        """((loss, `ActorOutcome`), gradient)."""
        share = bc_weight(self.config, state.updates)
        return jax.value_and_grad(losses.actor_loss, argnums=2, has_aux=True)(
            *(self.config, self.networks, state.actor.params, state.actor.batch_stats),
            *(critic.variables, state.temperature, batch, key, share),
        )
