"""Where methods come from: run folders, and files of curves.

Runs are averaged only where their whole configs agree apart from the seed. Configs are compared as values: a
setting that a run of an older version does not name has its default. Files of curves are in the long CSV of the
field, one row per evaluation, as several groups release theirs:

    exp_name,env_name,seed,metric,env_step,value

Columns may stand in any order and others may stand between them; rows of other metrics are left out.
"""

from __future__ import annotations

import csv
import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.config.presets import OF_DATA, OF_TASK
from simbav2.envs.tasks import tasks
from simbav2.errors import InputError
from simbav2.experiments.report.runs import RunRecord
from simbav2.experiments.report.scores import Curve, Method, Trial, in_order, metric, run_curve, unused

OURS = "versions.simbav2"  # runs of two versions are averaged where all settings agree; `caveats` says so


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


def caveats(run: RunRecord, method: Method) -> Iterator[str]:
    """Reasons not to take a run's result at face value."""
    reached = f"{run.env_steps:,} of {run.config.env_steps:,} {run.step_unit}"
    if run.status == "failed":
        yield f"failed after {reached}"
    elif run.status == "unfinished":
        yield f"unfinished: {reached} so far"
    elif run.env_steps < run.config.env_steps:
        yield f"stopped early, at {reached}; its schedules were made for all of them"
    steps = run.evaluations.env_step
    if not len(steps):
        yield "not evaluated yet"
    elif steps.max() < run.env_steps and run.summary is not None:
        yield f"last evaluated at {steps.max():,.0f} {run.step_unit}, before its end"
    if not np.isfinite(run.evaluations.returns).all():
        yield "some returns are not finite numbers"
    trials = method.trials[run.task]
    if sum(run.seed == trial.seed for trial in trials) > 1:
        yield f"more than one run here has this configuration and seed {run.seed}; they are not independent"
    versions = sorted({str(trial.run.versions.get("simbav2")) for trial in trials if trial.run})
    if len(versions) > 1:
        yield f"averaged over runs of simbav2 {' and '.join(versions)}, whose settings agree"
    yield from run.damage


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


# Files of curves ---------------------------------------------------------------------------------------------

COLUMNS = ("exp_name", "env_name", "seed", "metric", "env_step", "value")
# How the metric is called: `avg_return` by SimbaV2's authors.
METRICS = {
    f"{prefix}{name}": name
    for name in ("return", "success")
    for prefix in ("avg_", "", "mean_", "eval_", "eval/avg_", "eval/")
} | {"episode_return": "return", "success_rate": "success"}


def read_curves(file: str | os.PathLike[str]) -> tuple[Method, ...]:
    """One method for each `exp_name`; steps are taken as they stand."""
    rows: dict[tuple[str, str], dict[int, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    path = Path(file)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path} lacks the column {missing[0]!r}; expected {','.join(COLUMNS)}")
            for row in reader:
                task = _task_id(row["env_name"] or "")
                if METRICS.get(row["metric"]) == metric(task):
                    seed, step, value = (float(row[name]) for name in ("seed", "env_step", "value"))
                    rows[row["exp_name"], task][int(seed)][step] = value
    except InputError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; expected numbers") from error
    if not rows:
        raise InputError(f"{path} has no row with the metric avg_return or avg_success")
    names = dict.fromkeys(name for name, _ in rows)
    return tuple(
        Method(
            label=name,
            preset=name,
            ablation=None,
            settings={},
            trials={
                task: tuple(_read_trial(task, seed, points) for seed, points in rows[name, task].items())
                for task in in_order(task for each, task in rows if each == name)
            },
        )
        for name in names
    )


def _read_trial(task: str, seed: int, points: Mapping[float, float]) -> Trial:
    steps = np.array(sorted(points))
    values = np.array([points[step] for step in steps])
    return Trial(task, seed, Curve(steps, values, values, values, "1 seed"), complete=True)


def _task_id(name: str) -> str:
    """Our id for a task as others spell it (`dog_trot`, `h1-walk-v0`, `dmc-dog-trot`), or the name itself."""
    return _spellings().get(_plain(name), name)


@cache
def _spellings() -> dict[str, str]:
    return {_plain(name): task.id for task in tasks() for name in (task.name, task.id, task.id.replace("/", "-"))}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").removesuffix("-v0")
