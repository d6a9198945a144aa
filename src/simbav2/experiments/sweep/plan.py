"""Reads a plan, a small TOML file, and lists its runs.

A run is identified by the hash of its settings without the schedule, which names its folder: nothing runs twice,
plans may share runs, and a changed plan keeps its finished runs. Imports nothing heavy.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.config import Config, other_schedule, override, presets, to_json
from simbav2.datasets import D4RL
from simbav2.datasets import find as find_data
from simbav2.envs.tasks import SUITES, Task, families, find, tasks
from simbav2.errors import InputError, nearest

DATA = "d4rl"  # among tasks: all data sets
UNCHANGED = "none"  # among ablations: the preset as it is
_PART = ("tasks", "presets", "ablations", "seeds", "stop_after", "settings", "grid")
_KEYS = ("about", "include", "part", *_PART)
_OWN_KEYS = {"task": "tasks", "preset": "presets", "ablation": "ablations", "seed": "seeds"}  # not settings

Table = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedRun:
    config: Config  # resolved, unless the task is not in the benchmark
    task: Task | None  # the row in the benchmark; for a data set, that of the environment it was recorded in
    settings: tuple[tuple[str, Any], ...]  # on top of preset and ablation
    varied: tuple[str, ...]  # the names of settings that differ within the plan
    stop_after: int | None

    @cached_property
    def name(self) -> str:
        return self.config.name

    @property
    def title(self) -> str:
        ablation = f" {self.config.ablation}" if self.config.ablation else ""
        varied = "".join(f" · {name} {value}" for name, value in self.settings if name in self.varied)
        return f"{self.config.task} · {self.config.preset}{ablation}{varied} · seed {self.config.seed}"

    @property
    def learns_from_data(self) -> bool:
        """Whether the config's task is a data set; what else follows from the data is known once it is read."""
        return self.config.task in D4RL

    @property
    def until(self) -> int | None:
        """Simulator steps at the end; None for as many as the data set asks for."""
        if self.learns_from_data:
            return self.stop_after
        return min(self.stop_after or self.config.env_steps, self.config.env_steps)

    def argv(self, out: Path) -> list[str]:
        """Arguments of `simbav2` that start this run in a folder of `out`, or resume it."""
        command = "offline" if self.learns_from_data else "train"
        argv = run_argv(command, self.config, self.stop_after, dict(self.settings))
        return [*argv, "--out", str(out / self.name), "--auto-resume"]


def run_argv(command: str, config: Config, stop_after: int | None, settings: Mapping[str, Any]) -> list[str]:
    """Arguments of `simbav2` for a run of the config's task, preset, ablation and seed with `settings`."""
    argv = [command, config.task, "--preset", config.preset, "--seed", str(config.seed)]
    argv += ["--ablation", config.ablation] if config.ablation else []
    argv += ["--stop-after", str(stop_after)] if stop_after else []
    return argv + [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


class Plan(NamedTuple):
    name: str
    runs: tuple[PlannedRun, ...]


def named_plans() -> dict[str, Path]:
    """The plans that come with the package, by name."""
    folder = Path(str(resources.files("simbav2.experiments.sweep") / "named"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_plan(plan: str) -> Plan:
    """Read a plan by its file or its name."""
    return _read(_find(plan, Path()), ())


def _find(plan: str, folder: Path) -> Path:
    if (file := folder / plan).is_file():
        return file
    if plan in (named := named_plans()):
        return named[plan]
    raise InputError(f"{plan!r} is neither a file nor one of {', '.join(named)}{nearest(plan, named)}")


def _read(file: Path, including: tuple[Path, ...]) -> Plan:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        _check_keys(data, _KEYS)
        included = _strings(data, "include")
        if included and file in including:
            raise InputError("includes itself")
        plans = [_read(_find(each, file.parent), (*including, file)) for each in included]
        runs = _joined(itertools.chain(*(plan.runs for plan in plans), *map(_expand, _parts(data, not plans))))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    return Plan(file.stem, runs)


def _parts(data: Table, needed: bool) -> Iterator[Table]:
    """Every `[[part]]` merged with the keys above them; without parts, those keys alone."""
    common = {key: data[key] for key in _PART if key in data}
    parts = data.get("part", [{}] if common or needed else [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise InputError("part is not a list of tables; write each as [[part]]")
    for part in parts:
        _check_keys(part, _PART)
        merged = {key: {**_settings(common, key), **_settings(part, key)} for key in ("settings", "grid")}
        yield {**common, **part, **merged}


def _expand(part: Table) -> Iterator[PlannedRun]:
    """Every combination of tasks, presets, ablations, grid and seeds; no run twice."""
    rows = list(_tasks(_strings(part, "tasks")))
    if not rows:
        raise InputError("names no tasks; expected tasks = [...] with task ids or suites")
    from_data, *mixed = {name in D4RL for name, _ in rows}
    if mixed:
        raise InputError("has tasks and data sets together; give each a [[part]] of its own")
    seeds, stop_after = _seeds(part.get("seeds", [0])), part.get("stop_after")
    if stop_after is not None and not (type(stop_after) is int and stop_after > 0):
        raise InputError(f"stop_after is {stop_after!r}; expected a number of simulator steps")
    methods = list(_methods(part, from_data))
    seen: set[str] = set()
    for (name, task), (config, settings), seed in itertools.product(rows, methods, seeds):
        resolved = replace(config.resolve(task) if task else config, task=name, seed=seed)
        run = PlannedRun(resolved, task, tuple(settings.items()), tuple(part["grid"]), stop_after)
        if run.name in seen:
            raise InputError(f"asks twice for {run.title} (the schedule alone does not make another run)")
        seen.add(run.name)
        yield run


def _methods(part: Table, from_data: bool) -> Iterator[tuple[Config, dict[str, Any]]]:
    """Every preset with every ablation and every point of the grid, and the settings on top of them."""
    for name, values in part["grid"].items():
        if not isinstance(values, list) or not values:
            raise InputError(f"grid.{name} is {values!r}; expected a list of values")
    for name in presets.OF_DATA if from_data else ():
        if name in part["settings"] or name in part["grid"]:
            raise InputError(f"{name} follows from the data; choose data.passes instead")
    for preset, ablation, values in itertools.product(
        _strings(part, "presets", presets.FOR_DATA if from_data else presets.DEFAULT),
        _strings(part, "ablations", UNCHANGED),
        itertools.product(*part["grid"].values()),
    ):
        settings = {**part["settings"], **dict(zip(part["grid"], values, strict=True))}
        base = presets.preset(preset, None if ablation == UNCHANGED else ablation)
        yield override(presets.from_data(base) if from_data else base, settings), settings


def _joined(runs: Iterable[PlannedRun]) -> tuple[PlannedRun, ...]:
    """Runs that several parts ask for appear once."""
    found: dict[str, PlannedRun] = {}
    for run in runs:
        if (before := found.setdefault(run.name, run)).until != run.until:
            raise InputError(f"{run.title} is to stop after {before.until} and after {run.until} steps")
        if other := other_schedule(to_json(run.config.schedule), before.config):
            raise InputError(f"{run.title} is asked for with two schedules, one of them with {other}; choose one")
    return tuple(found.values())


def _tasks(names: Iterable[str]) -> Iterator[tuple[str, Task | None]]:
    for name in names:
        if name in (*SUITES, *families()):
            yield from ((task.id, task) for task in tasks(name))
        elif name.partition("/")[0] == DATA:
            wanted = D4RL if name == DATA else [find_data(name).id]
            yield from ((each, find(D4RL[each].task)) for each in wanted)
        else:
            task = find(name)
            if task is None:
                from simbav2.envs.make import check_registered

                check_registered(name, (*SUITES, DATA))
            yield name, task


def _settings(table: Table, key: str) -> dict[str, Any]:
    """The settings under `key` by their dotted names."""
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"{key} is {found!r}; expected a table of settings")
    for name in found.keys() & _OWN_KEYS.keys():
        raise InputError(f"{key} has {name!r}; use {_OWN_KEYS[name]} = [...] instead")
    return dict(_flat(found, ""))


def _flat(table: Table, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _strings(table: Table, key: str, *default: str) -> list[str]:
    found = table.get(key, list(default))
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{key} is {found!r}; expected a list of names")
    if key in table and not found:
        raise InputError(f"{key} is empty; expected a list of names")
    return found


def _seeds(found: Any) -> list[int]:
    if type(found) is int and found > 0:
        return list(range(found))
    if isinstance(found, list) and found and all(type(seed) is int and seed >= 0 for seed in found):
        return found
    raise InputError(f"seeds is {found!r}; expected a list of whole numbers, or a count")


def _check_keys(table: Table, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise InputError(f"unknown key {key!r}; expected {', '.join(known)}{nearest(key, known)}")
