"""Frozen dataclasses as a tree of settings: names, bounds, help, overrides and JSON, all read from the fields.

A field that may hold one of several dataclasses ("parts") is a setting itself: its value is the name of the class.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from simbav2.errors import InputError, nearest


class Bounds(NamedTuple):
    """What a number may be; None leaves a side open."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def allow(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        sides = {"at least": self.at_least, "more than": self.above, "at most": self.at_most}
        sides["less than"] = self.below
        return " and ".join(f"{words} {side:g}" for words, side in sides.items() if side is not None)


def setting(default: Any, help: str, **bounds: float) -> Any:
    """A field with its default, a help sentence and, for a number, its `Bounds`."""
    return dataclasses.field(default=default, metadata={"help": help, "bounds": Bounds(**bounds)})


class Setting(NamedTuple):
    """One setting of a tree."""

    name: str  # dotted
    value: Any  # a part by the name of its class
    help: str
    bounds: Bounds
    parts: tuple[str, ...]  # the classes of parts it may hold; none for a plain setting


Tree = TypeVar("Tree")
_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _parts(hint: Any) -> dict[str, type]:
    """The classes of parts that a field may hold, by name; none for plain settings."""
    options: tuple[Any, ...] = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return {option.__name__: option for option in options if dataclasses.is_dataclass(typing.cast(Any, option))}


def settings(tree: Any, prefix: str = "") -> Iterator[Setting]:
    """Every setting of the tree, in the order of its fields."""
    for field in dataclasses.fields(tree):
        hint, value, name = _hints(type(tree))[field.name], getattr(tree, field.name), prefix + field.name
        parts = _parts(hint)
        if len(parts) != 1:
            shown = type(value).__name__ if parts else value
            help, bounds = field.metadata.get("help", ""), field.metadata.get("bounds", Bounds())
            yield Setting(name, shown, help, bounds, tuple(parts))
        if parts:
            yield from settings(value, f"{name}.")


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting's value by its dotted name."""
    return {each.name: each.value for each in settings(tree, prefix)}


def check_bounds(tree: Any) -> None:
    for each in settings(tree):
        if isinstance(each.value, int | float) and not each.bounds.allow(each.value):
            raise InputError(f"{each.name} is {each.value}; expected {each.bounds}")


def lookup(tree: Any, name: str) -> Any:
    """The setting or part at a dotted name."""
    return functools.reduce(getattr, name.split("."), tree)


def changes(tree: Any, default: Any) -> dict[str, Any]:
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
        found |= {f"{name}.{inner}": changed for inner, changed in changes(value, before).items()}
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


def read(default: Tree, data: Any, prefix: str) -> Tree:
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
    return read(default, data, f"{name}.")
