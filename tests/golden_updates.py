"""Compare our updates with recorded updates of other people's code: same start, same batches, same noise.

    python tests/golden_updates.py METHOD FILE_OR_FOLDER

METHOD is the record's name before `-sample`. The exit status is 0 if all differences are within limits, 1 if one
is beyond, 2 for bad input. `XLA_FLAGS=--xla_cpu_max_isa=AVX2` (SSE4_2, AVX512) shows how much rounding matters.

A record is read into a `Trace` by the `read` of its row in `METHODS`; everything else is shared. The learner is
the real one: only its random draws are replaced by the recorded ones.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from simbav2.checkpoint.files import damage
from simbav2.config import override, presets
from simbav2.errors import InputError, nearest
from simbav2.interop import from_release
from simbav2.learner import Learner, LearnerState
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
    target_actor: Params = None

    @classmethod
    def of(cls, state: LearnerState) -> Networks:
        log_temperature = None if state.log_temperature is None else state.log_temperature.params
        return cls(state.actor.params, state.critic.params, state.target, log_temperature, state.target_actor)


class BatchStats(NamedTuple):
    actor: Params
    critic: Params

    @classmethod
    def of(cls, state: LearnerState) -> BatchStats:
        return cls(state.actor.batch_stats, state.critic.batch_stats)


class Moments(NamedTuple):
    """Adam's: its steps hardly depend on a loss's scale, its moments do."""

    actor: tuple[Params, Params]
    critic: tuple[Params, Params]
    log_temperature: tuple[Array, Array] | None = None

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
    batch_stats: Mapping[int, BatchStats] = MappingProxyType({})  # likewise
    actor_turns: NDArray[Any] | None = None  # [K], where the actor's losses are comparable; None: everywhere


ACTOR_LOSSES = ("actor_loss", "entropy")


class Limit(NamedTuple):
    """The largest difference allowed, its rms, and the share of entries that may lie beyond a smaller one."""

    worst: float
    beyond: float | None = None
    share: float = 0.0
    rms: float = float("inf")


class Difference(NamedTuple):
    worst: float
    where: str
    rms: float
    share: float | None  # of the entries beyond `Limit.beyond`
    limit: Limit

    @property
    def within(self) -> bool:
        within = self.worst <= self.limit.worst and self.rms <= self.limit.rms
        return within and (self.share is None or self.share <= self.limit.share)

    def __str__(self) -> str:
        text = f"worst {self.worst:.2g} at {self.where} (limit {self.limit.worst:g}), "
        text += f"rms {self.rms:.2g} (limit {self.limit.rms:g})"
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
    batch_stats: Limit | None = None
    relative_stats: bool = False  # to |entry| + 0.1
    first: Limit | None = None  # of the parameters after one update, where it is another
    first_stats: Limit | None = None  # likewise


# Replaying. -----------------------------------------------------------------------------------------------


@contextmanager
def recorded(noise: Noise) -> Iterator[None]:
    """The functions of `jax.random` that `noise` names return its arrays, in order; all must be used."""

    def replay(name: str, draws: Sequence[Array]) -> tuple[Callable[..., Array], list[Array]]:
        left = list(draws)

        def draw(*args: Any, **_: Any) -> Array:
            shape = tuple(next(value for value in args if isinstance(value, tuple)))
            if not left or left[0].shape != shape:
                raise InputError(f"the update draws {name}{shape}, which is not what was recorded")
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
        metrics: dict[str, Any] = {"temperature_before": state.temperature}
        state, metrics_after = update(state, batch, noise)
        metrics |= metrics_after
        for name, values in losses.items():
            values.append(float(metrics[name]))
        if index + 1 in trace.expected:
            states[index + 1] = state
    return states, losses


def compare(ours: Any, theirs: Any, limit: Limit, relative: str = "") -> Difference:
    """Over all entries of two trees; relative to the `largest` entry of each array of theirs, or to `each`."""
    found, _ = jax.tree_util.tree_flatten_with_path(ours)
    distances = {}
    for (path, leaf), expected in zip(found, jax.tree.leaves(theirs), strict=True):
        expected = np.asarray(expected, float)
        distance = np.abs(np.asarray(leaf, float) - expected)
        units = {"": 1.0, "largest": np.max(np.abs(expected)) or 1.0, "each": np.abs(expected) + 0.1}
        distances[jax.tree_util.keystr(path, simple=True, separator="/")] = distance / units[relative]
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
    found = {}
    for updates, theirs in trace.expected.items():
        limit = method.first if updates == 1 and method.first else method.parameters
        ours = _comparable(Networks.of(states[updates]), name)
        found[f"parameters after {updates} updates"] = compare(ours, _comparable(theirs, name), limit)
    for updates, moments in trace.moments.items() if method.moments else ():
        ours = _comparable(Moments.of(states[updates]), name)
        theirs = _comparable(moments, name)
        found[f"Adam's moments after {updates} updates"] = compare(ours, theirs, method.moments, "largest")
    for updates, stats in trace.batch_stats.items() if method.batch_stats else ():
        limit = method.first_stats if updates == 1 and method.first_stats else method.batch_stats
        relative = "each" if method.relative_stats else ""
        found[f"batch statistics after {updates} updates"] = compare(
            BatchStats.of(states[updates]), stats, limit, relative
        )
    if trace.actor_turns is not None:
        turns = np.flatnonzero(trace.actor_turns)
        losses |= {name: [losses[name][turn] for turn in turns] for name in ACTOR_LOSSES if name in losses}
        kept = {name: trace.losses[name][turns] for name in ACTOR_LOSSES if name in losses}
        trace = trace._replace(losses={**trace.losses, **kept})
    return found | {"losses": compare(losses, {name: list(trace.losses[name]) for name in losses}, method.losses)}


def _comparable(tree: Any, method: str) -> Any:
    """Without the bias of XQC's input norms: its gradient is zero, and Adam turns rounding into a random walk."""
    if not method.startswith("xqc"):
        return tree

    def zeroed(path: Any, leaf: Array) -> Array:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        return jnp.zeros_like(leaf) if name.endswith("BatchNormLayer_0/bias") else leaf

    return jax.tree_util.tree_map_with_path(zeroed, tree)


# Reading. -------------------------------------------------------------------------------------------------


class Format(NamedTuple):
    """How to read a kind of record: names of its arrays in ours, `moment/network/layer/leaf`."""

    names: tuple[tuple[str, Any], ...]  # regular expressions and what replaces them, in order
    settings: Callable[[Arrays], dict[str, Any]]  # the changes to the preset
    complete: Callable[[dict[str, NDArray[Any]]], None] = lambda data: None  # arrays in another layout


def _load(file: Path, form: Format | None = None) -> dict[str, NDArray[Any]]:
    try:
        with damage(file), file.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            data = dict(content)
    except (zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    for pattern, replacement in form.names if form else ():
        data = {re.sub(pattern, replacement, name): array for name, array in data.items()}
    return data


def _batches(data: Arrays, prefix: str = "batch/") -> Transition:
    discount = data.get(f"{prefix}discount", 0.99) * (1 - data[f"{prefix}terminated"])
    names = ("observation", "action", "reward", "next_observation")
    arrays = {name: data[f"{prefix}{name}"] for name in names}
    return Transition(**arrays, discount=discount.astype(np.float32))


def _schedule(updates: int) -> dict[str, Any]:
    """Settings with which the learning rate is scheduled for so many updates."""
    return {"env_steps": updates, "action_repeat": 1, "updates_per_decision": 1, "warmup_decisions": 0}


def _placed(planned: Params, data: Arrays, prefix: str) -> Params:
    """`planned` with the arrays of the same names."""

    def take(path: Any, leaf: Any) -> NDArray[Any]:
        member, _, rest = jax.tree_util.keystr(path, simple=True, separator="/").partition("/")
        name = (rest if member.isdigit() else f"{member}/{rest}").removesuffix("/value")
        array = data[f"{prefix}/{name}"]
        if array.ndim > leaf.ndim:  # critics stacked along a first axis
            array = array[int(member)]
        if array.shape != leaf.shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {leaf.shape}")
        return array.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(take, planned)


def _states(learner: Learner, data: Arrays) -> dict[str, Any]:
    """The states of a `Trace`: the start, and what is known after some updates."""
    planned = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    has_temperature = planned.log_temperature is not None

    def networks(tag: str) -> Networks:
        parts = Networks.of(planned)._replace(log_temperature=None)._asdict()
        placed = {name: _placed(part, data, f"{tag}/{name}") for name, part in parts.items()}
        temperature = {"log_temperature": data[f"{tag}/log_temperature"].reshape(())} if has_temperature else {}
        return Networks(**placed | temperature)

    def batch_stats(tag: str) -> BatchStats:
        parts = BatchStats.of(planned)._asdict()
        return BatchStats(**{name: _placed(part, data, f"{tag}/{name}") for name, part in parts.items()})

    def moments(tag: str) -> Moments:
        parts = {"actor": planned.actor.params, "critic": planned.critic.params}
        found = {n: tuple(_placed(part, data, f"{tag}/adam/{n}/{w}") for w in "mv") for n, part in parts.items()}
        if has_temperature:
            found["log_temperature"] = tuple(data[f"{tag}/adam/temperature/{w}"].reshape(()) for w in "mv")
        return Moments(**found)

    before, stats = networks("before"), batch_stats("before")
    updates, actor_steps = (int(data.get(f"before/adam/{name}/count", 0)) for name in ("critic", "actor"))
    state = LearnerState(
        actor=learner.start(before.actor, stats.actor),
        critic=learner.start(before.critic, stats.critic),
        target=before.target,
        log_temperature=learner.start(before.log_temperature) if has_temperature else None,
        updates=jnp.full((), updates, jnp.int32),
        key=jax.random.PRNGKey(0),
        target_actor=before.target_actor,
        actor_metrics=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), planned.actor_metrics),
    )
    if updates:  # the optimisers are under way
        parts = ("actor", "critic", "log_temperature")
        for part, (mu, nu), count in zip(
            parts, moments("before"), (actor_steps, updates, actor_steps), strict=True
        ):
            train_state = getattr(state, part)
            optimizer = train_state.optimizer._replace(mu=mu, nu=nu, count=jnp.full((), count, jnp.int32))
            state = state._replace(**{part: train_state._replace(optimizer=optimizer)})
    tags = {int(found[1]): found[0] for name in data if (found := re.match(r"update(\d+)", name))}
    # Before its first step an optimiser's moments say nothing.
    stepped = {number: tag for number, tag in tags.items() if data.get(f"{tag}/adam/actor/count", 0) > 0}
    return {
        "start": state,
        "expected": {number: networks(tag) for number, tag in tags.items()},
        "moments": {number: moments(tag) for number, tag in stepped.items()},
        "batch_stats": {n: batch_stats(tag) for n, tag in tags.items()} if stats.actor is not None else {},
    }


def _noise(data: Arrays, actor_first: bool) -> Noise:
    actor, following = ("actor", "actor_action"), ("next", "next_action", "target_policy_raw")
    order = (*actor, *following) if actor_first else (*following, *actor)
    noise = {"normal": tuple(data[f"noise/{name}"] for name in order if f"noise/{name}" in data)}
    if "noise/subset" in data:
        noise["choice"] = (data["noise/subset"].astype(np.int32),)
    masks = [f"noise/mask_{use}_layer{{}}" for use in ("target", "current", "actor")]
    if masks[0].format(0) in data:
        noise["bernoulli"] = tuple(data[m.format(layer)][:, n] for m in masks for n in (0, 1) for layer in (0, 1))
    return noise


def reader(form: Format, preset: str, **settings: Any) -> Callable[[Path], Trace]:
    """Of records in a format; dots in the names of settings are double underscores."""

    def read(file: Path) -> Trace:
        data = _load(file, form)
        with damage(file):
            batches = _batches(data)
            form.complete(data)
            given = {name.replace("__", "."): value for name, value in settings.items()}
            config = override(presets.preset(preset), {"discount": 0.99} | form.settings(data) | given)
            learner = Learner(config, batches.observation.shape[-1], batches.action.shape[-1])
            names = ("actor_loss", "critic_loss") + (("entropy",) if learner.networks.temperature else ())
            losses = {name: data[f"metrics/{name}"] for name in names}
            return Trace(
                learner=learner,
                batches=batches,
                noise=_noise(data, config.update_order == "actor-first"),
                losses=losses,
                actor_turns=data.get("metrics/actor_applied", np.isfinite(losses["actor_loss"])),
                **_states(learner, data),
            )

    return read


def _read_simbav2(folder: Path) -> Trace:
    """The authors' SimbaV2: checkpoints `before` and `after`, and `trace.npz` with the batches between them."""
    data = _load(folder / "trace.npz")
    with damage(folder / "trace.npz"):
        batches = _batches(data, "")
        sizes = (batches.observation.shape[-1], batches.action.shape[-1])
        noise = {"normal": (data["eps"][:, 0], data["eps"][:, 1])}
        losses = {name: data[name] for name in ("actor_loss", "critic_loss", "entropy")}
        losses["temperature_before"] = data["temperature"]
    before, after = (from_release(folder / side, *sizes) for side in ("before", "after"))
    config = override(before.config, _schedule(1_000) | {"discount": 0.99})
    last = len(batches.reward)
    expected, moments = {last: Networks.of(after.state)}, {last: Moments.of(after.state)}
    batches = before.normalizer.transition(batches)  # recorded raw
    return Trace(Learner(config, *sizes), before.state, batches, noise, expected, losses, moments)


def _width(data: Arrays, network: str, layer: str) -> int:
    return int(data[f"before/{network}/encoder/{layer}/kernel"].shape[-1])


def _rounded(value: Any) -> float:
    """The decimal that was meant by a float32."""
    return float(str(np.float32(value)))


def _simba_settings(data: Arrays) -> dict[str, Any]:
    settings = _schedule(len(data["batch/reward"]))
    for network in ("actor", "critic"):
        blocks = [name for name in data if re.match(rf"before/{network}/encoder/LayerNorm_\d+/scale", name)]
        settings |= {f"{network}.width": _width(data, network, "Dense_0"), f"{network}.depth": len(blocks) - 1}
    kernel = data["before/critic/encoder/Dense_0/kernel"]
    return settings | {"critic.num_critics": len(kernel) if kernel.ndim == 3 else 1}


def _baseline_settings(data: Arrays) -> dict[str, Any]:
    hp = {name.removeprefix("hp/"): _rounded(array) for name, array in data.items() if name.startswith("hp/")}
    same = {"actor.width": "hidden0", "critic.width": "hidden0", "critic.num_critics": "n_critics"}
    same |= {"actor_every": "policy_delay", "target.tau": "tau", "learning_rate.rate": "lr_actor"}
    used = {ours: hp[theirs] for ours, theirs in same.items()}
    return used | {"critic.depth": 2, "discount": hp["gamma"]} | _schedule(int(hp["num_updates"]))


def _batch_norm_settings(dense: str) -> Callable[[Arrays], dict[str, Any]]:
    def settings(data: Arrays) -> dict[str, Any]:
        updates = json.loads(str(data["config"])).get("lr_transition_updates", 1)
        return _schedule(updates) | {f"{n}.width": _width(data, n, dense) for n in ("actor", "critic")}

    return settings


def _flashsac_settings(data: Arrays) -> dict[str, Any]:
    return {
        **_schedule(int(data["const/schedule_decay_steps"])),
        **{f"{network}.width": _width(data, network, "UnitDense_0") for network in ("actor", "critic")},
        "learning_rate.hold": int(data["const/schedule_warmup_steps"]),
        "target.tau": _rounded(data["const/tau"]),
        "actor_every": int(data["const/actor_update_period"]),
        "discount": _rounded(data["const/discount"]),
    }


def _from_torch(data: dict[str, NDArray[Any]]) -> None:
    """Transposed weights, scale and bias as one array, and each kind of critic as one stack."""
    for name in [name for name in data if name.endswith("/weight")]:
        data[name.removesuffix("weight") + "kernel"] = data.pop(name).T
    for name in [name for name in data if re.search(r"BatchNormLayer_\d+/scale$", name)]:
        place = name.removesuffix("scale")
        data[f"{place}affine"] = np.stack([data.pop(name), data.pop(f"{place}bias")])
    for name in [name for name in data if "RMSNorm_0/scale" in name]:
        data[name] = data[name][None]
    for network in ("critic", "target"):
        for name in [name for name in data if f"/{network}1/" in name]:
            pair = [data[name], data.pop(name.replace(f"{network}1", f"{network}2"))]
            data[name.replace(f"{network}1", network)] = np.stack(pair)


def _layer(kind: str, number: Callable[..., int]) -> Callable[[re.Match[str]], str]:
    """Our name of an encoder's layer, its number from the numbers in theirs."""
    return lambda found: f"encoder/{kind}_{number(*map(int, found.groups()))}/"


def _half(block: int, half: int) -> int:
    return 2 * block + half


_TEMPERATURE = (r"^((?:before|update\d+)/)temperature/log_(?:temp|alpha)$", r"\1log_temperature")
_SIMBA = Format(
    names=(
        (r"Vmap\w*/", ""),
        (r"embedder/", "encoder/Dense_0/"),
        (r"encoder/layers_(\d+)/w(\d)/", _layer("Dense", _half)),
        (r"encoder/layers_(\d+)/(?:pre_ln/)?", r"encoder/LayerNorm_\1/"),
        (r"predictor/w/", "predictor/"),
        (r"predictor/mean_w/", "predictor_mean/"),
        (r"predictor/std_w/", "predictor_log_std/"),
        _TEMPERATURE,
    ),
    settings=_simba_settings,
)
# TD3, SAC, TQC, DroQ and REDQ.
_BASELINES = Format(
    names=(
        (r"\.", "/"),
        (r"^adam_(\w+)/", r"\1/adam/"),
        (r"^init/", "before/"),
        (r"^after", "update"),
        (r"^trace/", "metrics/"),
        (r"^flag/actor_updated", "metrics/actor_applied"),
        (r"^batch/(next_)?obs$", r"batch/\1observation"),
        (r"/target_critic/", "/target/"),
        (r"/hidden(\d)/", r"/encoder/Dense_\1/"),
        (r"/norm(\d)/", r"/encoder/LayerNorm_\1/"),
        (r"/(mean|log_std)/", r"/predictor_\1/"),
        (r"(actor/(?:[mv]/)?)out/", r"\1predictor_mean/"),
        (r"/out/", "/predictor/"),
    ),
    settings=_baseline_settings,
)


def _batch_norm(dense: str) -> Format:
    """XQC and CrossQ."""
    return Format(
        names=(
            (r"input_norm/", "encoder/BatchNormLayer_0/"),
            (r"block(\d)/norm/", _layer("BatchNormLayer", lambda block: block + 1)),
            (r"block(\d)/dense/", rf"encoder/{dense}_\1/"),
            (r"/head(_\w+)?/", r"/predictor\1/"),
            (r"/running_(mean|var)$", r"/\1"),
            (r"/renorm_steps$", "/steps"),
            (r"(adam/temperature/[mv])/log_alpha$", r"\1"),
            _TEMPERATURE,
        ),
        settings=_batch_norm_settings(f"{dense}_0"),
    )


_FLASHSAC = Format(
    names=(
        (r"embed/linear/", "encoder/UnitDense_0/"),
        (r"embed/bn/", "encoder/BatchNormLayer_0/"),
        (r"block(\d)/linear(\d)/", _layer("UnitDense", _half)),
        (r"block(\d)/bn(\d)/", _layer("BatchNormLayer", _half)),
        (r"rms/", "encoder/RMSNorm_0/"),
        (r"/running_(mean|var)$", r"/\1"),
        (r"/head/", "/predictor/"),
        (r"/head_mean/", "/predictor_mean/"),
        (r"/head_logstd/", "/predictor_log_std/"),
        (r"^metric/", "metrics/"),
        _TEMPERATURE,
    ),
    settings=_flashsac_settings,
    complete=_from_torch,
)

# The methods. ---------------------------------------------------------------------------------------------

_TIGHT = {"parameters": Limit(2e-6), "losses": Limit(5e-5), "moments": Limit(3e-5)}
_LOOSE = {"parameters": Limit(1e-5), "losses": Limit(2e-2), "moments": Limit(2e-3)}
_CROSSQ = Method(
    reader(_batch_norm("Dense"), "crossq"), Limit(2e-6), Limit(1e-3), Limit(1e-4), batch_stats=Limit(1e-5)
)
_XQC = Method(
    reader(_batch_norm("UnitDense"), "xqc"),
    parameters=Limit(1e-4, beyond=1e-5, share=1e-3),
    losses=Limit(5e-4),
    batch_stats=Limit(1e-4),
)
_SAC = {
    "update_order": "critic-first",
    "actor__architecture__init": "lecun",
    "critic__architecture__init": "lecun",
    "policy__log_std_low": -20.0,
    "policy__log_std_bound": "clip",
    "policy__temperature_loss": "log_alpha",
    "value__weight": 0.5,
    "actor_turn": "last",
}
_SBX_TD3 = {"critic__actor_q": "min", "target__with_actor": False, "value__weight": 0.5}
_AUTHORS_REDQ = {"update_order": "together", "policy__tanh_epsilon": 1e-6}
METHODS = {
    "simbav2": Method(_read_simbav2, parameters=Limit(1e-5), losses=Limit(1e-5), moments=Limit(1e-4)),
    "simba": Method(reader(_SIMBA, "simba"), parameters=Limit(1e-5), losses=Limit(5e-5)),
    "sac": Method(reader(_BASELINES, "sac", **_SAC), **_TIGHT),
    # Stable-Baselines3's is the paper's TD3; sbx's differs in three things at once.
    "td3sb3": Method(reader(_BASELINES, "td3"), **_TIGHT),
    "td3": Method(reader(_BASELINES, "td3", **_SBX_TD3), **_TIGHT),
    "tqc": Method(reader(_BASELINES, "tqc"), **_TIGHT),
    "droqmean": Method(reader(_BASELINES, "droq", value__weight=0.5), **_TIGHT),
    "droq": Method(reader(_BASELINES, "droq", value__weight=0.5, critic__actor_q="min"), **_TIGHT),
    "redqpaper": Method(reader(_BASELINES, "redq"), **_TIGHT),
    "redq": Method(reader(_BASELINES, "redq", **_AUTHORS_REDQ), **_LOOSE),
    "crossq": _CROSSQ,
    "crossq_renorm": _CROSSQ,
    "xqc": _XQC,
    "xqc_warm": _XQC._replace(parameters=Limit(2e-5, beyond=1e-5, share=1e-3)),
    "flashsac": Method(
        reader(_FLASHSAC, "flashsac"),
        parameters=Limit(float("inf"), beyond=1e-5, share=2e-3, rms=2e-6),
        losses=Limit(1e-4),
        batch_stats=Limit(3e-4),
        relative_stats=True,
        first_stats=Limit(1e-5),
        first=Limit(float("inf"), beyond=1e-5, share=2e-4, rms=1.5e-6),
    ),
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
