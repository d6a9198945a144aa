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
from contextlib import contextmanager
from functools import partial
from math import inf
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
Noise = Mapping[str, tuple[NDArray[Any], ...]]  # function of jax.random -> its results [K, ...], call by call

PARAMETERS, MOMENTS, STATISTICS = "parameters", "Adam's moments", "batch statistics"


def quantities(state: LearnerState) -> dict[str, Any]:
    """What is compared after an update. Adam's steps hardly depend on the scale of a loss, its moments do."""
    parts = {"actor": state.actor, "critic": state.critic}
    trained = parts if state.log_temperature is None else parts | {"log_temperature": state.log_temperature}
    targets = {"target": state.target, "target_actor": state.target_actor}
    return {
        PARAMETERS: {name: part.params for name, part in trained.items()} | targets,
        MOMENTS: {name: (part.optimizer.mu, part.optimizer.nu) for name, part in trained.items()},
        STATISTICS: {name: part.batch_stats for name, part in parts.items()},
    }


class Trace(NamedTuple):
    """A record in our terms; K updates."""

    learner: Learner
    start: LearnerState
    batches: Transition  # [K, B, ...], normalised
    noise: Noise
    expected: Mapping[int, Mapping[str, Any]]  # after that many updates, as much of `quantities` as is recorded
    losses: Arrays  # [K] each, by the names of the learner's metrics
    actor_turns: NDArray[Any] | None = None  # [K], where the actor's losses are comparable; None: everywhere


ACTOR_LOSSES = ("actor_loss", "entropy")


class Limit(NamedTuple):
    """The largest difference allowed, its rms, and the share of entries that may lie beyond a smaller one."""

    worst: float
    beyond: float | None = None
    share: float = 0.0
    rms: float = inf


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
            text += f", {self.share:.3%} of the entries beyond {self.limit.beyond:g}"
            text += f" (limit {self.limit.share:.3%})"
        return text if self.within else f"{text}: TOO FAR"


class Method(NamedTuple):
    read: Callable[[Path], Trace]
    losses: Limit
    limits: Mapping[str, Limit]  # of the quantities that are compared
    first: Mapping[str, Limit] = MappingProxyType({})  # after one update, where they are others
    relative_statistics: bool = False  # to |entry| + 0.1


# Replaying. -----------------------------------------------------------------------------------------------


@contextmanager
def recorded(noise: Noise) -> Iterator[None]:
    """The functions of `jax.random` that `noise` names return its arrays, in order; all must be used."""
    left = {name: list(draws) for name, draws in noise.items()}

    def draw(name: str, *args: Any, **_: Any) -> Array:
        shape = tuple(next(value for value in args if isinstance(value, tuple)))
        if not left[name] or left[name][0].shape != shape:
            raise InputError(f"the update draws {name}{shape}, which is not what was recorded")
        return left[name].pop(0)

    with mock.patch.multiple(jax.random, **{name: partial(draw, name) for name in noise}):
        yield
    if any(left.values()):
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
        before = {"temperature_before": state.temperature}
        state, metrics = update(state, batch, noise)
        for name, values in losses.items():
            values.append(float({**before, **metrics}[name]))
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
    relative = {MOMENTS: "largest", STATISTICS: "each" if method.relative_statistics else ""}
    found = {}
    for quantity, limit in method.limits.items():
        for updates, theirs in trace.expected.items():
            if quantity in theirs:
                limit_here = method.first.get(quantity, limit) if updates == 1 else limit
                pair = (quantities(states[updates])[quantity], theirs[quantity])
                ours, expected = (_comparable(tree, name) for tree in pair)
                difference = compare(ours, expected, limit_here, relative.get(quantity, ""))
                found[f"{quantity} after {updates} updates"] = difference
    turns = slice(None) if trace.actor_turns is None else np.flatnonzero(trace.actor_turns)
    theirs = {loss: values[turns] if loss in ACTOR_LOSSES else values for loss, values in trace.losses.items()}
    ours = {loss: np.array(losses[loss])[turns] if loss in ACTOR_LOSSES else losses[loss] for loss in theirs}
    listed = [{loss: list(values) for loss, values in side.items()} for side in (ours, theirs)]
    return found | {"losses": compare(*listed, method.losses)}


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
        array = data[f"{prefix}/{name}".rstrip("/")]
        if member.isdigit() and array.ndim > leaf.ndim:  # critics stacked along a first axis
            array = array[int(member)]
        if array.shape != leaf.shape and array.size > 1:
            raise ValueError(f"{name} has shape {array.shape}, expected {leaf.shape}")
        return array.astype(leaf.dtype).reshape(leaf.shape)

    return jax.tree_util.tree_map_with_path(take, planned)


def _states(learner: Learner, data: Arrays) -> dict[str, Any]:
    """The states of a `Trace`: the start, and what is known after some updates."""
    planned = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    parts = quantities(planned)

    def read(tag: str, moments: bool) -> dict[str, Any]:
        found = {
            quantity: {name: _placed(part, data, f"{tag}/{name}") for name, part in parts[quantity].items()}
            for quantity in (PARAMETERS, STATISTICS)
        }
        for name, (mu, nu) in parts[MOMENTS].items() if moments else ():
            place = f"{tag}/adam/{name.removeprefix('log_')}"
            found.setdefault(MOMENTS, {})[name] = (
                _placed(mu, data, f"{place}/m"),
                _placed(nu, data, f"{place}/v"),
            )
        return found

    updates, actor_steps = (int(data.get(f"before/adam/{name}/count", 0)) for name in ("critic", "actor"))
    before = read("before", moments=updates > 0)
    state = LearnerState(
        actor=learner.start(before[PARAMETERS]["actor"], before[STATISTICS]["actor"]),
        critic=learner.start(before[PARAMETERS]["critic"], before[STATISTICS]["critic"]),
        target=before[PARAMETERS]["target"],
        log_temperature=planned.log_temperature and learner.start(before[PARAMETERS]["log_temperature"]),
        updates=jnp.full((), updates, jnp.int32),
        key=jax.random.PRNGKey(0),
        target_actor=before[PARAMETERS]["target_actor"],
        actor_metrics=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), planned.actor_metrics),
    )
    for part, (mu, nu) in before.get(MOMENTS, {}).items():  # the optimisers are under way
        count = jnp.full((), updates if part == "critic" else actor_steps, jnp.int32)
        train_state = getattr(state, part)
        optimizer = train_state.optimizer._replace(mu=mu, nu=nu, count=count)
        state = state._replace(**{part: train_state._replace(optimizer=optimizer)})
    tags = {int(found[1]): found[0] for name in data if (found := re.match(r"update(\d+)", name))}
    # Before its first step an optimiser's moments say nothing.
    expected = {n: read(tag, data.get(f"{tag}/adam/actor/count", 0) > 0) for n, tag in tags.items()}
    return {"start": state, "expected": expected}


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
    expected = {len(batches.reward): quantities(after.state)}
    batches = before.normalizer.transition(batches)  # recorded raw
    return Trace(Learner(config, *sizes), before.state, batches, noise, expected, losses)


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


def _limits(parameters: Limit, moments: float | None = None, statistics: float | None = None) -> dict[str, Limit]:
    optional = {MOMENTS: moments, STATISTICS: statistics}
    return {PARAMETERS: parameters} | {name: Limit(worst) for name, worst in optional.items() if worst is not None}


_TIGHT = (Limit(5e-5), _limits(Limit(2e-6), moments=3e-5))
_LOOSE = (Limit(2e-2), _limits(Limit(1e-5), moments=2e-3))
_CROSSQ = Method(
    reader(_batch_norm("Dense"), "crossq"), Limit(1e-3), _limits(Limit(2e-6), moments=1e-4, statistics=1e-5)
)
_XQC = Method(
    reader(_batch_norm("UnitDense"), "xqc"), Limit(5e-4), _limits(Limit(1e-4, 1e-5, 1e-3), statistics=1e-4)
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
    "simbav2": Method(_read_simbav2, Limit(1e-5), _limits(Limit(1e-5), moments=1e-4)),
    "simba": Method(reader(_SIMBA, "simba"), Limit(5e-5), _limits(Limit(1e-5))),
    "sac": Method(reader(_BASELINES, "sac", **_SAC), *_TIGHT),
    # Stable-Baselines3's is the paper's TD3; sbx's differs in three things at once.
    "td3sb3": Method(reader(_BASELINES, "td3"), *_TIGHT),
    "td3": Method(reader(_BASELINES, "td3", **_SBX_TD3), *_TIGHT),
    "tqc": Method(reader(_BASELINES, "tqc"), *_TIGHT),
    "droqmean": Method(reader(_BASELINES, "droq", value__weight=0.5), *_TIGHT),
    "droq": Method(reader(_BASELINES, "droq", value__weight=0.5, critic__actor_q="min"), *_TIGHT),
    "redqpaper": Method(reader(_BASELINES, "redq"), *_TIGHT),
    "redq": Method(reader(_BASELINES, "redq", **_AUTHORS_REDQ), *_LOOSE),
    "crossq": _CROSSQ,
    "crossq_renorm": _CROSSQ,
    "xqc": _XQC,
    "xqc_warm": _XQC._replace(limits=_limits(Limit(2e-5, 1e-5, 1e-3), statistics=1e-4)),
    "flashsac": Method(
        reader(_FLASHSAC, "flashsac"),
        Limit(1e-4),
        _limits(Limit(inf, beyond=1e-5, share=2e-3, rms=2e-6), statistics=3e-4),
        first=_limits(Limit(inf, beyond=1e-5, share=2e-4, rms=1.5e-6), statistics=1e-5),
        relative_statistics=True,
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
