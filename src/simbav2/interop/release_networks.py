"""The files and networks in a checkpoint of the authors' code: sizes, names and arrays, checked before use.

The files are Flax's MessagePack. Flax could read them, but trusts them; here an array must match its header, and
nothing in a file can name a type of its own choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import msgpack
import numpy as np
from numpy.typing import NDArray

from simbav2.checkpoint.files import damage, length
from simbav2.errors import CheckpointError, InputError
from simbav2.learner import TrainState

_STACKED = "VmapSimbaV2Critic_0"  # above the tree of several critics, whose arrays have a leading axis
_MOST = 64  # layers or critics; a forged file with more would take hours to plan
LIMIT = 4 << 30  # bytes
_ARRAY, _SCALAR = 1, 3  # Flax's codes
_KINDS = {np.dtype(kind).name: np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, np.uint32)}
Tree = TypeVar("Tree")


def file_of(folder: Path, part: str) -> Path:
    """The newest file of a part."""
    found = [
        path for path in (folder / part).glob("checkpoint_*") if re.fullmatch(r"checkpoint_\d{1,12}", path.name)
    ]
    if not found:
        raise InputError(
            f"{folder} holds no checkpoint of the authors' code: {part}/checkpoint_0/checkpoint is missing"
        )
    return max(found, key=lambda path: int(path.name.removeprefix("checkpoint_"))) / "checkpoint"


def read_msgpack(path: Path) -> dict[str, Any]:
    if length(path) > LIMIT:
        raise CheckpointError(f"{path} has more than {LIMIT:,} bytes; expected a checkpoint of the authors' code")
    with damage(path):
        data = msgpack.unpackb(path.read_bytes(), ext_hook=_extension, strict_map_key=True)
        if not isinstance(data, dict):
            raise ValueError("expected a mapping")
    return data


def _extension(code: int, data: bytes) -> NDArray[Any]:
    if code not in (_ARRAY, _SCALAR):
        raise ValueError(f"it holds data of the unknown kind {code}")
    shape, kind, buffer = msgpack.unpackb(data)
    if kind not in _KINDS:
        raise ValueError(f"it holds an array of {kind!r}")
    dtype = _KINDS[kind]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"it holds an array of shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(buffer):
        raise ValueError(f"an array of {kind}{shape} has {len(buffer):,} bytes")
    return np.frombuffer(buffer, dtype).reshape(shape)


class Network(NamedTuple):
    """One of the networks: its parameters, and the state of its optimiser where it is trained."""

    file: Path
    tree: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, part: str) -> Network:
        file = file_of(folder, part)
        return cls(file, read_msgpack(file))

    @property
    def updates(self) -> NDArray[np.int32]:
        with damage(self.file):
            return _count(self.tree["update_step"])

    def sizes(self) -> Sizes:
        with damage(self.file):
            params, stacked = _unstacked(self.tree["params"])
            embedding = _array(params, "embedder/w/hyper_dense/kernel")
            inputs, width = embedding.shape[-2:]
            depth, members = len(params["encoder"]), len(embedding) if stacked else 1
            if max(depth, members) > _MOST:
                raise ValueError(f"it has {depth} layers and {members} critics; at most {_MOST} are accepted")
            # One input is the constant that is appended.
            return Sizes(inputs - 1, width, depth, members)

    def atoms(self) -> int:
        with damage(self.file):
            return _array(_unstacked(self.tree["params"])[0], "predictor/w2/hyper_dense/kernel").shape[-1]

    def trained(self, planned: Any, names: Mapping[str, str]) -> TrainState:
        with damage(self.file):
            adam = _adam(self.tree["opt_state"])
            optimizer = planned.optimizer._replace(
                count=_count(adam["count"]),
                mu=_fill(planned.params, adam["mu"], names),
                nu=_fill(planned.params, adam["nu"], names),
            )
        return TrainState(self.params(planned.params, names), optimizer)

    def params(self, planned: Tree, names: Mapping[str, str]) -> Tree:
        with damage(self.file):
            return _fill(planned, self.tree["params"], names)


class Sizes(NamedTuple):
    inputs: int
    width: int
    depth: int
    members: int


# Names: ours -> theirs. -----------------------------------------------------------------------------------


def _encoder_names(network: Network) -> dict[str, str]:
    names = {
        "encoder/UnitDense_0/kernel": "embedder/w/hyper_dense/kernel",
        "encoder/Scale_0/vector": "embedder/scaler/scaler",
    }
    for block in range(network.sizes().depth):
        layer, first, second = f"encoder/layers_{block}", 2 * block + 1, 2 * block + 2
        names |= {
            f"encoder/UnitDense_{first}/kernel": f"{layer}/mlp/w1/hyper_dense/kernel",
            f"encoder/Scale_{first}/vector": f"{layer}/mlp/scaler/scaler",
            f"encoder/UnitDense_{second}/kernel": f"{layer}/mlp/w2/hyper_dense/kernel",
            f"encoder/Scale_{second}/vector": f"{layer}/alpha_scaler/scaler",
        }
    return names


def _head_names(ours: str, theirs: str, bias: str) -> dict[str, str]:
    return {
        f"{ours}/UnitDense_0/kernel": f"predictor/{theirs}w1/hyper_dense/kernel",
        f"{ours}/Scale_0/vector": f"predictor/{theirs}scaler/scaler",
        f"{ours}/UnitDense_1/kernel": f"predictor/{theirs}w2/hyper_dense/kernel",
        f"{ours}/UnitDense_1/bias": f"predictor/{bias}",
    }


def actor_names(actor: Network) -> dict[str, str]:
    mean = _head_names("predictor_mean", "mean_", "mean_bias")
    return _encoder_names(actor) | mean | _head_names("predictor_log_std", "std_", "std_bias")


def critic_names(critic: Network) -> dict[str, str]:
    return _encoder_names(critic) | _head_names("predictor", "", "value_bias")


# Trees. ---------------------------------------------------------------------------------------------------


def _unstacked(tree: Any) -> tuple[Mapping[str, Any], bool]:
    """A network's tree, and whether its arrays are of several critics."""
    if not isinstance(tree, Mapping):
        raise ValueError("expected a tree of arrays")
    return (tree[_STACKED], True) if _STACKED in tree else (tree, False)


def _adam(states: Any) -> Mapping[str, Any]:
    """Adam's part of what an optimiser has saved."""
    for state in states.values() if isinstance(states, Mapping) else states:
        if isinstance(state, Mapping) and "mu" in state:
            return state
    raise ValueError("opt_state has no moments of Adam")


def _fill(planned: Tree, tree: Any, names: Mapping[str, str]) -> Tree:
    """`planned` with the arrays of `tree`: all of them, and of the planned shapes."""
    tree, stacked = _unstacked(tree)
    for name in sorted(set(_leaves(tree)) - set(names.values())):
        raise ValueError(f"{name} is unknown")

    def take(path: Any, leaf: Any) -> NDArray[Any]:
        place = jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value")
        member, _, rest = place.partition("/")  # critics are a tuple, so their paths start with a number
        name = names[rest if member.isdigit() else place]
        array = _array(tree, name)
        shape = (len(planned), *leaf.shape) if stacked else leaf.shape  # type: ignore[arg-type]
        if (array.shape, array.dtype) != (shape, leaf.dtype):
            raise ValueError(f"{name} is {array.dtype}{array.shape}, expected {leaf.dtype}{shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
        return array[int(member)] if stacked else array

    return jax.tree_util.tree_map_with_path(take, planned)


def _array(tree: Any, place: str) -> NDArray[Any]:
    for name in place.split("/"):
        if not isinstance(tree, Mapping):
            raise ValueError(f"{place} is missing")
        tree = tree[name]
    if not isinstance(tree, np.ndarray):
        raise ValueError(f"{place} is not an array")
    return tree


def _leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    if not isinstance(tree, Mapping):
        yield prefix.removesuffix("/")
        return
    for name, value in tree.items():
        yield from _leaves(value, f"{prefix}{name}/")


def _count(value: Any) -> NDArray[np.int32]:
    count = np.asarray(value, np.int32)
    if count.shape != () or count < 0:
        raise ValueError(f"{value} is not a count")
    return count
