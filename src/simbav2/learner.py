"""One frozen state, two compiled functions: `act` and `learn`.

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

from simbav2 import losses
from simbav2.config import Config, LinearDecay
from simbav2.networks.build import Networks, build
from simbav2.networks.spherical import project
from simbav2.types import Array, Normalizer, Params, Transition


class Trained(NamedTuple):
    """Parameters and the state of their optimiser."""

    params: Params
    optimizer: Any


class LearnerState(NamedTuple):
    actor: Trained
    critic: Trained
    target: Params  # an average of projected critics, itself not projected
    log_temperature: Trained
    updates: Array  # scalar int32
    key: Array


ADAM = optax.scale_by_adam(b1=0.9, b2=0.999)


def _start(params: Params) -> Trained:
    return Trained(params, ADAM.init(params))


def _step(trained: Trained, gradient: Params, rate: Array) -> Trained:
    """One step of Adam and, for what lives on the sphere, the way back to it."""
    direction, optimizer = ADAM.update(gradient, trained.optimizer)
    moved = jax.tree.map(lambda p, d: p - rate * d, trained.params, direction)
    return Trained(project(moved), optimizer)


def learning_rate(decay: LinearDecay, updates: Array, total: int) -> Array:
    """Linear over the run's `total` updates, constant after them."""
    return decay.initial + (decay.final - decay.initial) * jnp.minimum(updates / total, 1.0)


class Learner:
    """The compiled functions for one config and one pair of spaces; holds no state."""

    def __init__(self, config: Config, observation_size: int, action_size: int) -> None:
        self.config = config
        self.networks: Networks = build(config, observation_size, action_size)
        self.init = jax.jit(self._init)
        self.act = jax.jit(self._act)
        self.learn = jax.jit(self._learn, donate_argnums=0)
        self.q_values = jax.jit(self._q_values)

    def _init(self, key: Array) -> LearnerState:
        init_key, learn_key = jax.random.split(key)
        actor, critic = self.networks.init(init_key)
        return LearnerState(
            actor=_start(actor),
            critic=_start(critic),
            target=jax.tree.map(jnp.copy, critic),
            # Typed outright: a weak type would change with the first update, and `learn` be compiled twice.
            log_temperature=_start(jnp.full((), math.log(self.config.policy.initial_temperature), jnp.float32)),
            updates=jnp.zeros((), jnp.int32),
            key=learn_key,
        )

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

    def _update(self, state: LearnerState, batch: Transition) -> tuple[LearnerState, dict[str, Array]]:
        config, networks = self.config, self.networks
        rate = learning_rate(config.learning_rate, state.updates, config.updates)
        actor_key, target_key = jax.random.split(jax.random.fold_in(state.key, state.updates))
        target_entropy = config.policy.target_entropy * networks.action_size

        temperature = jnp.exp(state.log_temperature.params)
        (actor_loss, outcome), gradient = jax.value_and_grad(
            lambda params: losses.actor_loss(networks, params, state.critic.params, temperature, batch, actor_key),
            has_aux=True,
        )(state.actor.params)
        actor = _step(state.actor, gradient, rate)

        gradient = jax.grad(losses.temperature_loss)(state.log_temperature.params, outcome.entropy, target_entropy)
        log_temperature = _step(state.log_temperature, gradient, rate)
        temperature = jnp.exp(log_temperature.params)

        target = losses.critic_target(networks, actor.params, state.target, temperature, batch, target_key)
        critic_loss, gradient = jax.value_and_grad(
            lambda params: losses.critic_loss(networks, params, target, batch)
        )(state.critic.params)
        critic = _step(state.critic, gradient, rate)

        metrics = {
            "actor_loss": actor_loss,
            "critic_loss": critic_loss,
            "entropy": outcome.entropy,
            "q": outcome.q,
            "temperature": temperature,
            "learning_rate": rate,
        }
        state = LearnerState(
            actor=actor,
            critic=critic,
            target=optax.incremental_update(critic.params, state.target, config.tau),
            log_temperature=log_temperature,
            updates=state.updates + 1,
            key=state.key,
        )
        return state, metrics
