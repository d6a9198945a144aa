"""Diagnostics of training (paper, section 5.2 and appendix "Training Stability"), on a batch that no update sees.

Every norm is weighted: a layer counts by its share of the parameters of its group, the encoder (up to the last
block) or the predictor (the heads). Nothing here changes the learner's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simbav2.config import Config
from simbav2.learner import Learner, LearnerState
from simbav2.networks.build import build
from simbav2.networks.sphere import columns
from simbav2.types import Array, Normalizer, Params, Transition, Variables

GROUPS = ("encoder", "predictor")


def compute(learner: Learner, state: LearnerState, normalizer: Normalizer, raw: Transition) -> dict[str, Array]:
    """By name, such as `critic/encoder/gradient_norm`; all are scalars."""
    networks, batch = learner.networks, normalizer.transition(raw)
    actor, critic = state.actor.params, state.critic.params
    actor_key, target_key = jax.random.split(jax.random.fold_in(state.key, state.updates))
    _, actor_gradient = learner.actor_gradient(state, state.critic, batch, actor_key)
    (_, outcome), critic_gradient = learner.critic_gradient(state, batch, target_key)

    seen_in_actor = look(networks.policy, state.actor.variables, batch.observation)
    seen_in_critics = [
        look(networks.critic.member, Variables(*member), batch.observation, batch.action)
        for member in zip(critic, state.critic.batch_stats or [None] * len(critic), strict=True)
    ]
    features = {
        f"{number}/{layer}": output
        for number, seen in enumerate(seen_in_critics)
        for layer, output in seen.features.items()
    }
    found = {
        **_named("actor", norms(actor, actor_gradient, seen_in_actor.features)),
        **_named("critic", norms(_numbered(critic), _numbered(critic_gradient), features)),
        "actor/dead_units": dead(seen_in_actor.units),
        "critic/dead_units": dead([units for seen in seen_in_critics for units in seen.units]),
        **networks.value.watch(outcome.bootstrap),
    }
    spherical = columns((actor, critic))
    if spherical:
        found["column_error"] = jnp.max(jnp.stack([_distance_from_sphere(kernel) for kernel in spherical]))
    return found


def _named(prefix: str, values: dict[str, Array]) -> dict[str, Array]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _numbered(members: tuple[Params, ...]) -> Params:
    return {str(number): member for number, member in enumerate(members)}


def _distance_from_sphere(kernel: Array) -> Array:
    return jnp.max(jnp.abs(jnp.linalg.norm(kernel, axis=-2) - 1))


def norms(params: Params, gradient: Params, features: dict[str, Array]) -> dict[str, Array]:
    """sqrt(sum w_i |.|^2) of features, parameters and gradients, and the same of the ratios |g_i| / |theta_i|."""
    parameters, gradients = layers(params), layers(gradient)
    found: dict[str, Array] = {}
    for group in GROUPS:
        sizes = {
            layer: sum(array.size for array in arrays) for layer, arrays in parameters.items() if group in layer
        }
        total = sum(sizes.values())

        def weighted(square: Callable[[str], Array], sizes: dict[str, int] = sizes, total: int = total) -> Array:
            return jnp.sqrt(sum(size / total * square(layer) for layer, size in sizes.items()))

        found[f"{group}/feature_norm"] = weighted(lambda layer: jnp.mean(jnp.sum(features[layer] ** 2, axis=-1)))
        found[f"{group}/parameter_norm"] = weighted(lambda layer: _square(parameters[layer]))
        found[f"{group}/gradient_norm"] = weighted(lambda layer: _square(gradients[layer]))
        found[f"{group}/effective_learning_rate"] = weighted(
            lambda layer: _square(gradients[layer]) / _square(parameters[layer])
        )
    return found


def _square(arrays: list[Array]) -> Array:
    return sum(jnp.sum(array * array) for array in arrays)


# Inside a network. A layer is a module with parameters of its own; its name is its path (`encoder/UnitDense_0`).


class Seen(NamedTuple):
    features: dict[str, Array]  # layer -> its output [B, size]
    units: list[Array]  # [B, size], the relu units of each block or hidden layer


def layers(params: Params) -> dict[str, list[Array]]:
    """The arrays of every layer."""
    found: dict[str, list[Array]] = {}

    def walk(node: Mapping[str, Any], path: tuple[str, ...]) -> None:
        own = [value for value in node.values() if not isinstance(value, Mapping)]
        if own:
            found["/".join(path)] = jax.tree.leaves(own)
        for name, value in node.items():
            if isinstance(value, Mapping):
                walk(value, (*path, name))

    walk(params, ())
    return found


def look(module: Any, variables: Variables, *inputs: Array) -> Seen:
    """Apply a network and note what its layers give."""
    params = variables.params
    _, seen = module.apply(
        variables.collections, *inputs, capture_intermediates=True, mutable=["intermediates", "units"]
    )
    outputs = seen["intermediates"]

    def output(layer: str) -> Array:
        node: Any = outputs
        for name in layer.split("/"):
            node = node[name]
        return node["__call__"][0]

    return Seen({layer: output(layer) for layer in layers(params)}, jax.tree.leaves(seen.get("units", {})))


def dead(units: list[Array]) -> Array:
    """The share of units that are silent for the whole batch."""
    silent = jnp.concatenate([jnp.all(x <= 0, axis=0) for x in units])
    return jnp.mean(silent)


# Sizes. ---------------------------------------------------------------------------------------------------


class ParameterCounts(NamedTuple):
    actor: int
    critic: int  # of one member
    critic_hidden: int  # matrices between hidden layers alone, whatever the task: what the paper counts


def parameter_counts(config: Config, observation_size: int, action_size: int) -> ParameterCounts:
    def shapes(observation_size: int, action_size: int) -> tuple[list[Array], list[Array]]:
        networks = build(config, observation_size, action_size)
        actor, critic = jax.eval_shape(networks.init, jax.random.PRNGKey(0))
        return jax.tree.leaves(actor.params), jax.tree.leaves(critic.params[0])

    actor, critic = shapes(observation_size, action_size)
    hidden = {config.critic.width, 4 * config.critic.width}
    # With one-dimensional spaces no matrix of the input looks like one between hidden layers.
    between = [array for array in shapes(1, 1)[1] if len(array.shape) == 2 and set(array.shape) <= hidden]
    return ParameterCounts(
        *(sum(math.prod(array.shape) for array in arrays) for arrays in (actor, critic, between))
    )
