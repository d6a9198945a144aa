"""The three losses of soft actor-critic, as pure functions of parameters, a normalised batch and a key."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from simbav2.networks.build import Networks
from simbav2.types import Array, Params, Transition


class ActorOutcome(NamedTuple):
    entropy: Array  # scalar, averaged over the batch
    q: Array  # scalar


def actor_loss(
    networks: Networks, actor: Params, critic: Params, temperature: Array, batch: Transition, key: Array
) -> tuple[Array, ActorOutcome]:
    """E[alpha log pi(a|o) - min Q(o, a)]."""
    action, log_prob = networks.actions(actor, batch.observation).sample_and_log_prob(key)
    q = networks.q(critic, batch.observation, action).min(axis=0)
    loss = jnp.mean(temperature * log_prob - q)
    return loss, ActorOutcome(entropy=-jnp.mean(log_prob), q=jnp.mean(q))


def temperature_loss(log_temperature: Array, entropy: Array, target_entropy: float) -> Array:
    """alpha (H - H*): more entropy than wanted lowers the temperature."""
    return jnp.exp(log_temperature) * (entropy - target_entropy)


def critic_target(
    networks: Networks, actor: Params, target: Params, temperature: Array, batch: Transition, key: Array
) -> Array:
    """The soft Bellman target, from the member with the smaller mean (clipped double Q)."""
    action, log_prob = networks.actions(actor, batch.next_observation).sample_and_log_prob(key)
    outputs = networks.critic.apply(target, batch.next_observation, action)
    smallest = jnp.argmin(networks.value.mean(outputs), axis=0)
    output = jnp.take_along_axis(outputs, smallest[None, :, None], axis=0)[0]
    return networks.value.target(output, batch.reward, batch.discount, -temperature * log_prob)


def critic_loss(networks: Networks, critic: Params, target: Array, batch: Transition) -> Array:
    """Averaged over the batch, summed over the members, all of which learn the same target."""
    outputs = networks.critic.apply(critic, batch.observation, batch.action)
    return jnp.sum(jnp.mean(networks.value.loss(outputs, target), axis=1))
