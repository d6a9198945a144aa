"""Run folders, read back. Plain files only: loading a run executes nothing from it.

A folder is a run when it holds one of the run's tables, so that a run whose `config.json` is lost is reported
instead of overlooked, and a saved agent (which has a `config.json` too) is not mistaken for a run. Without its
config or its results a run cannot be read; damage to anything else is noted in `RunRecord.damage`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2.checkpoint.files import read_json, read_lines, read_table
from simbav2.config import Config, from_json, leaves
from simbav2.errors import InputError
from simbav2.experiments.compute import Compute, count_compute

Floats = NDArray[np.float64]
TABLES = ("evaluations.csv", "progress.csv")
FAILURE = "failure.json"
# The fields that are relied on. Every other setting has a default, for runs of versions that lacked it.
CONFIG = {"task": str, "preset": str, "seed": int, "env_steps": int, "versions": dict}
SUMMARY = {"env_steps": int, "seconds": int | float, "updates_per_second": int | float | None}


@dataclass(frozen=True)
class Evaluations:
    """One entry per evaluation episode."""

    env_step: Floats
    episode: Floats
    returns: Floats
    length: Floats
    success: Floats  # 0 or 1; NaN where the task has no notion of success


@dataclass(frozen=True)
class HealthWarning:
    """What the health monitor saw during training, and what it advises."""

    env_step: int
    name: str
    text: str
    remedy: str


class Metric(NamedTuple):
    """One of the metrics and diagnostics in `metrics.jsonl`, over training."""

    env_step: Floats
    value: Floats


@dataclass(frozen=True)
class RunRecord:
    folder: Path
    config: Config
    given: Mapping[str, Any]  # the settings that differ from the preset, by dotted name
    stop_after: int | None  # simulator steps, where the run was to end before `env_steps`
    sizes: tuple[int, int] | None  # of observations and actions
    versions: Mapping[str, Any]
    evaluations: Evaluations
    progress: Mapping[str, Floats]
    summary: Mapping[str, Any] | None  # None: the run has failed or is not finished
    failure: str | None  # what ended the run
    warnings: tuple[HealthWarning, ...]
    metrics: Mapping[str, Metric]
    videos: tuple[Path, ...]
    damage: tuple[str, ...]  # what could not be read

    @property
    def dataset(self) -> str | None:
        """The recorded data that the run learned from."""
        return self.config.data.source

    @property
    def task(self) -> str:
        """The task, or the data set that an offline run learned from."""
        return self.dataset or self.config.task

    @property
    def preset(self) -> str:
        return self.config.preset

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def status(self) -> str:
        if self.summary is not None:
            return "finished"
        return "unfinished" if self.failure is None else "failed"

    @property
    def step_unit(self) -> str:
        """What its steps are: an update on recorded data counts as one."""
        if self.dataset is None:
            return "simulator steps"
        return "updates, then simulator steps" if "then_online" in self.given else "updates"

    @cached_property
    def env_steps(self) -> int:
        """Steps taken, as far as the files tell."""
        if self.summary is not None:
            return self.summary["env_steps"]
        steps = np.concatenate([self.progress.get("env_step", np.empty(0)), self.evaluations.env_step])
        return int(np.nanmax(steps, initial=0))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every setting by its dotted name, and every version as `versions.NAME`; not the seed."""
        settings = leaves(self.config) | {f"versions.{name}": value for name, value in self.versions.items()}
        del settings["seed"]
        return settings

    @cached_property
    def compute(self) -> Compute | None:
        """Counted from the config; None where the sizes of its environment are not known."""
        return None if self.sizes is None else count_compute(self.config, *self.sizes)

    @property
    def training_compute(self) -> float:
        """Floating-point operations of all updates made; NaN where they are not known."""
        return np.nan if self.compute is None else self.compute.update * self.fact("updates")

    @property
    def updates_per_env_step(self) -> float | None:
        """Of the simulator."""
        updates, repeat = self.config.updates_per_decision, self.config.action_repeat
        return updates / repeat if updates and repeat else None

    def fact(self, name: str) -> float:
        """A number of the summary; before there is one, the last of the progress; NaN where neither has it."""
        value = (self.summary or {}).get(name)
        column = self.progress.get(name, np.empty(0))
        last = float(column[-1]) if len(column) else np.nan
        return float(value) if isinstance(value, int | float) else last


def find_runs(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """The run folders among `paths` and, at any depth, inside them; each once, in order."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise InputError(f"{path} is not a folder; expected a run folder or one that holds runs")
        below = list(_walk(path))
        if not below:
            raise InputError(f"no run in {path}; a run folder holds config.json and {' and '.join(TABLES)}")
        found |= {folder.resolve(): folder for folder in below if folder.resolve() not in found}
    return tuple(found.values())


def _walk(top: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(top):
        below.sort()
        if any(name in files for name in (*TABLES, FAILURE)):
            below.clear()  # runs do not nest
            yield Path(folder)


def read_runs(paths: Iterable[str | os.PathLike[str]]) -> tuple[tuple[RunRecord, ...], tuple[str, ...]]:
    """Every run under `paths` that can be read, and one line for each that cannot."""
    runs, problems = [], []
    for folder in find_runs(paths):
        try:
            runs.append(read_run(folder))
        except InputError as error:
            problems.append(str(error))
    if not runs:
        raise InputError(problems[0])
    return tuple(runs), tuple(problems)


def read_run(folder: str | os.PathLike[str]) -> RunRecord:
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; expected a run folder")
    description = _read_json(folder / "config.json", CONFIG)
    versions = description.pop("versions")
    if order := description.pop("observation_order", None):  # belongs to the version of the environment
        versions["observation_order"] = order
    given, environment = description.pop("settings", {}), description.pop("environment", {})
    for name, part in (("settings", given), ("environment", environment)):
        if not isinstance(part, dict):
            raise InputError(f"{folder / 'config.json'}: {name} is {part!r}; expected an object")
    stop_after = description.pop("stop_after", None)
    try:
        config = from_json(description)
    except InputError as error:
        raise InputError(f"{folder / 'config.json'}: {error}") from error
    sizes = tuple(environment.get(name) for name in ("observation_size", "action_size"))
    summary_file = folder / "summary.json"
    summary = _read_json(summary_file, SUMMARY) if summary_file.exists() else None
    # A run that has only just started may not have written its tables yet; a finished one must have.
    evaluations, progress = (
        read_table(folder / name) if summary is not None or (folder / name).exists() else {} for name in TABLES
    )
    damage: list[str] = []
    return RunRecord(
        folder=folder,
        config=config,
        given=given,
        stop_after=stop_after,
        sizes=sizes if all(isinstance(size, int) for size in sizes) else None,
        versions=versions,
        evaluations=_evaluations(folder / "evaluations.csv", evaluations),
        progress=progress,
        summary=summary,
        failure=_read_failure(folder / FAILURE),
        warnings=_read_warnings(folder, summary, damage),
        metrics=_read_metrics(folder / "metrics.jsonl", damage),
        videos=tuple(sorted(path for path in folder.rglob("*.mp4") if path.is_file())),
        damage=tuple(damage),
    )


def _read_json(file: Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    """The object in `file`, which must have at least these fields with these types."""
    data = read_json(file)
    for name, kind in expected.items():
        if name not in data:
            raise InputError(f"{file} lacks {name!r}")
        if not isinstance(data[name], kind):
            raise InputError(f"{file}: {name} is {data[name]!r}; expected {getattr(kind, '__name__', kind)}")
    return data


def _evaluations(file: Path, columns: Mapping[str, Floats]) -> Evaluations:
    names = ("env_step", "episode", "return", "length", "success")
    for name in names if columns else ():
        if name not in columns:
            raise InputError(f"{file} lacks the column {name!r}")
    if not np.isfinite(columns.get("env_step", np.empty(0))).all():
        raise InputError(f"{file} has a row without env_step")
    return Evaluations(*(columns.get(name, np.empty(0)) for name in names))


def _read_failure(file: Path) -> str | None:
    if not file.exists():
        return None
    try:
        failure = _read_json(file, {"error": str})
    except InputError as error:
        return str(error)
    step = failure.get("env_step")
    return failure["error"] + (f" (at simulator step {step:,})" if isinstance(step, int) else "")


def _read_warnings(
    folder: Path, summary: Mapping[str, Any] | None, damage: list[str]
) -> tuple[HealthWarning, ...]:
    """From the summary; before there is one, from the file that they are appended to."""
    found = (summary or {}).get("warnings")
    entries = found if isinstance(found, list) else list(_read_lines(folder / "warnings.jsonl", damage))
    warnings = []
    for entry in entries:
        if not isinstance(entry, dict):
            damage.append(f"a warning in {folder} is {entry!r}; expected an object")
            continue
        texts = (str(entry.get(name, "")) for name in ("name", "text", "remedy"))
        step = entry.get("env_step")
        warnings.append(HealthWarning(step if isinstance(step, int) else 0, *texts))
    return tuple(warnings)


def _read_metrics(file: Path, damage: list[str]) -> dict[str, Metric]:
    columns: dict[str, tuple[list[float], list[float]]] = {}
    for row in _read_lines(file, damage):
        step = row.get("env_step") if isinstance(row, dict) else None
        if not isinstance(step, int | float):
            damage.append(f"{file} has a line without env_step")
            break
        for name, value in row.items():
            if isinstance(value, int | float) and name != "env_step":
                steps, values = columns.setdefault(name, ([], []))
                steps.append(step)
                values.append(value)
    return {name: Metric(np.array(steps, float), np.array(each, float)) for name, (steps, each) in columns.items()}


def _read_lines(file: Path, damage: list[str]) -> Iterator[Any]:
    """Up to the first line that cannot be read."""
    try:
        if file.exists():
            yield from read_lines(file)
    except InputError as error:
        damage.append(str(error))


def command(run: RunRecord) -> str:
    """The command that makes this run again."""
    flags = {"preset": run.preset, "seed": run.seed, **run.given}
    if run.dataset:
        file = run.config.data.file
        flags = {**({"data": file} if file else {}), "task": run.config.task, **flags}
    if run.stop_after is not None:
        flags["stop_after"] = run.stop_after
    spelled = (f"--{name.replace('_', '-')} {shlex.quote(_spell(value))}" for name, value in flags.items())
    verb = "offline" if run.dataset else "train"
    return " ".join((f"simbav2 {verb} {shlex.quote(run.task)}", *spelled))


def _spell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")
