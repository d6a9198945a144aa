"""Which runs form one method. Runs are averaged only where their whole configs agree apart from the seed.

Configs are compared as values: a setting that a run of an older version does not name has its default.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from simbav2.config.presets import OF_DATA, OF_TASK
from simbav2.experiments.report.runs import RunRecord
from simbav2.experiments.report.scores import Method, Trial, in_order, metric, run_curve, unused

OURS = "versions.simbav2"  # runs of two versions are averaged where all settings agree; `run_page.caveats` says so


def methods(runs: Iterable[RunRecord], curves: Iterable[Method] = ()) -> tuple[Method, ...]:
    """All runs, sorted by preset, in methods that may be averaged, and then those that come as `curves`."""
    loose: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        loose[_key(run, _following(run))].append(run)
    alike: list[list[RunRecord]] = []
    for members in loose.values():
        strict: dict[str, list[RunRecord]] = defaultdict(list)
        for run in members:
            strict[_key(run)].append(run)
        per_task = [group[0].task for group in strict.values()]
        # Two configurations on one task are two methods, whatever the difference is.
        alike += [members] if len(set(per_task)) == len(per_task) else list(strict.values())
    alike.sort(key=lambda group: (*_sort_key(group[0]), _key(group[0])))
    found: dict[str, Method] = {}
    for group, name in zip(alike, _labels(alike), strict=True):
        label, config = unused(name, found), group[0].config
        found[label] = Method(label, config.preset, config.ablation, _shared(group), _trials(group))
    for method in curves:
        label = unused(method.label, found)
        found[label] = Method(label, method.preset, None, method.settings, method.trials)
    return tuple(found.values())


def _following(run: RunRecord) -> tuple[str, ...]:
    """What may follow from the task or the data set, so that it differs within a method."""
    return (*OF_TASK, "versions.observation_order", *(OF_DATA if run.dataset else ()))


def _key(run: RunRecord, without: Collection[str] = ()) -> str:
    """All that must agree between runs that are averaged: settings, and versions of the software around us."""
    settings = {name: value for name, value in run.settings.items() if name not in (*without, OURS)}
    by_hand = {name: value for name, value in run.given.items() if name in (*OF_TASK, "then_online")}
    return json.dumps([settings, by_hand], sort_keys=True, default=str)


def _sort_key(run: RunRecord) -> tuple[str, str, int]:
    return run.preset, run.config.ablation or "", len(_given(run))


def _given(run: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in run.given.items() if name != "seed"}


def _shared(group: Sequence[RunRecord]) -> dict[str, Any]:
    """The settings in which all runs of a group agree."""
    return _common([run.settings for run in group])


def _common(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = each
    return {name: value for name, value in first.items() if all(o.get(name, ...) == value for o in others)}


def _trials(group: Sequence[RunRecord]) -> dict[str, tuple[Trial, ...]]:
    by_task: dict[str, list[Trial]] = defaultdict(list)
    for run in sorted(group, key=lambda run: (run.seed, str(run.folder))):
        curve = run_curve(run, metric(run.task))
        by_task[run.task].append(Trial(run.task, run.seed, curve, run.summary is not None, run))
    return {task: tuple(by_task[task]) for task in in_order(by_task)}


# Labels -----------------------------------------------------------------------------------------------------


def _labels(groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """The preset, the ablation and what was set by hand; where several methods agree in that, what differs.

    What was set by hand alike for all of several methods is left out; `common_settings` has it.
    """
    common = _set_for_all([group[0] for group in groups])
    given = [{name: each for name, each in _given(group[0]).items() if name not in common} for group in groups]
    plain = [_label(group[0], own) for group, own in zip(groups, given, strict=True)]
    labels = []
    for group, name, by_hand in zip(groups, plain, given, strict=True):
        alike = [_shared(other) for other, same in zip(groups, plain, strict=True) if same == name]
        fields = sorted(set().union(*alike) - {"task"})
        unlike = [field for field in fields if len({str(each.get(field, "unset")) for each in alike}) > 1]
        # The task stands beside the label already, and with it all that follows from it.
        unlike = [field for field in unlike if field not in _following(group[0])] or unlike
        own = _shared(group)
        labels.append(_label(group[0], {field: own.get(field, "unset") for field in unlike} | by_hand))
    return labels


def common_settings(found: Sequence[Method]) -> dict[str, Any]:
    """What was set by hand alike for all methods, where there are several: their labels do not say it."""
    return _set_for_all([method.runs[0] for method in found if method.runs])


def _set_for_all(runs: Sequence[RunRecord]) -> dict[str, Any]:
    return _common([_given(run) for run in runs]) if len(runs) > 1 else {}


def _label(run: RunRecord, settings: Mapping[str, Any]) -> str:
    shown = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    ]
    ablation = [f"ablation {run.config.ablation}"] if run.config.ablation else []
    return ", ".join([run.preset, *ablation, *shown[:3], *(["…"] if len(shown) > 3 else [])])


# Families ---------------------------------------------------------------------------------------------------


def scaling_families(found: Sequence[Method], field: str) -> dict[str, dict[float, Method]]:
    """Methods that differ in `field` alone, two at least, by its value; named after what they share."""
    follows = {field, *(name for name in OF_TASK if name != "updates_per_decision")}
    families: dict[str, dict[float, Method]] = {}
    for method in found:
        value = method.settings.get(field)
        if isinstance(value, int | float):
            rest = {name: each for name, each in method.settings.items() if name not in follows}
            key = json.dumps(rest, sort_keys=True, default=str)
            families.setdefault(key, {})[float(value)] = method
    named: dict[str, dict[float, Method]] = {}
    for family in families.values():
        if len(family) > 1:
            label = unused(_family_label(list(family.values()), field), named)
            named[label] = dict(sorted(family.items()))
    return named


def _family_label(family: Sequence[Method], field: str) -> str:
    """The words that all labels share, without the field itself."""
    labels = [[part for part in method.label.split(", ") if field not in part] for method in family]
    shared = [part for part in labels[0] if all(part in other for other in labels)]
    return ", ".join(shared) or "methods"
