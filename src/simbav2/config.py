"""One frozen tree that decides a run. Plain data: importing it costs nothing.

The parts (`Hyperspherical`, `Gaussian`, `Categorical`, ...) say *what*; `networks`, `losses` and `learner` know
*how*. `None` means "as the task has it": `Config.resolve` fills such fields in, and a resolved config is what a
run folder holds.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from simbav2.envs.tasks import Task
from simbav2.errors import DropBadSteps, InputError, nearest


@dataclass(frozen=True)
class Scaler:
    """A trainable vector that starts at `scale` and acts as `vector * initial / scale`.

    `None` is the paper's value: sqrt(2 / size) for scalers; 1 / (depth + 1) and 1 / sqrt(width) for the lerp.
    """

    initial: float | None = None
    scale: float | None = None


@dataclass(frozen=True)
class Shifted:
    """Append `constant` (c_shift) to the input, then normalise: the input's length is not lost on the sphere."""

    constant: float = 3.0
    unit: bool = True  # False leaves out the normalisation


@dataclass(frozen=True)
class Unshifted:
    """Normalise the input as it is; its length is lost."""


@dataclass(frozen=True)
class Resized:
    """Divide the input by `constant * sqrt(size)`, then append what it lacks to length one."""

    constant: float = 3.0


@dataclass(frozen=True)
class Hyperspherical:
    """Weights and features on the unit sphere (paper, section 4)."""

    input: Shifted | Unshifted | Resized = Shifted()
    scaler: Scaler = Scaler()
    lerp: Scaler = Scaler()
    head_scaler: Scaler = Scaler(initial=1.0, scale=1.0)
    head_bias: bool = True


@dataclass(frozen=True)
class PreLayerNorm:
    """Residual blocks behind a layer normalisation, and one more at their end."""


@dataclass(frozen=True)
class Perceptron:
    """Linear layers with relu."""


Architecture = Hyperspherical | PreLayerNorm | Perceptron


@dataclass(frozen=True)
class Actor:
    width: int = 128
    depth: int = 1
    architecture: Architecture = Hyperspherical()


@dataclass(frozen=True)
class Critic:
    width: int = 512
    depth: int = 2
    architecture: Architecture = Hyperspherical()
    members: int | None = None  # None: two (clipped double Q) where the task can fail, else one


@dataclass(frozen=True)
class Gaussian:
    """A tanh-squashed Gaussian, trained with a temperature that seeks `target_entropy` per action dimension."""

    log_std_low: float = -10.0
    log_std_high: float = 2.0
    initial_temperature: float = 0.01
    target_entropy: float = -0.5


@dataclass(frozen=True)
class Deterministic:
    """One action for one observation; exploration adds Gaussian noise of this deviation."""

    noise: float = 0.1


@dataclass(frozen=True)
class Return:
    """The actor seeks return (and entropy) alone."""


@dataclass(frozen=True)
class ReturnAndCloning:
    """The actor is held to the actions of the batch as well: `weight` * mean |Q| * mean (pi(o) - a)^2.

    While acting after learning from data, the weight falls linearly to zero over the decisions to come.
    """

    weight: float = 0.1


@dataclass(frozen=True)
class Cloning:
    """The actor imitates the actions of the batch and seeks nothing else."""


Objective = Return | ReturnAndCloning | Cloning


@dataclass(frozen=True)
class Categorical:
    """Returns as a distribution over evenly spaced atoms, learned by cross entropy."""

    low: float = -5.0
    high: float = 5.0
    atoms: int = 101

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"value.low is {self.low}; expected less than value.high, {self.high}")


@dataclass(frozen=True)
class Scalar:
    """The mean return alone, learned by squared error."""


@dataclass(frozen=True)
class RewardScaling:
    """Divide rewards by the running deviation of the return, so that no return seen exceeds `bound`."""

    bound: float | None = 5.0  # None: the deviation alone
    epsilon: float = 1e-8


@dataclass(frozen=True)
class RawRewards:
    """Rewards as they come."""


@dataclass(frozen=True)
class SoftTarget:
    """With every update, a share `tau` of the critic enters its target."""

    tau: float = 0.005


@dataclass(frozen=True)
class HardTarget:
    """The target is the critic as it was at the last multiple of `every` updates."""

    every: int = 200


@dataclass(frozen=True)
class LinearDecay:
    """The learning rate, over all updates of `env_steps`."""

    initial: float = 1e-4
    final: float = 5e-5

    def __str__(self) -> str:
        return f"{self.initial:g} to {self.final:g}"


@dataclass(frozen=True)
class Constant:
    """The same learning rate throughout."""

    rate: float = 1e-4

    def __str__(self) -> str:
        return f"{self.rate:g}, constant"


@dataclass(frozen=True)
class Replay:
    capacity: int = 1_000_000  # transitions
    batch_size: int = 256
    n_step: int = 1


@dataclass(frozen=True)
class Data:
    """Recorded experience that a run learns from before it acts; none in online training.

    `transitions` and `sha256` are the data's own, so that a resumed run meets the same data or refuses.
    """

    source: str | None = None  # a D4RL or Minari id, or an HDF5 file
    file: str | None = None  # where the source's file is, when not in the cache
    passes: float = 100.0
    transitions: int = 0
    sha256: str | None = None


UPDATES_PER_DISPATCH = 10  # on recorded data, where no decision has to come in between


@dataclass(frozen=True)
class Schedule:
    """When the loop stops to look at itself, in simulator steps, and what it keeps.

    One update on recorded data counts as one step.
    """

    log_every: int = 1_000
    evaluate_every: int = 10_000
    evaluation_episodes: int = 10
    checkpoint_every: int = 50_000
    measure_every: int = 1_000  # norms and the like, with the log that follows
    checkpoint_minutes: float = 10.0  # at the latest this long after the last; 0: by steps alone
    keep: int = 2  # checkpoints; the one before the newest serves should that be damaged


@dataclass(frozen=True)
class Config:
    task: str = ""
    preset: str = "simbav2"
    design: str | None = None  # the change of the paper's design study that was made to the preset
    seed: int = 0
    env_steps: int = 1_000_000
    action_repeat: int | None = None  # None: the task's own
    num_envs: int = 1
    warmup_decisions: int = 5_000  # before the first update: uniform, or what was learned from data
    updates_per_decision: float | None = 2.0  # None: as many as simulator steps, i.e. the action repeat
    discount: float | None = None  # None: the heuristic of the paper, from the episode's length
    reset_every: int | None = None  # updates after which networks and optimisers start anew
    weight_decay: float = 0.0
    # Failed environment steps that are discarded instead of stopping the run: those of a simulation that diverged,
    # any (exceptions and non-finite values of your own environment too), or none.
    drop_bad_steps: DropBadSteps = "diverged"
    actor: Actor = Actor()
    critic: Critic = Critic()
    policy: Gaussian | Deterministic = Gaussian()
    objective: Objective = Return()
    value: Categorical | Scalar = Categorical()
    rewards: RewardScaling | RawRewards = RewardScaling()
    target: SoftTarget | HardTarget = SoftTarget()
    learning_rate: LinearDecay | Constant = LinearDecay()
    replay: Replay = Replay()
    data: Data = Data()
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        if self.data.source and not self.data.transitions:
            raise InputError("data.source comes without its transitions; use `simbav2 offline`, which counts them")
        for name, value in leaves(self).items():
            if name in _RANGES and value is not None:
                fits, expected = _RANGES[name]
                if not fits(value):
                    raise InputError(f"{name} is {value}; expected {expected}")

    def resolve(self, task: Task) -> Config:
        """The same run with every open field filled in from the facts of its task."""
        repeat = self.action_repeat or task.action_repeat
        members = self.critic.members or (2 if task.fails else 1)
        resolved = replace(
            self,
            task=task.id,
            action_repeat=repeat,
            updates_per_decision=self.updates_per_decision or float(repeat),
            discount=self.discount or heuristic_discount(task.episode_length, repeat),
            critic=replace(self.critic, members=members),
        )
        (_, every), steps = resolved.rhythm, -(-resolved.decisions // self.num_envs)
        if 0 < steps < every:
            raise InputError(
                f"updates_per_decision is {resolved.updates_per_decision:g}: the first update comes after "
                f"{every * self.num_envs:,} decisions, and the run has {resolved.decisions:,}; raise one of them"
            )
        return resolved

    @property
    def rhythm(self) -> tuple[int, int]:
        """(K, q): K updates in one dispatch after every q steps of the vector environment."""
        assert self.updates_per_decision is not None
        ratio = Fraction(self.updates_per_decision) * self.num_envs
        if ratio < 1:  # then steps per update are rounded: the other way, a small ratio would become zero
            return (1 / ratio).limit_denominator(1000).as_integer_ratio()[::-1]
        return ratio.limit_denominator(1000).as_integer_ratio()

    @property
    def imitates(self) -> bool:
        """Whether the actor is held to actions that somebody took: then there is no learning without data."""
        return not isinstance(self.objective, Return)

    @property
    def scheduled(self) -> bool:
        """Whether updates depend on `env_steps`: the learning rate or the cloning term follows it."""
        return self.imitates or not isinstance(self.learning_rate, Constant)

    @property
    def decisions(self) -> int:
        """Actions the policy chooses in `env_steps`."""
        assert self.action_repeat is not None
        return (self.env_steps - self.offline_updates) // self.action_repeat

    @property
    def offline_updates(self) -> int:
        """Updates on recorded data, in whole dispatches; they come first and count as one of `env_steps` each."""
        updates = self.data.passes * self.data.transitions / self.replay.batch_size
        return math.ceil(updates / UPDATES_PER_DISPATCH) * UPDATES_PER_DISPATCH

    @property
    def online_updates(self) -> int:
        """Updates between decisions."""
        assert self.updates_per_decision is not None
        return max(1, round((self.decisions - self.warmup_decisions) * self.updates_per_decision))

    @property
    def updates(self) -> int:
        """Updates the learning rate's schedule is made for: those on recorded data where there is any."""
        return self.offline_updates or self.online_updates

    def digest(self) -> str:
        """A hash of what differs from the default config: a new field with a neutral default renames no run.

        The schedule is left out: how often a run logs, evaluates and saves does not change what it learns.
        """
        changes = _changes(replace(self, schedule=Schedule()), type(self)())
        return hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The digest, with what a person looks for before it; the name of the run's folder."""
        task = re.sub(r"[^A-Za-z0-9.-]+", "-", self.task).strip("-.")[:100]
        system = f"{self.preset}-{self.design}" if self.design else self.preset
        return f"{task}-{system}-s{self.seed}-{self.digest()}"


Range = tuple[Callable[[Any], bool], str]


def _at_least(low: float) -> Range:
    return (lambda value: value >= low), f"at least {low}"


_POSITIVE: Range = (lambda value: value > 0), "more than 0"
_SHARE: Range = (lambda value: 0 < value <= 1), "more than 0 and at most 1"
_RANGES: dict[str, Range] = {
    **dict.fromkeys(
        (
            *("seed", "weight_decay", "policy.noise", "objective.weight", "data.transitions"),
            "schedule.checkpoint_minutes",
            "warmup_decisions",
        ),
        _at_least(0),
    ),
    **dict.fromkeys(
        (
            *("env_steps", "action_repeat", "num_envs", "reset_every", "target.every"),
            *("actor.width", "actor.depth", "critic.width", "critic.depth", "critic.members"),
            *("replay.capacity", "replay.batch_size", "replay.n_step"),
            *("schedule.log_every", "schedule.evaluate_every", "schedule.evaluation_episodes"),
            *("schedule.checkpoint_every", "schedule.measure_every", "schedule.keep"),
        ),
        _at_least(1),
    ),
    "value.atoms": _at_least(2),
    **dict.fromkeys(
        (
            *("updates_per_decision", "learning_rate.initial", "learning_rate.final", "learning_rate.rate"),
            *("policy.initial_temperature", "rewards.bound", "rewards.epsilon", "data.passes"),
        ),
        _POSITIVE,
    ),
    **dict.fromkeys(("discount", "target.tau"), _SHARE),
}


def heuristic_discount(episode_length: int, action_repeat: int) -> float:
    """gamma = clip((L/5 - 1) / (L/5), 0.95, 0.995), L the decisions in one episode."""
    fifth = episode_length / action_repeat / 5
    return min(max((fifth - 1) / fifth, 0.95), 0.995)


# Overrides and JSON: both walk the tree by its type hints. A field that may hold one of several parts is a
# setting itself, whose value is the name of the part's class. ----------------------------------------------

Tree = TypeVar("Tree")
_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _parts(hint: Any) -> dict[str, type]:
    """The classes of parts that a field may hold, by name; none for plain settings."""
    options: tuple[Any, ...] = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return {option.__name__: option for option in options if dataclasses.is_dataclass(typing.cast(Any, option))}


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting of the tree by its dotted name."""
    found: dict[str, Any] = {}
    for name, hint in _hints(type(tree)).items():
        value, parts = getattr(tree, name), _parts(hint)
        if len(parts) != 1:
            found[prefix + name] = type(value).__name__ if parts else value
        if parts:
            found |= leaves(value, f"{prefix}{name}.")
    return found


def lookup(tree: Any, name: str) -> Any:
    """The setting or part at a dotted name."""
    return functools.reduce(getattr, name.split("."), tree)


def _changes(tree: Any, default: Any) -> dict[str, Any]:
    """Dotted name -> value, for every setting that differs from `default`.

    A part of another kind is compared with the defaults of its own class.
    """
    found: dict[str, Any] = {}
    for name, hint in _hints(type(tree)).items():
        value, before = getattr(tree, name), getattr(default, name)
        if not _parts(hint):
            if value != before:
                found[name] = value
            continue
        if type(value) is not type(before):
            found[name], before = type(value).__name__, type(value)()
        found |= {f"{name}.{inner}": changed for inner, changed in _changes(value, before).items()}
    return found


def override(tree: Tree, changes: Mapping[str, Any]) -> Tree:
    """A new tree with `changes` (dotted names; dashes are as good as underscores) put in and checked."""
    for name, value in changes.items():
        tree = _put(tree, name.replace("-", "_").split("."), value, name, tree)
    return tree


def _put(node: Any, path: list[str], value: Any, name: str, root: Any) -> Any:
    hints = _hints(type(node)) if dataclasses.is_dataclass(node) else {}
    if path[0] not in hints:
        raise InputError(f"unknown setting {name!r}{nearest(name.replace('-', '_'), leaves(root))}")
    head, rest = path[0], path[1:]
    if rest:
        return replace(node, **{head: _put(getattr(node, head), rest, value, name, root)})
    parts = _parts(hints[head])
    if parts:
        return replace(node, **{head: _part(getattr(node, head), parts, value, name)})
    return replace(node, **{head: _coerce(value, hints[head], name)})


def _part(present: Any, parts: dict[str, type], value: Any, name: str) -> Any:
    """The part called `value`, or `value` itself where it is one; naming the one present changes nothing."""
    if type(value) in parts.values():
        return value
    if len(parts) == 1:
        raise InputError(f"{name!r} is a group of settings; set one of {', '.join(leaves(present, f'{name}.'))}")
    if str(value) not in parts:
        raise InputError(f"{name} is {value!r}; expected {' or '.join(parts)}{nearest(str(value), parts)}")
    return present if type(present) is parts[value] else parts[value]()


def _coerce(value: Any, hint: Any, name: str) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        names = typing.get_args(hint)
        if value in names:
            return value
        raise InputError(f"{name} is {value!r}; expected {' or '.join(names)}{nearest(str(value), names)}")
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        if type(None) in options:
            return None
    else:
        for option in options:
            converted = _convert(value, option)
            if converted is not None:
                return converted
    expected = " or ".join("none" if option is type(None) else option.__name__ for option in options)
    raise InputError(f"{name} is {value!r}; expected {expected}")


def _convert(value: Any, kind: type) -> Any:
    """`value` as `kind`, or None where it is no such thing. '1e6' and 1_000_000 are whole numbers, True is not."""
    if kind is bool:
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind in (int, float):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        if not math.isfinite(number) or (kind is int and not number.is_integer()):
            return None
        return kind(number)
    return value if isinstance(value, kind) else None


def to_json(tree: Any) -> dict[str, Any]:
    """Plain data; a part that could have been another says which it is by `kind`."""
    data: dict[str, Any] = {}
    for name, hint in _hints(type(tree)).items():
        value, parts = getattr(tree, name), _parts(hint)
        kind = {"kind": type(value).__name__} if len(parts) > 1 else {}
        data[name] = kind | to_json(value) if parts else value
    return data


def other_schedule(found: Mapping[str, Any], config: Config) -> str:
    """The settings in the schedule of a run folder's `config.json` that differ from `config`, as text."""
    ours = to_json(config.schedule)
    return ", ".join(f"schedule.{name} {value}" for name, value in found.items() if value != ours.get(name, value))


def from_json(data: Mapping[str, Any]) -> Config:
    """The config that `to_json` wrote, possibly in an older version: a missing field takes its default.

    Unknown and ill-typed fields are refused.
    """
    return _read(Config(), data, "")


def _read(default: Tree, data: Any, prefix: str) -> Tree:
    """`default` with the fields that `data` has."""
    if not isinstance(data, Mapping):
        raise InputError(f"config {prefix.rstrip('.') or 'file'} is {data!r}; expected a group of settings")
    hints = _hints(type(default))
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise InputError(f"unknown setting {name!r}{nearest(str(key), hints)}")
        parts = _parts(hints[key])
        values[key] = (
            _read_part(getattr(default, key), parts, value, name) if parts else _coerce(value, hints[key], name)
        )
    return replace(typing.cast(Any, default), **values)


def _read_part(default: Any, parts: dict[str, type], data: Any, name: str) -> Any:
    if len(parts) > 1 and isinstance(data, Mapping) and "kind" in data:
        data = dict(data)
        kind = str(data.pop("kind"))
        if kind not in parts:
            raise InputError(f"config {name}.kind is {kind!r}; expected {' or '.join(parts)}")
        if parts[kind] is not type(default):
            default = parts[kind]()
    return _read(default, data, f"{name}.")
