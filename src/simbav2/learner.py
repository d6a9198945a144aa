"""One frozen state, two compiled functions that a run lives by: `act` and `learn`.

`learn` takes K updates in one dispatch and owns the state it is given (the old one is donated). The order of one
update is actor, temperature, critic, target.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from simbav2 import backend, losses  # noqa: F401  (`backend` sets XLA up)
from simbav2.config import Config, Constant, HardTarget, LinearDecay, Objective, SoftTarget
from simbav2.networks.build import Networks, build
from simbav2.networks.sphere import project
from simbav2.types import Array, Normalizer, Params, Transition


class TrainState(NamedTuple):
    """Parameters and the state of their optimiser."""

    params: Params
    optimizer: Any


class LearnerState(NamedTuple):
    actor: TrainState
    critic: TrainState
    target: Params  # an average of projected critics, itself not projected
    log_temperature: TrainState | None  # None where the policy has no entropy
    updates: Array  # scalar int32
    key: Array

    @property
    def temperature(self) -> Array | None:
        return None if self.log_temperature is None else jnp.exp(self.log_temperature.params)


_B1, _B2, _EPSILON = 0.9, 0.999, 1e-8
ADAM = optax.scale_by_adam(_B1, _B2, _EPSILON)


def _start(params: Params) -> TrainState:
    return TrainState(params, ADAM.init(params))


def apply_gradient(train_state: TrainState, gradient: Params, rate: Array, weight_decay: float) -> TrainState:
    """One step of Adam (with decoupled weight decay) and, for what lives on the sphere, the way back to it.

    The same numbers as `ADAM.update`, but with the corrections of the start folded into two scalars: the step
    is bound by memory, and this leaves one division per weight instead of three.
    """
    before = train_state.optimizer
    count = optax.safe_increment(before.count)
    mu = jax.tree.map(lambda m, g: _B1 * m + (1 - _B1) * g, before.mu, gradient)
    nu = jax.tree.map(lambda v, g: _B2 * v + (1 - _B2) * (g * g), before.nu, gradient)
    times = count.astype(jnp.float32)
    correction = jnp.sqrt(1 - _B2**times)
    step, epsilon = rate * correction / (1 - _B1**times), _EPSILON * correction
    kept = 1 - rate * weight_decay

    def move(p: Array, m: Array, v: Array) -> Array:
        return (kept * p if weight_decay else p) - step * m / (jnp.sqrt(v) + epsilon)

    moved = jax.tree.map(move, train_state.params, mu, nu)
    return TrainState(project(moved), before._replace(count=count, mu=mu, nu=nu))


def learning_rate(part: LinearDecay | Constant, updates: Array, total: int) -> Array:
    match part:
        case LinearDecay(initial, final):
            # Over the run's `total` updates; constant after them.
            return initial + (final - initial) * jnp.minimum(updates / total, 1.0)
        case Constant(rate):
            return jnp.full((), rate)


def bc_weight(config: Config, updates: Array) -> Array:
    """What is left of the cloning term: all of it on recorded data, then less and less to the last decision."""
    return 1.0 - jnp.clip((updates - config.offline_updates) / config.online_updates, 0.0, 1.0)


def update_target(part: SoftTarget | HardTarget, target: Params, critic: Params, updates: Array) -> Params:
    """The target after `updates` updates of the critic."""
    match part:
        case SoftTarget(tau):
            return optax.incremental_update(critic, target, tau)
        case HardTarget(every):
            return optax.periodic_update(critic, target, updates, every)


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
        return LearnerState(
            actor=_start(actor),
            critic=_start(critic),
            target=jax.tree.map(jnp.copy, critic),
            log_temperature=self._start_temperature(),
            updates=jnp.zeros((), jnp.int32),
            key=learn_key,
        )

    def _start_temperature(self) -> TrainState | None:
        temperature = self.networks.temperature
        if temperature is None:
            return None
        # Typed outright: a weak type would change with the first update, and `learn` be compiled twice.
        return _start(jnp.full((), math.log(temperature.initial), jnp.float32))

    def _reset(self, state: LearnerState) -> LearnerState:
        """Networks and optimisers anew, other ones at every reset; the schedules go on."""
        fresh = self._init(jax.random.fold_in(state.key, state.updates))
        return fresh._replace(updates=state.updates, key=state.key)

    def _act(
        self,
        actor: Params,
        normalizer: Normalizer,
        observation: Array,
        key: Array,
        decision: Array,
        noise: Array,
    ) -> Array:
        """Actions [N, A] for raw observations [N, O]; `noise` 1 explores, 0 is deterministic."""
        actions = self.networks.actions(actor, normalizer.observation(observation))
        return actions.sample(jax.random.fold_in(key, decision), noise)

    def _q_values(self, critic: Params, normalizer: Normalizer, observation: Array, action: Array) -> Array:
        return self.networks.q(critic, normalizer.observation(observation), action)

    def _learn(
        self, state: LearnerState, normalizer: Normalizer, batches: Transition
    ) -> tuple[LearnerState, dict[str, Array]]:
        """One update per entry of `batches` [K, B, ...]; metrics are averaged over them."""
        state, metrics = jax.lax.scan(self._update, state, normalizer.transition(batches))
        return state, jax.tree.map(partial(jnp.mean, axis=0), metrics)

    def objective(self, updates: Array) -> tuple[Objective, Array]:
        """What the actor seeks, and how much of what it adds to return is left."""
        return self.config.objective, bc_weight(self.config, updates)

    def _update(self, state: LearnerState, batch: Transition) -> tuple[LearnerState, dict[str, Array]]:
        config, networks = self.config, self.networks
        rate = learning_rate(config.learning_rate, state.updates, config.updates)
        actor_key, target_key = jax.random.split(jax.random.fold_in(state.key, state.updates))

        (actor_loss, outcome), gradient = jax.value_and_grad(losses.actor_loss, argnums=1, has_aux=True)(
            *(networks, state.actor.params, state.critic.params, state.temperature, batch, actor_key),
            *self.objective(state.updates),
        )
        actor = apply_gradient(state.actor, gradient, rate, config.weight_decay)
        metrics = {"actor_loss": actor_loss, "q": outcome.q, "learning_rate": rate}

        if networks.temperature is not None:
            assert state.log_temperature is not None
            gradient = jax.grad(losses.temperature_loss)(
                state.log_temperature.params, outcome.entropy, networks.temperature.target_entropy
            )
            # The authors' Simba decays its log-temperature as well.
            log_temperature = apply_gradient(state.log_temperature, gradient, rate, config.weight_decay)
            state = state._replace(log_temperature=log_temperature)
            metrics |= {"entropy": outcome.entropy, "temperature": state.temperature}

        bootstrap = losses.bootstrap_target(
            networks, actor.params, state.target, state.temperature, batch, target_key
        )
        critic_loss, gradient = jax.value_and_grad(losses.critic_loss, argnums=1)(
            networks, state.critic.params, networks.value.target(bootstrap), batch
        )
        critic = apply_gradient(state.critic, gradient, rate, config.weight_decay)

        updates = state.updates + 1
        target = update_target(config.target, state.target, critic.params, updates)
        state = state._replace(actor=actor, critic=critic, target=target, updates=updates)
        return state, {**metrics, "critic_loss": critic_loss}
