"""The update in its plainest form, one formula after the other, to hold the tuned one against.

It shares the networks with the product and nothing else: densities come from `jax.scipy`, Adam from Optax, atoms
are projected by the definition (every atom takes what lies within one spacing), members are looped over.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.stats import norm

from simbav2.config import BehaviorCloning, Categorical, Config, Constant, Gaussian, ReturnPlusBC, SoftTarget
from simbav2.networks.build import Networks
from simbav2.networks.sphere import UnitColumns
from simbav2.types import Transition


class State(NamedTuple):
    actor: Any
    critics: Any
    targets: Any
    log_temperature: Any
    actor_adam: Any
    critic_adam: Any
    temperature_adam: Any


ADAM = optax.scale_by_adam(0.9, 0.999, 1e-8)


def start(actor: Any, critics: Any, log_temperature: Any) -> State:
    return State(
        actor,
        critics,
        critics,
        log_temperature,
        *(ADAM.init(p) for p in (actor, critics)),
        None if log_temperature is None else ADAM.init(log_temperature),
    )


def on_sphere(params: Any) -> Any:
    def column_norms(node: Any) -> Any:
        if isinstance(node, UnitColumns):
            return UnitColumns(node.value / jnp.linalg.norm(node.value, axis=0))
        return node

    return jax.tree.map(column_norms, params, is_leaf=lambda node: isinstance(node, UnitColumns))


def adam(params: Any, adam_state: Any, gradient: Any, rate: Any, weight_decay: float) -> tuple[Any, Any]:
    direction, adam_state = ADAM.update(gradient, adam_state)
    moved = jax.tree.map(lambda p, d: p - rate * (d + weight_decay * p), params, direction)
    return on_sphere(moved), adam_state


def sample(networks: Networks, config: Config, actor: Any, observation: Any, key: Any) -> tuple[Any, Any]:
    """An action and its log-density; none for a policy that is a point."""
    policy = networks.policy.apply({"params": actor}, observation)
    if not isinstance(config.policy, Gaussian):
        return policy.action, None
    std = jnp.exp(policy.log_std)
    x = policy.mean + std * jax.random.normal(key, policy.mean.shape)
    action = jnp.tanh(x)
    log_density = norm.logpdf(x, policy.mean, std) - 2 * (jnp.log(2.0) - x - jnp.logaddexp(0.0, -2 * x))
    return action, log_density.sum(axis=1)


def outputs(networks: Networks, critics: Any, observation: Any, action: Any) -> list[Any]:
    return [networks.critic.member.apply({"params": critic}, observation, action) for critic in critics]


def update(networks: Networks, config: Config, state: State, batch: Transition, at: Any, key: Any) -> State:
    """One update on a normalised batch; `at` counts those before it."""
    actor_key, target_key = jax.random.split(jax.random.fold_in(key, at))
    schedule, decay = config.learning_rate, getattr(config.optimizer, "weight_decay", 0.0)
    if isinstance(schedule, Constant):
        rate = jnp.float32(schedule.rate)
    else:
        rate = schedule.initial + (schedule.final - schedule.initial) * jnp.minimum(at / config.updates, 1.0)
    atoms = None
    if isinstance(config.value, Categorical):
        atoms = np.linspace(config.value.low, config.value.high, config.value.atoms, dtype=np.float32)

    def mean(output: Any) -> Any:
        return output[:, 0] if atoms is None else (jax.nn.softmax(output) * atoms).sum(axis=1)

    # Actor, against the present critics.
    alpha = None if state.log_temperature is None else jnp.exp(state.log_temperature)

    def actor_loss(actor: Any) -> tuple[Any, Any]:
        action, log_density = sample(networks, config, actor, batch.observation, actor_key)
        values = [mean(output) for output in outputs(networks, state.critics, batch.observation, action)]
        smallest = jnp.min(jnp.stack(values), axis=0)
        loss = -smallest.mean() if log_density is None else (alpha * log_density - smallest).mean()
        error = ((action - batch.action) ** 2).mean()
        if isinstance(config.objective, ReturnPlusBC):
            share = 1 - at / config.online_updates
            unit = jax.lax.stop_gradient(jnp.abs(smallest).mean())
            loss += share * config.objective.weight * unit * error
        if isinstance(config.objective, BehaviorCloning):
            loss = error
        return loss, None if log_density is None else -log_density.mean()

    gradient, entropy = jax.grad(actor_loss, has_aux=True)(state.actor)
    actor, actor_adam = adam(state.actor, state.actor_adam, gradient, rate, decay)

    # Temperature: alpha (H - H*), by hand.
    log_temperature, temperature_adam = state.log_temperature, state.temperature_adam
    if alpha is not None:
        gradient = alpha * (entropy - networks.temperature.target_entropy)
        log_temperature, temperature_adam = adam(log_temperature, temperature_adam, gradient, rate, decay)
        alpha = jnp.exp(log_temperature)

    # Critics, with the new actor and temperature.
    action, log_density = sample(networks, config, actor, batch.next_observation, target_key)
    following = jnp.stack(outputs(networks, state.targets, batch.next_observation, action))
    chosen = jnp.argmin(jnp.stack([mean(output) for output in following]), axis=0)
    following = following[chosen, jnp.arange(len(chosen))]
    bonus = 0.0 if log_density is None else -alpha * log_density[:, None]
    reward, discount = batch.reward[:, None], batch.discount[:, None]
    if atoms is None:
        target = reward + discount * (following + bonus)
    else:
        places = jnp.clip(reward + discount * (atoms + bonus), atoms[0], atoms[-1])
        spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
        near = jnp.maximum(1 - jnp.abs(places[:, :, None] - atoms) / spacing, 0.0)  # [B, from, to]
        target = jnp.einsum("bf,bft->bt", jax.nn.softmax(following), near, precision="highest")

    def critic_loss(critics: Any) -> Any:
        total = 0.0
        for output in outputs(networks, critics, batch.observation, batch.action):
            if atoms is None:
                total += ((output - target) ** 2).sum(axis=1).mean()
            else:
                total -= (target * jax.nn.log_softmax(output)).sum(axis=1).mean()
        return total

    gradient = jax.grad(critic_loss)(state.critics)
    critics, critic_adam = adam(state.critics, state.critic_adam, gradient, rate, decay)

    # Target.
    assert isinstance(config.target, SoftTarget)
    tau = config.target.tau
    targets = jax.tree.map(lambda old, new: (1 - tau) * old + tau * new, state.targets, critics)
    return State(actor, critics, targets, log_temperature, actor_adam, critic_adam, temperature_adam)
