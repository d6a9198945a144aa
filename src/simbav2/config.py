"""One frozen tree that decides a run. Plain data: importing it costs nothing.

The parts (`Hyperspherical`, `Gaussian`, `Categorical`, ...) say *what*; `networks`, `losses` and `learner` know
*how*. `None` means "as the task has it": `Config.resolve` fills such fields in, and a resolved config is what a
run folder holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from simbav2.envs.tasks import Task
from simbav2.errors import InputError, nearest


@dataclass(frozen=True)
class Scaler:
    """A trainable vector that starts at `scale` and acts as `vector * initial / scale`.

    `None` is the paper's value: sqrt(2 / size) for scalers; 1 / (depth + 1) and 1 / sqrt(width) for the lerp.
    """

    initial: float | None = None
    scale: float | None = None


@dataclass(frozen=True)
class Hyperspherical:
    """Weights and features on the unit sphere (paper, section 4)."""

    shift: float = 3.0
    scaler: Scaler = Scaler()
    lerp: Scaler = Scaler()
    head_scaler: Scaler = Scaler()
    head_bias: bool = False


@dataclass(frozen=True)
class Actor:
    width: int = 128
    depth: int = 1
    architecture: Hyperspherical = Hyperspherical()


@dataclass(frozen=True)
class Critic:
    width: int = 512
    depth: int = 2
    architecture: Hyperspherical = Hyperspherical()
    members: int | None = None  # None: two (clipped double Q) where the task can fail, else one


@dataclass(frozen=True)
class Gaussian:
    """A tanh-squashed Gaussian, trained with a temperature that seeks `target_entropy` per action dimension."""

    log_std_low: float = -10.0
    log_std_high: float = 2.0
    initial_temperature: float = 0.01
    target_entropy: float = -0.5


@dataclass(frozen=True)
class Categorical:
    """Returns as a distribution over evenly spaced atoms, learned by cross entropy."""

    low: float = -5.0
    high: float = 5.0
    atoms: int = 101


@dataclass(frozen=True)
class RewardScaling:
    """Divide rewards by the running deviation of the return, so that no return seen exceeds `bound`."""

    bound: float = 5.0
    epsilon: float = 1e-8


@dataclass(frozen=True)
class LinearDecay:
    """The learning rate, over all updates of `env_steps`."""

    initial: float = 1e-4
    final: float = 3e-5


@dataclass(frozen=True)
class Replay:
    capacity: int = 1_000_000  # transitions
    batch_size: int = 256
    n_step: int = 1


@dataclass(frozen=True)
class Schedule:
    """When the loop stops to look at itself, in simulator steps, and what it keeps."""

    log_every: int = 1_000
    evaluate_every: int = 10_000
    evaluation_episodes: int = 10
    checkpoint_every: int = 50_000
    checkpoint_minutes: float = 10.0  # at the latest this long after the last
    keep: int = 2  # checkpoints; the one before the newest serves should that be damaged


@dataclass(frozen=True)
class Config:
    task: str = ""
    preset: str = "paper"
    seed: int = 0
    env_steps: int = 1_000_000
    action_repeat: int | None = None  # None: the task's own
    num_envs: int = 1
    warmup_decisions: int = 5_000  # uniform random actions before learning starts
    updates_per_decision: float | None = 2.0  # None: as many as simulator steps, i.e. the action repeat
    discount: float | None = None  # None: the heuristic of the paper, from the episode's length
    tau: float = 0.005  # share of the critic that enters its target with every update
    actor: Actor = Actor()
    critic: Critic = Critic()
    policy: Gaussian = Gaussian()
    value: Categorical = Categorical()
    reward_scaling: RewardScaling = RewardScaling()
    learning_rate: LinearDecay = LinearDecay()
    replay: Replay = Replay()
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        for name, low in _AT_LEAST.items():
            value = _lookup(self, name)
            if value is not None and value < low:
                raise InputError(f"{name} is {value}; expected at least {low}")
        for name in ("updates_per_decision", "learning_rate.initial", "learning_rate.final"):
            value = _lookup(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} is {value}; expected more than 0")
        for name in ("discount", "tau"):
            value = _lookup(self, name)
            if value is not None and not 0 < value <= 1:
                raise InputError(f"{name} is {value}; expected more than 0 and at most 1")
        if not self.value.low < self.value.high:
            raise InputError(f"value.low is {self.value.low}; expected less than value.high, {self.value.high}")

    def resolve(self, task: Task) -> Config:
        """The same run with every open field filled in from the facts of its task."""
        repeat = self.action_repeat or task.action_repeat
        members = self.critic.members or (2 if task.fails else 1)
        return replace(
            self,
            task=task.id,
            action_repeat=repeat,
            updates_per_decision=self.updates_per_decision or float(repeat),
            discount=self.discount or heuristic_discount(task.episode_length, repeat),
            critic=replace(self.critic, members=members),
        )

    @property
    def rhythm(self) -> tuple[int, int]:
        """(K, q): K updates in one dispatch after every q steps of the vector environment."""
        assert self.updates_per_decision is not None
        ratio = Fraction(self.updates_per_decision).limit_denominator(1000) * self.num_envs
        return ratio.numerator, ratio.denominator

    @property
    def decisions(self) -> int:
        """Actions the policy chooses in `env_steps`."""
        assert self.action_repeat is not None
        return self.env_steps // self.action_repeat

    @property
    def updates(self) -> int:
        """Updates the schedules are made for."""
        assert self.updates_per_decision is not None
        return max(1, round((self.decisions - self.warmup_decisions) * self.updates_per_decision))

    def digest(self) -> str:
        """A name for this very run: equal configs, equal digests."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()[:12]


_AT_LEAST = {
    "env_steps": 1,
    "seed": 0,
    "action_repeat": 1,
    "num_envs": 1,
    "warmup_decisions": 1,
    "actor.width": 1,
    "actor.depth": 1,
    "critic.width": 1,
    "critic.depth": 1,
    "critic.members": 1,
    "value.atoms": 2,
    "replay.capacity": 1,
    "replay.batch_size": 1,
    "replay.n_step": 1,
    "schedule.log_every": 1,
    "schedule.evaluate_every": 1,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 1,
    "schedule.checkpoint_minutes": 0,
    "schedule.keep": 1,
}


def heuristic_discount(episode_length: int, action_repeat: int) -> float:
    """gamma = clip((L/5 - 1) / (L/5), 0.95, 0.995), L the decisions in one episode."""
    fifth = episode_length / action_repeat / 5
    return min(max((fifth - 1) / fifth, 0.95), 0.995)


# Overrides and JSON: both walk the tree by its type hints. ------------------------------------------------

Tree = TypeVar("Tree")


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting of the tree by its dotted name."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(tree):
        value = getattr(tree, item.name)
        nested = dataclasses.is_dataclass(value)
        found |= leaves(value, f"{prefix}{item.name}.") if nested else {prefix + item.name: value}
    return found


def override(tree: Tree, changes: Mapping[str, Any]) -> Tree:
    """A new tree with `changes` (dotted names; dashes are as good as underscores) put in and checked."""
    for name, value in changes.items():
        tree = _put(tree, name.replace("-", "_").split("."), value, name, tree)
    return tree


def _put(node: Any, path: list[str], value: Any, name: str, root: Any) -> Any:
    hints = typing.get_type_hints(type(node)) if dataclasses.is_dataclass(node) else {}
    if path[0] not in hints:
        raise InputError(f"unknown setting {name!r}{nearest(name.replace('-', '_'), leaves(root))}")
    head, rest = path[0], path[1:]
    if rest:
        return replace(node, **{head: _put(getattr(node, head), rest, value, name, root)})
    if dataclasses.is_dataclass(getattr(node, head)) and not dataclasses.is_dataclass(value):
        inner = ", ".join(leaves(getattr(node, head), f"{name}."))
        raise InputError(f"{name!r} is a group of settings; set one of {inner}")
    return replace(node, **{head: _coerce(value, hints[head], name)})


def _coerce(value: Any, hint: Any, name: str) -> Any:
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


def _lookup(tree: Any, name: str) -> Any:
    for part in name.split("."):
        tree = getattr(tree, part)
    return tree


def to_json(tree: Any) -> dict[str, Any]:
    return dataclasses.asdict(tree)


def from_json(data: Mapping[str, Any]) -> Config:
    """The config that `to_json` wrote; unknown, missing or ill-typed fields are refused."""
    return _read(Config, data, "")


def _read(kind: type[Tree], data: Any, prefix: str) -> Tree:
    if not isinstance(data, Mapping):
        raise InputError(f"config {prefix.rstrip('.') or 'file'} is {data!r}; expected a group of settings")
    hints = typing.get_type_hints(kind)
    for name in hints.keys() - data.keys():
        raise InputError(f"config lacks {prefix}{name}")
    for name in data.keys() - hints.keys():
        raise InputError(f"unknown setting {prefix + str(name)!r}{nearest(str(name), hints)}")
    values: dict[str, Any] = {}
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            values[name] = _read(typing.cast(type, hint), data[name], f"{prefix}{name}.")
        else:
            values[name] = _coerce(data[name], hint, prefix + name)
    return kind(**values)
