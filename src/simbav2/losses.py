"""The losses of soft actor-critic, as pure functions of parameters, a normalised batch and a key.

`temperature` and `entropy` are None for a policy without entropy: then the same losses are those of DDPG.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simbav2.config import BehaviorCloning, MaximizeReturn, Objective, ReturnPlusBC
from simbav2.networks.build import Networks
from simbav2.networks.critics import Bootstrap
from simbav2.types import Array, Params, Transition


class ActorOutcome(NamedTuple):
    q: Array  # scalar, averaged over the batch
    entropy: Array | None  # scalar


def actor_loss(
    networks: Networks,
    actor: Params,
    critic: Params,
    temperature: Array | None,
    batch: Transition,
    key: Array,
    objective: Objective,
    share: Array | float,
) -> tuple[Array, ActorOutcome]:
    """E[alpha log pi(a|o) - min Q(o, a)], with `share` of what the objective adds about the batch's actions."""
    action, log_prob = networks.actions(actor, batch.observation).sample_and_log_prob(key)
    q = networks.q(critic, batch.observation, action).min(axis=0)
    if log_prob is None or temperature is None:
        loss, entropy = -jnp.mean(q), None
    else:
        loss, entropy = jnp.mean(temperature * log_prob - q), -jnp.mean(log_prob)
    outcome = ActorOutcome(jnp.mean(q), entropy)
    match objective:
        case MaximizeReturn():
            return loss, outcome
        case ReturnPlusBC(weight):
            # In units of Q, so that one weight serves all scales of reward.
            unit = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
            return loss + share * weight * unit * jnp.mean((action - batch.action) ** 2), outcome
        case BehaviorCloning():
            return jnp.mean((action - batch.action) ** 2), outcome


def temperature_loss(log_temperature: Array, entropy: Array, target_entropy: float) -> Array:
    """alpha (H - H*): more entropy than wanted lowers the temperature."""
    return jnp.exp(log_temperature) * (entropy - target_entropy)


def bootstrap_target(
    networks: Networks, actor: Params, target: Params, temperature: Array | None, batch: Transition, key: Array
) -> Bootstrap:
    """What the soft Bellman target is made from: the member with the smaller mean (clipped double Q)."""
    action, log_prob = networks.actions(actor, batch.next_observation).sample_and_log_prob(key)
    outputs = networks.critic.apply(target, batch.next_observation, action)
    smallest = jnp.argmin(networks.value.mean(outputs), axis=0)
    output = jnp.take_along_axis(outputs, smallest[None, :, None], axis=0)[0]
    bonus = None if log_prob is None or temperature is None else -temperature * log_prob
    return Bootstrap(output, batch.reward, batch.discount, bonus)


def critic_loss(networks: Networks, critic: Params, target: Array, batch: Transition) -> Array:
    """Averaged over the batch, summed over the members, all of which learn the same target."""
    outputs = networks.critic.apply(critic, batch.observation, batch.action)
    return jnp.sum(jnp.mean(networks.value.loss(outputs, target), axis=1))
