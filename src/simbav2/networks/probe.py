"""A look inside a network while it computes: the features of every layer and its relu units.

A layer is a module with parameters of its own; its name is its path, such as `encoder/UnitDense_0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from simbav2.types import Array, Params, Variables


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


def look(module: nn.Module, variables: Variables, *inputs: Array) -> Seen:
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
