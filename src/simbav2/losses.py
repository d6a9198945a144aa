"""The losses of soft actor-critic, as pure functions of parameters, a normalised batch and a key.

`temperature` and `entropy` are None for a policy without entropy: then the same losses are those of DDPG and TD3.
`Variables` are the networks that a loss only reads; the parameters it is differentiated by come on their own.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simbav2.config import BehaviorCloning, Config, MaximizeReturn, NoTarget, ReturnPlusBC
from simbav2.networks.build import Networks
from simbav2.networks.critics import Bootstrap
from simbav2.networks.policies import Actions
from simbav2.types import Array, Params, Transition, Variables


class ActorOutcome(NamedTuple):
    q: Array  # scalar, averaged over the batch
    entropy: Array | None  # scalar
    batch_stats: Params  # the running statistics after the pass


def actor_pass(config: Config, networks: Networks, actor: Variables, batch: Transition) -> tuple[Actions, Params]:
    """Actions for the batch (and its next observations, where the two are joined), by the batch's statistics."""
    observation = batch.observation
    if config.actor.joint_batch:
        observation = jnp.concatenate([observation, batch.next_observation])
    return networks.actions(actor, observation, training=True)


def actor_loss(
    config: Config,
    networks: Networks,
    actor: Params,
    batch_stats: Params,
    critic: Variables,
    temperature: Array | None,
    batch: Transition,
    key: Array,
    share: Array | float = 1.0,
) -> tuple[Array, ActorOutcome]:
    """E[alpha log pi(a|o) - Q(o, a)], with `share` of what the objective adds about the batch's actions."""
    actions, batch_stats = actor_pass(config, networks, Variables(actor, batch_stats), batch)
    action, log_prob = actions.sample_and_log_prob(key)
    rows = len(batch.reward)
    if len(action) > rows:  # the joined half takes part in the batch statistics alone
        action, log_prob = action[:rows], None if log_prob is None else log_prob[:rows]
    q = networks.q(critic, batch.observation, action, dropout_key(config, key))
    match config.critic.actor_q:
        case "min":
            q = q.min(axis=0)
        case "mean":
            q = q.mean(axis=0)
        case "first":
            q = q[0]
    if log_prob is None or temperature is None:
        loss, entropy = -jnp.mean(q), None
    else:
        loss, entropy = jnp.mean(temperature * log_prob - q), -jnp.mean(log_prob)
    outcome = ActorOutcome(jnp.mean(q), entropy, batch_stats)
    match config.objective:
        case MaximizeReturn():
            return loss, outcome
        case ReturnPlusBC(weight):
            # In units of Q, so that one weight serves all scales of reward.
            unit = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
            return loss + share * weight * unit * jnp.mean((action - batch.action) ** 2), outcome
        case BehaviorCloning():
            return jnp.mean((action - batch.action) ** 2), outcome


def temperature_loss(
    log_temperature: Array, entropy: Array, target_entropy: float, factor: str = "alpha"
) -> Array:
    """alpha (H - H*): more entropy than wanted lowers the temperature."""
    temperature = jnp.exp(log_temperature) if factor == "alpha" else log_temperature
    return temperature * (entropy - target_entropy)


class NextAction(NamedTuple):
    """The policy's action at the next observation, and what its entropy is worth."""

    action: Array  # [B, A]
    bonus: Array | None  # [B]


def next_action(
    networks: Networks, actor: Variables, temperature: Array | None, batch: Transition, key: Array
) -> NextAction:
    actions, _ = networks.actions(actor, batch.next_observation)
    action, log_prob = actions.next_action(key)
    return NextAction(action, None if log_prob is None or temperature is None else -temperature * log_prob)


def bootstrap_target(
    config: Config, networks: Networks, target: Variables, following: NextAction, batch: Transition, key: Array
) -> Bootstrap:
    """What the soft Bellman target is made from, by the target network."""
    dropout = dropout_key(config, key)
    if config.critic.joint_batch:
        _, outputs, _ = joint_pass(networks, target, following, batch, dropout)
    else:
        outputs, _ = networks.critic.apply(target, batch.next_observation, following.action, dropout)
    return _bootstrap(config, networks, outputs, following, batch, key)


def joint_pass(
    networks: Networks, critic: Variables, following: NextAction, batch: Transition, dropout: Array | None
) -> tuple[Array, Array, Params]:
    """Outputs at (o, a) and at (o', a') of one pass over both, and the running statistics after it."""
    outputs, batch_stats = networks.critic.apply(
        critic,
        jnp.concatenate([batch.observation, batch.next_observation]),
        jnp.concatenate([batch.action, following.action]),
        dropout,
        training=True,
    )
    rows = len(batch.reward)
    return outputs[:, :rows], outputs[:, rows:], batch_stats


def _bootstrap(
    config: Config, networks: Networks, outputs: Array, following: NextAction, batch: Transition, key: Array
) -> Bootstrap:
    subset, critics = config.critic.target_subset, len(outputs)
    if subset is not None and subset < critics:
        outputs = outputs[jax.random.choice(jax.random.fold_in(key, 1), critics, (subset,), replace=False)]
    return Bootstrap(networks.value.combine(outputs), batch.reward, batch.discount, following.bonus)


class CriticOutcome(NamedTuple):
    bootstrap: Bootstrap
    batch_stats: Params  # the running statistics after the pass


def critic_loss(
    config: Config,
    networks: Networks,
    critic: Params,
    batch_stats: Params,
    bootstrap: Bootstrap | None,
    following: NextAction,
    batch: Transition,
    key: Array,
) -> tuple[Array, CriticOutcome]:
    """Averaged over the batch; all critics learn the same target. Without `bootstrap` they make it themselves."""
    dropout = None if (key_ := dropout_key(config, key)) is None else jax.random.fold_in(key_, 1)
    variables = Variables(critic, batch_stats)
    if config.critic.joint_batch or isinstance(config.target, NoTarget):
        outputs, next_outputs, batch_stats = joint_pass(networks, variables, following, batch, dropout)
        if bootstrap is None:
            next_outputs = jax.lax.stop_gradient(next_outputs)
            bootstrap = _bootstrap(config, networks, next_outputs, following, batch, key)
    else:
        outputs, batch_stats = networks.critic.apply(
            variables, batch.observation, batch.action, dropout, training=True
        )
    assert bootstrap is not None
    per_critic = jnp.mean(networks.value.loss(outputs, networks.value.target(bootstrap)), axis=1)
    combined = jnp.sum(per_critic) if config.critic.loss == "sum" else jnp.mean(per_critic)
    return combined, CriticOutcome(bootstrap, batch_stats)


def dropout_key(config: Config, key: Array) -> Array | None:
    """None where the critics have no dropout."""
    return jax.random.fold_in(key, 2) if getattr(config.critic.architecture, "dropout", 0) else None
