"""Methods that differ in one setting alone."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.experiments.report.scores import Method, unused


def scaling_families(methods: Sequence[Method], field: str) -> dict[str, dict[float, Method]]:
    """Methods that differ in `field` alone, two at least, by its value; named after what they share."""
    families: dict[str, dict[float, Method]] = {}
    for method in methods:
        value = _setting(method, field)
        if value is not None:
            rest = {name: each for name, each in method.settings.items() if name != field}
            rest = {name: each for name, each in rest.items() if name not in _RESOLVED}
            families.setdefault(repr(sorted(rest.items(), key=lambda item: item[0])), {})[value] = method
    found: dict[str, dict[float, Method]] = {}
    for family in families.values():
        if len(family) > 1:
            label = unused(_family_label(list(family.values()), field), found)
            found[label] = dict(sorted(family.items()))
    return found


_RESOLVED = ("task", "dataset", "action_repeat", "discount", "critic.num_critics")


def _setting(method: Method, field: str) -> float | None:
    value = method.settings.get(field)
    return float(value) if isinstance(value, int | float) else None


def _family_label(family: Sequence[Method], field: str) -> str:
    """The words that all labels share, without the field itself."""
    first, *others = ([part for part in method.label.split(", ") if field not in part] for method in family)
    shared = [part for part in first if all(part in other for other in others)]
    return ", ".join(shared) or "methods"
