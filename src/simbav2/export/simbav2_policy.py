"""A policy that `simbav2 export --format numpy` wrote, for machines that have nothing but NumPy.

    from simbav2_policy import Policy
    policy = Policy("policy.npz")
    action = policy(observation)    # one flat observation [O], or a batch [N, O], as the environment gives it

Actions are deterministic and in the environment's own units; `policy.metadata` says what was trained and how.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

Kept = list[Any]  # a stack of values for residual connections


def _complement(x: Any, kept: Kept) -> Any:
    missing = np.sqrt(np.maximum(1 - (x * x).sum(axis=-1, keepdims=True), 0) + np.float32(1e-12))
    return np.concatenate([x, missing], axis=-1)


def _unit(x: Any, kept: Kept) -> Any:
    if x.ndim == 1:  # five times as fast as the general case
        return x / max(math.sqrt(x.dot(x)), 1e-8)
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-8)


def _standardize(x: Any, kept: Kept) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))


def _root_mean_square(x: Any, kept: Kept) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))


def _keep(x: Any, kept: Kept) -> Any:
    kept.append(x)
    return x


OPERATIONS: dict[str, Any] = {
    "Center": lambda x, kept, mean: x - mean,
    "Linear": lambda x, kept, kernel, bias: x @ kernel + bias,
    "Relu": lambda x, kept: np.maximum(x, 0),
    "Unit": _unit,
    "Complement": _complement,
    "Standardize": _standardize,
    "RootMeanSquare": _root_mean_square,
    "Keep": _keep,
    "Mix": lambda x, kept, before, new: kept.pop() * before + x * new,
    "Tanh": lambda x, kept: np.tanh(x),
    "Rescale": lambda x, kept, center, reach, low, high: np.minimum(np.maximum(center + reach * x, low), high),
}


class Policy:
    def __init__(self, file: Any) -> None:
        with np.load(file, allow_pickle=False) as data:
            self.metadata: dict[str, Any] = json.loads(str(data["metadata"]))
            self._steps = [
                (OPERATIONS[name], [data[f"{number}.{field}"] for field in fields])
                for number, (name, *fields) in enumerate(json.loads(str(data["program"])))
            ]

    def __call__(self, observation: Any) -> Any:
        x: Any = np.asarray(observation, np.float32)
        kept: Kept = []
        for operation, arrays in self._steps:
            x = operation(x, kept, *arrays)
        return x
