"""An agent from a checkpoint of the authors' released code: networks, optimisers and statistics.

The files are Flax's MessagePack. Flax could read them, but trusts them; here an array must match its header, and
nothing in a file can name a type of its own choice. That code saves no replay, so an agent that continues learning
first collects experience with its own policy (`Agent.update`). Sizes are read from the arrays.
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

from simbav2.agent import Agent
from simbav2.checkpoint.files import damage, length
from simbav2.config import Config, override, presets
from simbav2.envs.tasks import Task, custom_task
from simbav2.envs.vector import make_vector_env
from simbav2.errors import CheckpointError, InputError
from simbav2.learner import Learner, LearnerState, TrainState
from simbav2.normalization import Moments, ReturnStatistics, RunningStatistics

NAME = "release-checkpoint"  # of the task where none is given
_MOST_ENVS = 1024  # a forged file with more would take long to load
_STACKED = "VmapSimbaV2Critic_0"  # above the tree of several critics, whose arrays have a leading axis
_MOST = 64  # layers or critics; a forged file with more would take hours to plan
LIMIT = 4 << 30  # bytes
_ARRAY, _SCALAR = 1, 3  # Flax's codes
_KINDS = {np.dtype(kind).name: np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, np.uint32)}
Tree = TypeVar("Tree")


def from_release(folder: str | Path, observation_size: int, action_size: int, env: Any = None) -> Agent:
    """The agent saved in `folder` by the authors' code.

    `env` is what it was trained on (a task id, an environment, a callable making one); without it the agent acts
    and can be exported, but not be evaluated or trained.
    """
    for name, size in (("observation_size", observation_size), ("action_size", action_size)):
        if size < 1:
            raise InputError(f"{name} is {size}; expected at least 1")
    folder = Path(folder)
    actor, critic = Network.read(folder, "actor"), Network.read(folder, "critic")
    _check_inputs(actor, observation_size, 0)
    _check_inputs(critic, observation_size, action_size)
    statistics = RunningStatistics(_observations(folder, observation_size), _returns(folder))
    num_envs = len(statistics.returns.running)
    envs = None if env is None else make_vector_env(env, num_envs=num_envs)
    task = custom_task(NAME, observation_size, action_size) if envs is None else envs.task
    if (task.observation_size, task.action_size) != (observation_size, action_size):
        raise InputError(
            f"{task.id} has {task.observation_size} observations and {task.action_size} actions; "
            f"{observation_size} and {action_size} were given"
        )
    config = _config(actor, critic, task, num_envs)
    # Shapes only: arrays that do not fit are refused before anything is allocated.
    planned = jax.eval_shape(Learner(config, observation_size, action_size).init, jax.random.PRNGKey(0))
    state = LearnerState(
        actor=actor.trained(planned.actor, actor_names(actor)),
        critic=critic.trained(planned.critic, critic_names(critic)),
        target=Network.read(folder, "target_critic").params(planned.target, critic_names(critic)),
        log_temperature=Network.read(folder, "temperature").trained(planned.log_temperature, {"": "log_temp"}),
        updates=critic.updates,
        key=None,
    )
    agent = Agent.from_config(config, task, task.id if env is None else env, envs)
    agent.state = jax.tree.map(jax.device_put, state._replace(key=agent.state.key))
    agent.statistics = statistics
    agent.updates = int(critic.updates)
    agent.decisions = round(statistics.observation.weight) // num_envs * num_envs  # each was one sample
    return agent


def _config(actor: Network, critic: Network, task: Task, num_envs: int) -> Config:
    """The preset of the authors' code with the sizes of the arrays."""
    settings: dict[str, Any] = {"num_envs": num_envs, "value.atoms": critic.atoms()}
    settings["critic.num_critics"] = critic.sizes().members
    for name, sizes in (("actor", actor.sizes()), ("critic", critic.sizes())):
        settings |= {f"{name}.width": sizes.width, f"{name}.depth": sizes.depth}
    with damage(actor.file.parents[2]):
        return override(presets.preset("release"), settings).resolve(task)


def _check_inputs(network: Network, observations: int, actions: int) -> None:
    inputs = network.sizes().inputs
    if inputs != observations + actions:
        given = f"{observations} observations" + (f" and {actions} actions" if actions else "")
        raise InputError(f"{network.file} is for {inputs} inputs, but {given} were given")


# Statistics. ----------------------------------------------------------------------------------------------


def _observations(folder: Path, size: int) -> Moments:
    file = file_of(folder, "obs_norm")
    return _moments(file, read_msgpack(file), "obs_rms", size)


def _returns(folder: Path) -> ReturnStatistics:
    file = file_of(folder, "rew_norm")
    data = read_msgpack(file)
    moments = _moments(file, data, "G_rms", 1)
    with damage(file):
        running = _numbers(data["G"])
        if len(running) > _MOST_ENVS:
            raise ValueError(f"G is of {len(running):,} environments; at most {_MOST_ENVS:,} are accepted")
        return ReturnStatistics(running, moments, float(_numbers(data["G_r_max"])[0]))


def _moments(file: Path, data: Mapping[str, Any], name: str, size: int) -> Moments:
    with damage(file):
        mean, variance, count = (_numbers(data[f"{name}_{of}"]) for of in ("mean", "var", "count"))
        if len(mean) != size or len(variance) != size:
            raise ValueError(
                f"{name}_mean has {len(mean)} entries and {name}_var {len(variance)}; expected {size}"
            )
        if (variance < 0).any() or not 0 <= count[0] < 1 << 62:
            raise ValueError(f"{name}_var or {name}_count is out of range")
        return Moments(mean, variance, float(count[0]))


def _numbers(value: Any) -> NDArray[np.float64]:
    """A number or an array, flat."""
    array = np.asarray(value, np.float64).ravel()
    if not array.size or not np.isfinite(array).all():
        raise ValueError("its statistics are not all finite numbers")
    return array


# Files. ---------------------------------------------------------------------------------------------------


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
