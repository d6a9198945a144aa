"""Frozen dataclasses as a tree of settings: names, bounds, help, overrides and JSON, all read from the fields.

A field that may hold one of several dataclasses ("parts") is a setting itself: its value is the name of the class.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from simbav2.errors import InputError, nearest

_SIDES = {
    "at_least": (operator.ge, "at least"),
    "above": (operator.gt, "more than"),
    "at_most": (operator.le, "at most"),
    "below": (operator.lt, "less than"),
}


class Bounds(dict[str, float]):
    """What a number may be: limits by the names of `_SIDES`."""

    def allow(self, value: float) -> bool:
        return all(_SIDES[side][0](value, limit) for side, limit in self.items())

    def __str__(self) -> str:
        return " and ".join(f"{_SIDES[side][1]} {limit:g}" for side, limit in self.items())


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


def _field_types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


_hints: Callable[[Any], dict[str, Any]] = functools.cache(_field_types)


def _parts(hint: Any) -> dict[str, type]:
    """The classes of parts that a field may hold, by name; none for plain settings."""
    if hasattr(hint, "options"):  # a base class that knows its own
        return dict(hint.options)
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
    """A new tree with `changes` put in and checked, all at once.

    Names are dotted (dashes are as good as underscores), or groups are nested as `to_json` writes them.
    """
    if not isinstance(changes, Mapping):
        raise InputError(f"the config is {changes!r}; expected settings by name")
    return _changed(tree, _nested(changes), "", leaves(tree))


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as groups; the kind of a part is its entry `kind`."""
    nested: dict[str, Any] = {}
    for name, value in changes.items():
        node, (*groups, last) = nested, str(name).replace("-", "_").split(".")
        for group in groups:
            inside = node.get(group, {})
            node[group] = inside if isinstance(inside, dict) else {"kind": inside}
            node = node[group]
        node[last] = {**node[last], "kind": value} if isinstance(node.get(last), dict) else value
    return nested


def _changed(node: Any, changes: Mapping[str, Any], prefix: str, known: Mapping[str, Any]) -> Any:
    hints, values = _hints(type(node)), {}
    for key, value in changes.items():
        name = f"{prefix}{key}"
        parts = _parts(hints.get(key))
        if key not in hints or (not parts and isinstance(value, dict) and value):
            while isinstance(value, dict) and value:  # say the whole name
                inner, value = next(iter(value.items()))
                name += f".{inner}"
            raise InputError(f"unknown setting {name!r}{nearest(name, {**known, **leaves(node, prefix)})}")
        present = getattr(node, key)
        values[key] = _part(present, parts, value, name, known) if parts else _coerce(value, hints[key], name)
    return replace(node, **values)


def _part(present: Any, parts: dict[str, type], value: Any, name: str, known: Mapping[str, Any]) -> Any:
    """The part that `value` is, names, or describes by its settings; naming the one present changes nothing."""
    fields = dict(value) if isinstance(value, Mapping) else {"kind": value}
    part = fields.pop("kind", present)
    if type(part) not in parts.values():
        if len(parts) == 1:
            inside = ", ".join(leaves(present, f"{name}."))
            raise InputError(f"{name} is {part!r}; expected a group of settings: {inside}")
        if str(part) not in parts:
            raise InputError(f"{name} is {part!r}; expected {' or '.join(parts)}{nearest(str(part), parts)}")
        kind = parts[str(part)]
        part = present if type(present) is kind else kind()
    return _changed(part, fields, f"{name}.", known)


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
