"""Compare our updates with recorded updates of other people's code: same start, same batches, same noise.

    python tests/golden_updates.py METHOD FILE_OR_FOLDER

METHOD is the record's name before `-sample`. The exit status is 0 if all differences are within limits, 1 if one
is beyond, 2 for bad input. `XLA_FLAGS=--xla_cpu_max_isa=AVX2` (SSE4_2, AVX512) shows how much rounding matters.

A record is read into a `Trace` by the `read` of its row in `METHODS`; everything else is shared. The learner is
the real one: only its random draws are replaced by the recorded ones.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from simbav2.checkpoint.files import damage
from simbav2.config import Config, override, presets
from simbav2.errors import InputError, nearest
from simbav2.interop import from_release
from simbav2.learner import ADAM, Learner, LearnerState, TrainState
from simbav2.types import Array, Params, Transition

Arrays = Mapping[str, NDArray[Any]]
Noise = Mapping[
    str, tuple[NDArray[Any], ...]
]  # function of jax.random -> its results [K, ...] in order of the calls


class Networks(NamedTuple):
    """The parameters that are compared after an update."""

    actor: Params
    critic: Params
    target: Params
    log_temperature: Array

    @classmethod
    def of(cls, state: LearnerState) -> Networks:
        assert state.log_temperature is not None
        return cls(state.actor.params, state.critic.params, state.target, state.log_temperature.params)


class Moments(NamedTuple):
    """Adam's: its steps hardly depend on a loss's scale, its moments do."""

    actor: tuple[Params, Params]
    critic: tuple[Params, Params]
    log_temperature: tuple[Array, Array]

    @classmethod
    def of(cls, state: LearnerState) -> Moments:
        parts = (state.actor, state.critic, state.log_temperature)
        return cls(*((part.optimizer.mu, part.optimizer.nu) for part in parts if part is not None))


class Trace(NamedTuple):
    """A record in our terms; K updates."""

    learner: Learner
    start: LearnerState
    batches: Transition  # [K, B, ...], normalised
    noise: Noise
    expected: Mapping[int, Networks]  # after that many updates
    losses: Arrays  # [K] each, by the names of the learner's metrics
    moments: Mapping[int, Moments] = MappingProxyType({})  # as `expected`, where they were recorded


class Limit(NamedTuple):
    """The largest difference allowed, and the share of entries that may lie beyond a smaller one."""

    worst: float
    beyond: float | None = None
    share: float = 0.0


class Difference(NamedTuple):
    worst: float
    where: str
    rms: float
    share: float | None  # of the entries beyond `Limit.beyond`
    limit: Limit

    @property
    def within(self) -> bool:
        return self.worst <= self.limit.worst and (self.share is None or self.share <= self.limit.share)

    def __str__(self) -> str:
        text = f"worst {self.worst:.2g} at {self.where} (limit {self.limit.worst:g}), rms {self.rms:.2g}"
        if self.share is not None:
            text += (
                f", {self.share:.3%} of the entries beyond {self.limit.beyond:g} (limit {self.limit.share:.3%})"
            )
        return text if self.within else f"{text}: TOO FAR"


class Method(NamedTuple):
    read: Callable[[Path], Trace]
    parameters: Limit
    losses: Limit
    moments: Limit | None = None  # relative to the largest entry of each array; None where none are recorded


# Replaying. -----------------------------------------------------------------------------------------------


@contextmanager
def recorded(noise: Noise) -> Iterator[None]:
    """The functions of `jax.random` that `noise` names return its arrays, in order; all must be used."""

    def replay(name: str, draws: Sequence[Array]) -> tuple[Callable[..., Array], list[Array]]:
        left = list(draws)

        def draw(key: Array, shape: Sequence[int], *_: Any, **__: Any) -> Array:
            if not left or left[0].shape != tuple(shape):
                raise InputError(f"the update draws {name}{tuple(shape)}, which is not what was recorded")
            return left.pop(0)

        return draw, left

    with ExitStack() as stack:
        unused = []
        for name, draws in noise.items():
            draw, left = replay(name, draws)
            stack.enter_context(mock.patch.object(jax.random, name, draw))
            unused.append(left)
        yield
        if any(unused):
            raise InputError("the update draws less than was recorded")


def replay(trace: Trace) -> tuple[dict[int, LearnerState], dict[str, list[float]]]:
    """Our states after the updates at which theirs are known, and our losses at every update."""

    @jax.jit
    def update(state: LearnerState, batch: Transition, noise: Noise) -> tuple[LearnerState, dict[str, Array]]:
        with recorded(noise):
            return trace.learner._update(state, batch)

    state, states = trace.start, {}
    losses: dict[str, list[float]] = {name: [] for name in trace.losses}
    for index in range(len(trace.batches.reward)):
        batch, noise = jax.tree.map(lambda array, at=index: array[at], (trace.batches, dict(trace.noise)))
        metrics = {"temperature_before": state.temperature}
        state, metrics_after = update(state, batch, noise)
        metrics |= metrics_after
        for name, values in losses.items():
            values.append(float(metrics[name]))
        if index + 1 in trace.expected:
            states[index + 1] = state
    return states, losses


def compare(ours: Any, theirs: Any, limit: Limit, relative: bool = False) -> Difference:
    """Over all entries of two trees; `relative` to the largest entry of each array of theirs."""
    found, _ = jax.tree_util.tree_flatten_with_path(ours)
    distances = {}
    for (path, leaf), expected in zip(found, jax.tree.leaves(theirs), strict=True):
        distance = np.abs(np.asarray(leaf, float) - expected)
        unit = np.max(np.abs(expected)) if relative else 1.0
        distances[jax.tree_util.keystr(path, simple=True, separator="/")] = distance / unit
    flat = np.concatenate([np.ravel(distance) for distance in distances.values()])
    flat = np.where(np.isnan(flat), np.inf, flat)
    where = max(distances, key=lambda name: np.max(np.nan_to_num(distances[name], nan=np.inf)))
    share = None if limit.beyond is None else float(np.mean(flat > limit.beyond))
    return Difference(float(flat.max()), where, float(np.sqrt(np.mean(flat**2))), share, limit)


def check(name: str, place: Path) -> dict[str, Difference]:
    """How far our updates are from those in the record of a method, by what is compared."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; expected {' or '.join(METHODS)}{nearest(name, METHODS)}")
    method = METHODS[name]
    trace = method.read(place)
    states, losses = replay(trace)
    found = {
        f"parameters after {updates} updates": compare(Networks.of(states[updates]), theirs, method.parameters)
        for updates, theirs in trace.expected.items()
    }
    for updates, theirs in trace.moments.items() if method.moments else ():
        ours = Moments.of(states[updates])
        found[f"Adam's moments after {updates} updates"] = compare(ours, theirs, method.moments, relative=True)
    return found | {"losses": compare(losses, {name: list(trace.losses[name]) for name in losses}, method.losses)}


# Reading. -------------------------------------------------------------------------------------------------


def _load(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with damage(file), file.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            return dict(data)
    except (zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error


def _batches(data: Arrays, prefix: str, discount: float) -> Transition:
    terminated = data[f"{prefix}terminated"]
    return Transition(
        observation=data[f"{prefix}observation"],
        action=data[f"{prefix}action"],
        reward=data[f"{prefix}reward"],
        discount=(discount * (1 - terminated)).astype(np.float32),
        next_observation=data[f"{prefix}next_observation"],
    )


def _losses(data: Arrays, prefix: str = "") -> dict[str, NDArray[Any]]:
    return {name: data[f"{prefix}{name}"] for name in ("actor_loss", "critic_loss", "entropy")}


def _scheduled(config: Config, updates: int) -> Config:
    """With a learning rate that is scheduled for so many updates."""
    return override(
        config,
        {"env_steps": updates, "action_repeat": 1, "updates_per_decision": 1, "warmup_decisions": 0},
    )


def _placed(planned: Params, arrays: Arrays, names: Mapping[str, str]) -> Params:
    """`planned` with the arrays, by names ours -> theirs; several critics are stacked along a first axis."""

    def take(path: Any, leaf: Any) -> NDArray[Any]:
        member, _, rest = jax.tree_util.keystr(path, simple=True, separator="/").partition("/")
        ours = rest if member.isdigit() else f"{member}/{rest}"
        array = arrays[names[ours]]
        array = array[int(member)] if member.isdigit() and array.ndim > leaf.ndim else array
        if array.shape != leaf.shape:
            raise ValueError(f"{names[ours]} has shape {array.shape}, expected {leaf.shape}")
        return array

    return jax.tree_util.tree_map_with_path(take, planned)


def _below(data: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it and without Flax's name for stacked critics."""
    inside = {name.removeprefix(prefix): array for name, array in data.items() if name.startswith(prefix)}
    return {
        "/".join(word for word in name.split("/") if not word.startswith("Vmap")): array
        for name, array in inside.items()
    }


def _fresh(learner: Learner, networks: Networks) -> LearnerState:
    """The state before the first update, with optimisers at zero."""

    def trained(params: Params) -> TrainState:
        return TrainState(params, ADAM.init(params))

    return LearnerState(
        actor=trained(networks.actor),
        critic=trained(networks.critic),
        target=networks.target,
        log_temperature=trained(networks.log_temperature),
        updates=jnp.zeros((), jnp.int32),
        key=jax.random.PRNGKey(0),
    )


# The methods. ---------------------------------------------------------------------------------------------


def _read_simbav2(folder: Path) -> Trace:
    """The authors' SimbaV2: checkpoints `before` and `after`, and `trace.npz` with the batches between them."""
    data = _load(folder / "trace.npz")
    with damage(folder / "trace.npz"):
        batches = _batches(data, "", discount=0.99)
        sizes = (batches.observation.shape[-1], batches.action.shape[-1])
        noise = {"normal": (data["eps"][:, 0], data["eps"][:, 1])}
        losses = {**_losses(data), "temperature_before": data["temperature"]}
    before, after = (from_release(folder / side, *sizes) for side in ("before", "after"))
    config = replace(_scheduled(before.config, 1_000), discount=0.99)
    last = len(batches.reward)
    expected, moments = {last: Networks.of(after.state)}, {last: Moments.of(after.state)}
    batches = before.normalizer.transition(batches)  # recorded raw
    return Trace(Learner(config, *sizes), before.state, batches, noise, expected, losses, moments)


def _simba_names(depth: int) -> dict[str, str]:
    names = {"encoder/Dense_0": "embedder", f"encoder/LayerNorm_{depth}": f"encoder/layers_{depth}"}
    for block in range(depth):
        layer = f"encoder/layers_{block}"
        names |= {
            f"encoder/LayerNorm_{block}": f"{layer}/pre_ln",
            f"encoder/Dense_{2 * block + 1}": f"{layer}/w1",
            f"encoder/Dense_{2 * block + 2}": f"{layer}/w2",
        }
    names |= {"predictor": "predictor/w"}
    names |= {"predictor_mean": "predictor/mean_w", "predictor_log_std": "predictor/std_w"}
    return {
        f"{ours}/{leaf}": f"{theirs}/{leaf}"
        for ours, theirs in names.items()
        for leaf in ("kernel", "scale", "bias")
    }


def _read_simba(file: Path) -> Trace:
    """The authors' Simba: one file with parameters before, in between and after."""
    data = _load(file)
    with damage(file):
        batches = _batches(data, "batch/", discount=0.99)
        sizes = (batches.observation.shape[-1], batches.action.shape[-1])
        settings: dict[str, Any] = {"discount": 0.99}
        for part in ("actor", "critic"):
            arrays = _below(data, f"before/{part}/")
            settings[f"{part}.width"] = arrays["embedder/kernel"].shape[-1]
            settings[f"{part}.depth"] = sum(name.endswith("/w1/kernel") for name in arrays)
            members = arrays["embedder/kernel"].shape[0] if arrays["embedder/kernel"].ndim == 3 else 1
        settings["critic.num_critics"] = members
        learner = Learner(_scheduled(override(presets.preset("simba"), settings), len(batches.reward)), *sizes)
        planned = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
        actor_names, critic_names = (_simba_names(settings[f"{part}.depth"]) for part in ("actor", "critic"))

        def networks(moment: str) -> Networks:
            return Networks(
                _placed(planned.actor.params, _below(data, f"{moment}/actor/"), actor_names),
                _placed(planned.critic.params, _below(data, f"{moment}/critic/"), critic_names),
                _placed(planned.target, _below(data, f"{moment}/target/"), critic_names),
                data[f"{moment}/temperature/log_temp"],
            )

        moments = sorted({name.partition("/")[0] for name in data if name.startswith("update")})
        return Trace(
            learner=learner,
            start=_fresh(learner, networks("before")),
            batches=batches,
            noise={"normal": (data["noise/actor"], data["noise/next"])},
            expected={int(moment.removeprefix("update")): networks(moment) for moment in moments},
            losses=_losses(data, "metrics/"),
        )


METHODS = {
    "simbav2": Method(_read_simbav2, parameters=Limit(1e-5), losses=Limit(1e-5), moments=Limit(1e-4)),
    "simba": Method(_read_simba, parameters=Limit(1e-5), losses=Limit(5e-5)),
}


def main(words: Sequence[str]) -> int:
    try:
        if len(words) != 2:
            raise InputError(f"expected METHOD FILE_OR_FOLDER; METHOD is {' or '.join(METHODS)}")
        found = check(words[0], Path(words[1]))
    except InputError as error:
        print(f"golden_updates: {error}", file=sys.stderr)
        return 2
    for name, difference in found.items():
        print(f"{words[0]}, {name}: {difference}")
    return int(not all(difference.within for difference in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
