"""Compare our updates with recorded updates of other people's code: same start, same batches, same noise.

    python tests/golden_updates.py METHOD FILE_OR_FOLDER

METHOD is the record's name before `-sample`. The exit status is 0 if all differences are within limits, 1 if one
is beyond, 2 for bad input. `XLA_FLAGS=--xla_cpu_max_isa=AVX2` (SSE4_2, AVX512) shows how much rounding matters.

A record is read into a `Trace` by the `read` of its row in `METHODS`; everything else is shared. The learner is
the real one: only its random draws are replaced by the recorded ones.
"""

from __future__ import annotations

import json
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


def _placed(planned: Params, find: Callable[[str, int], NDArray[Any] | None]) -> Params:
    """`planned` with the arrays that `find` has for the name of a parameter and the number of a critic."""

    def take(path: Any, leaf: Any) -> NDArray[Any]:
        member, _, rest = jax.tree_util.keystr(path, simple=True, separator="/").partition("/")
        name = (rest if member.isdigit() else f"{member}/{rest}").removesuffix("/value")
        number = int(member) if member.isdigit() else 0
        array = find(name, number)
        if array.ndim > leaf.ndim:  # critics stacked along a first axis
            array = array[number]
        if array.shape != leaf.shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {leaf.shape}")
        return array.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(take, planned)


def _below(data: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it and without Flax's name for stacked critics."""
    inside = {name.removeprefix(prefix): array for name, array in data.items() if name.startswith(prefix)}
    return {
        "/".join(word for word in name.split("/") if not word.startswith("Vmap")): array
        for name, array in inside.items()
    }


class Find(NamedTuple):
    """Where a record keeps what: a function for every network, at the moment named by a tag."""

    parameters: Callable[[str, str], Callable[[str, int], Any]]  # (tag, network) -> `find` of `_placed`
    log_temperature: Callable[[str], Any]
    moments: Callable[[str, str, str], Callable[[str, int], Any]] | None = None  # with "m" or "v"


def _assemble(
    learner: Learner,
    find: Find,
    start: str,
    tags: Mapping[int, str],
    with_moments: Sequence[int] = (),
    updates: int = 0,
    actor_steps: int = 0,
) -> dict[str, Any]:
    """The states of a `Trace`: the start, and what is known after the updates of `tags`."""
    planned = jax.eval_shape(learner.init, jax.random.PRNGKey(0))

    def networks(tag: str) -> Networks:
        return Networks(
            actor=_placed(planned.actor.params, find.parameters(tag, "actor")),
            critic=_placed(planned.critic.params, find.parameters(tag, "critic")),
            target=_placed(planned.target, find.parameters(tag, "target")),
            log_temperature=None if planned.log_temperature is None else find.log_temperature(tag).reshape(()),
            target_actor=_placed(planned.target_actor, find.parameters(tag, "target_actor")),
        )

    def batch_stats(tag: str) -> BatchStats:
        return BatchStats(
            *(
                _placed(part.batch_stats, find.parameters(tag, name))
                for name, part in (("actor", planned.actor), ("critic", planned.critic))
            )
        )

    def moments(tag: str) -> Moments:
        assert find.moments is not None
        found: list[Any] = [
            tuple(_placed(part.params, find.moments(tag, name, which)) for which in "mv")
            for name, part in (("actor", planned.actor), ("critic", planned.critic))
        ]
        if planned.log_temperature is not None:
            found.append(tuple(find.moments(tag, "temperature", which)("", 0).reshape(()) for which in "mv"))
        return Moments(*found)

    before, stats = networks(start), batch_stats(start)
    state = LearnerState(
        actor=learner.start(before.actor, stats.actor),
        critic=learner.start(before.critic, stats.critic),
        target=before.target,
        log_temperature=None if planned.log_temperature is None else learner.start(before.log_temperature),
        updates=jnp.full((), updates, jnp.int32),
        key=jax.random.PRNGKey(0),
        target_actor=before.target_actor,
        actor_metrics=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), planned.actor_metrics),
    )
    if updates:  # the optimisers are under way
        parts = ("actor", "critic", "log_temperature")
        for part, (mu, nu), count in zip(parts, moments(start), (actor_steps, updates, actor_steps), strict=True):
            train_state = getattr(state, part)
            optimizer = train_state.optimizer._replace(mu=mu, nu=nu, count=jnp.full((), count, jnp.int32))
            state = state._replace(**{part: train_state._replace(optimizer=optimizer)})
    return {
        "start": state,
        "expected": {number: networks(tag) for number, tag in tags.items()},
        "moments": {number: moments(tags[number]) for number in with_moments},
        "batch_stats": {n: batch_stats(tag) for n, tag in tags.items()} if stats.actor is not None else {},
    }


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

        def parameters(tag: str, network: str) -> Callable[[str, int], Any]:
            depth = settings["actor.depth" if network == "actor" else "critic.depth"]
            names, arrays = _simba_names(depth), _below(data, f"{tag}/{network}/")
            return lambda name, _: arrays[names[name]]

        find = Find(parameters, lambda tag: data[f"{tag}/temperature/log_temp"])
        tags = sorted({name.partition("/")[0] for name in data if name.startswith("update")})
        return Trace(
            learner=learner,
            batches=batches,
            noise={"normal": (data["noise/actor"], data["noise/next"])},
            losses=_losses(data, "metrics/"),
            **_assemble(learner, find, "before", {int(tag.removeprefix("update")): tag for tag in tags}),
        )


def _rounded(value: Any) -> float:
    """The decimal that was meant by a float32."""
    return float(str(np.float32(value)))


_MLP_NAMES = {"predictor": "out", "predictor_mean": "mean", "predictor_log_std": "log_std"}


def _read_baseline(preset: str, settings: Mapping[str, Any]) -> Callable[[Path], Trace]:
    """TD3, SAC, TQC, DroQ and REDQ share one form of record: `net.layer.leaf` after a tag."""

    def read(file: Path) -> Trace:
        data = _load(file)
        with damage(file):
            hp = {name.removeprefix("hp."): _rounded(data[name]) for name in data if name.startswith("hp.")}
            sizes = int(hp["obs_dim"]), int(hp["act_dim"])
            updates = int(hp["num_updates"])
            used: dict[str, Any] = {
                "actor.width": hp["hidden0"],
                "critic.width": hp["hidden0"],
                "critic.depth": 2,
                "critic.num_critics": hp["n_critics"],
                "actor_every": hp["policy_delay"],
                "target.tau": hp["tau"],
                "learning_rate.rate": hp["lr_actor"],
                "discount": hp["gamma"],
                **settings,
            }
            config = _scheduled(override(presets.preset(preset), used), updates)
            learner = Learner(config, *sizes)
            nets = {"target": "target_critic"}

            def named(prefix: str, network: str) -> Callable[[str, int], Any]:
                def find(name: str, _: int) -> Any:
                    *layers, leaf = name.split("/")
                    layer = layers[-1]
                    if layer.startswith(("Dense_", "LayerNorm_")):
                        layer = layer.replace("Dense_", "hidden").replace("LayerNorm_", "norm")
                    elif network in ("actor", "target_actor") and learner.networks.temperature is None:
                        layer = "out"
                    else:
                        layer = _MLP_NAMES[layer]
                    return data[f"{prefix}{layer}.{leaf}"]

                return find

            def moments(tag: str, network: str, which: str) -> Callable[[str, int], Any]:
                if network == "temperature":
                    return lambda *_: data[f"adam_{tag}.temperature.{which}"]
                return named(f"adam_{tag}.{network}.{which}.", network)

            find = Find(
                lambda tag, network: named(f"{tag}.{nets.get(network, network)}.", network),
                lambda tag: data[f"{tag}.log_temperature"],
                moments,
            )
            tags = {number: f"after{number}" for number in (1, 2, 4, 8)}
            turns = data["flag.actor_updated"]
            losses = {
                name: data[f"trace.{name}"]
                for name in ("critic_loss", "actor_loss", "entropy")
                if f"trace.{name}" in data and (name != "entropy" or learner.networks.temperature)
            }
            # Adam's moments of a network that has not stepped yet are zero.
            stepped = [number for number in tags if turns[:number].any()]
            return Trace(
                learner=learner,
                batches=Transition(
                    data["batch.obs"],
                    data["batch.action"],
                    data["batch.reward"],
                    (data["batch.discount"] * (1 - data["batch.terminated"])).astype(np.float32),
                    data["batch.next_obs"],
                ),
                noise=_baseline_noise(data),
                losses=losses,
                actor_turns=turns,
                **_assemble(learner, find, "init", tags, stepped),
            )

    return read


def _baseline_noise(data: Arrays) -> Noise:
    names = ("noise.target_policy_raw", "noise.next_action", "noise.actor_action")
    noise = {"normal": tuple(data[name] for name in names if name in data)}
    if "noise.subset" in data:
        noise["choice"] = (data["noise.subset"].astype(np.int32),)
    if "noise.mask_target_layer0" in data:
        noise["bernoulli"] = tuple(
            data[f"noise.mask_{use}_layer{layer}"][:, critic]
            for use in ("target", "current", "actor")
            for critic in range(2)
            for layer in range(2)
        )
    return noise


def _read_batch_norm_mlp(preset: str) -> Callable[[Path], Trace]:
    """XQC and CrossQ: `tag/network/layer/leaf`."""

    def read(file: Path) -> Trace:
        data = _load(file)
        with damage(file):
            told = json.loads(str(data["config"]))
            batches = _batches(data, "batch/", discount=0.99)
            sizes = (batches.observation.shape[-1], batches.action.shape[-1])
            started = int(data["before/adam/critic/count"])
            settings = {
                "actor.width": data["before/actor/block0/dense/kernel"].shape[-1],
                "critic.width": data["before/critic/block0/dense/kernel"].shape[-1],
                "discount": 0.99,
            }
            config = _scheduled(override(presets.preset(preset), settings), told.get("lr_transition_updates", 1))
            learner = Learner(config, *sizes)
            leaves = {"mean": "running_mean", "var": "running_var", "steps": "renorm_steps"}
            heads = {"predictor": "head", "predictor_mean": "head_mean", "predictor_log_std": "head_log_std"}

            def named(prefix: str) -> Callable[[str, int], Any]:
                def find(name: str, _: int) -> Any:
                    *layers, leaf = name.split("/")
                    kind, _, number = layers[-1].rpartition("_")
                    if kind == "BatchNormLayer":
                        layer = "input_norm" if number == "0" else f"block{int(number) - 1}/norm"
                    elif kind in ("Dense", "UnitDense"):
                        layer = f"block{number}/dense"
                    else:
                        layer = heads[layers[-1]]
                    return data[f"{prefix}{layer}/{leaves.get(leaf, leaf)}"]

                return find

            def moments(tag: str, network: str, which: str) -> Callable[[str, int], Any]:
                if network != "temperature":
                    return named(f"{tag}/adam/{network}/{which}/")
                place = f"{tag}/adam/temperature/{which}"
                return lambda *_: data[place if place in data else f"{place}/log_alpha"]

            find = Find(
                lambda tag, network: named(f"{tag}/{network}/"),
                lambda tag: data[f"{tag}/temperature/log_alpha"],
                moments,
            )
            turns = data["metrics/actor_applied"]
            tags = {int(name[6:8]): name[:8] for name in data if name.startswith("update")}
            actor_steps = int(data["before/adam/actor/count"])
            return Trace(
                learner=learner,
                batches=batches,
                noise={"normal": (data["noise/next_action"], data["noise/actor"])},
                losses=_losses(data, "metrics/"),
                actor_turns=turns,
                **_assemble(learner, find, "before", tags, sorted(tags), started, actor_steps),
            )

    return read


def _read_flashsac(file: Path) -> Trace:
    """FlashSAC: PyTorch's layout, one network for each critic."""
    data = _load(file)
    with damage(file):
        batches = _batches(data, "batch/", discount=_rounded(data["const/discount"]))
        sizes = (batches.observation.shape[-1], batches.action.shape[-1])
        settings = {
            "actor.width": data["before/actor/embed/linear/weight"].shape[0],
            "critic.width": data["before/critic1/embed/linear/weight"].shape[0],
            "learning_rate.hold": int(data["const/schedule_warmup_steps"]),
            "target.tau": _rounded(data["const/tau"]),
            "actor_every": int(data["const/actor_update_period"]),
            "discount": _rounded(data["const/discount"]),
        }
        config = _scheduled(
            override(presets.preset("flashsac"), settings), int(data["const/schedule_decay_steps"])
        )
        learner = Learner(config, *sizes)
        dense = ["embed/linear"] + [f"block{b}/linear{n}" for b in (0, 1) for n in (1, 2)]
        norms = ["embed/bn"] + [f"block{b}/bn{n}" for b in (0, 1) for n in (1, 2)]
        heads = {"predictor": "head", "predictor_mean": "head_mean", "predictor_log_std": "head_logstd"}

        def parameters(tag: str, network: str) -> Callable[[str, int], Any]:
            def find(name: str, critic: int) -> Any:
                place = f"{tag}/{network}/" if network == "actor" else f"{tag}/{network}{critic + 1}/"
                *layers, leaf = name.split("/")
                kind, _, number = layers[-1].rpartition("_")
                if kind == "RMSNorm":
                    return data[f"{place}rms/scale"][None]
                if kind == "BatchNormLayer":
                    layer = norms[int(number)]
                    if leaf == "affine":
                        return np.stack([data[f"{place}{layer}/scale"], data[f"{place}{layer}/bias"]])
                    return data[f"{place}{layer}/running_{leaf}"]
                layer = dense[int(number)] if kind == "UnitDense" else heads[layers[-1]]
                return data[f"{place}{layer}/bias"] if leaf == "bias" else data[f"{place}{layer}/weight"].T

            return find

        find = Find(parameters, lambda tag: data[f"{tag}/temperature/log_temp"])
        tags = {int(name[6:8]): name[:8] for name in data if name.startswith("update")}
        return Trace(
            learner=learner,
            batches=batches,
            noise={"normal": (data["noise/actor"], data["noise/next"])},
            losses=_losses(data, "metric/"),
            actor_turns=np.isfinite(data["metric/actor_loss"]),
            **_assemble(learner, find, "before", tags),
        )


_BASELINE = {"parameters": Limit(2e-6), "losses": Limit(5e-5), "moments": Limit(3e-5)}
_REDQ = {"parameters": Limit(1e-5), "losses": Limit(2e-2), "moments": Limit(2e-3)}
_CROSSQ = Method(_read_batch_norm_mlp("crossq"), Limit(2e-6), Limit(1e-3), Limit(1e-4), batch_stats=Limit(1e-5))
_XQC = Method(
    _read_batch_norm_mlp("xqc"), Limit(1e-4, beyond=1e-5, share=1e-3), Limit(5e-4), batch_stats=Limit(1e-4)
)
_SAC = {
    "update_order": "critic-first",
    "actor.architecture.init": "lecun",
    "critic.architecture.init": "lecun",
    "policy.log_std_low": -20.0,
    "policy.log_std_bound": "clip",
    "policy.temperature_loss": "log_alpha",
    "value.weight": 0.5,
    "actor_turn": "last",
}
_AUTHORS_REDQ = {"update_order": "together", "policy.tanh_epsilon": 1e-6}
METHODS = {
    "simbav2": Method(_read_simbav2, parameters=Limit(1e-5), losses=Limit(1e-5), moments=Limit(1e-4)),
    "simba": Method(_read_simba, parameters=Limit(1e-5), losses=Limit(5e-5)),
    "sac": Method(_read_baseline("sac", _SAC), **_BASELINE),
    # Stable-Baselines3's is the paper's TD3; sbx's differs in three things at once.
    "td3sb3": Method(_read_baseline("td3", {}), **_BASELINE),
    "td3": Method(
        _read_baseline("td3", {"critic.actor_q": "min", "target.with_actor": False, "value.weight": 0.5}),
        **_BASELINE,
    ),
    "tqc": Method(_read_baseline("tqc", {}), **_BASELINE),
    "droqmean": Method(_read_baseline("droq", {"value.weight": 0.5}), **_BASELINE),
    "droq": Method(_read_baseline("droq", {"value.weight": 0.5, "critic.actor_q": "min"}), **_BASELINE),
    "redqpaper": Method(_read_baseline("redq", {}), **_BASELINE),
    "redq": Method(_read_baseline("redq", _AUTHORS_REDQ), **_REDQ),
    "crossq": _CROSSQ,
    "crossq_renorm": _CROSSQ,
    "xqc": _XQC,
    "xqc_warm": _XQC._replace(parameters=Limit(2e-5, beyond=1e-5, share=1e-3)),
    "flashsac": Method(
        _read_flashsac,
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
