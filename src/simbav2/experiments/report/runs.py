"""Run folders, read back. Plain files only: nothing here runs code when it loads a run.

A folder is taken for a run when it holds one of the run's records, so that a run whose `config.json` is lost
is reported instead of overlooked, and a saved agent (which has a `config.json` too) is not mistaken for one.
Without its config or its results a run cannot be read; damage to anything else is noted in `Run.damage`.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2.errors import InputError

Floats = NDArray[np.float64]
RECORDS = ("evaluations.csv", "progress.csv")
FAILURE = "failure.json"
# The fields that are relied on.
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
class Warned:
    """What the training doctor saw, and what it advises."""

    env_step: int
    name: str
    text: str
    remedy: str


class Measure(NamedTuple):
    """One of the numbers in `metrics.jsonl`, where it was measured."""

    env_step: Floats
    value: Floats


@dataclass(frozen=True)
class Run:
    folder: Path
    config: Mapping[str, Any]  # every setting
    given: Mapping[str, Any]  # those that differ from the preset, by dotted name
    stop_after: int | None  # simulator steps, where the run was to end before `env_steps`
    environment: Mapping[str, Any]  # the facts of the task, sizes among them
    versions: Mapping[str, Any]
    evaluations: Evaluations
    progress: Mapping[str, Floats]
    summary: Mapping[str, Any] | None  # None: the run has not ended well, or not yet
    failure: str | None  # what ended the run
    warnings: tuple[Warned, ...]
    measures: Mapping[str, Measure]
    films: tuple[Path, ...]
    damage: tuple[str, ...]  # what could not be read

    @property
    def dataset(self) -> str | None:
        """The recorded data that the run learned from."""
        data = self.config.get("data")
        source = data.get("source") if isinstance(data, Mapping) else None
        return source if isinstance(source, str) else None

    @property
    def task(self) -> str:
        """The task, or the data set that an offline run learned from."""
        return self.dataset or self.config["task"]

    @property
    def preset(self) -> str:
        return self.config["preset"]

    @property
    def seed(self) -> int:
        return self.config["seed"]

    @property
    def ablation(self) -> str | None:
        """The single change of the ablation study that the run makes, a to m."""
        return self.config.get("ablation")

    @property
    def status(self) -> str:
        if self.summary is not None:
            return "finished"
        return "unfinished" if self.failure is None else "failed"

    @property
    def clock(self) -> str:
        """What its steps are: an update on recorded data counts as one."""
        if self.dataset is None:
            return "simulator steps"
        return "updates, then simulator steps" if "then_online" in self.given else "updates"

    @property
    def planned_env_steps(self) -> int:
        return self.config["env_steps"]

    @cached_property
    def env_steps(self) -> int:
        """Steps taken, as far as the records tell."""
        if self.summary is not None:
            return self.summary["env_steps"]
        steps = np.concatenate([self.progress.get("env_step", np.empty(0)), self.evaluations.env_step])
        return int(np.nanmax(steps, initial=0))


def find_runs(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """The run folders among `paths` and, at any depth, inside them; each once, in order."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise InputError(f"{path} is no folder; expected a run folder or one that holds runs")
        below = list(_walk(path))
        if not below:
            raise InputError(f"no run in {path}; a run folder holds config.json and {' and '.join(RECORDS)}")
        found |= {folder.resolve(): folder for folder in below if folder.resolve() not in found}
    return tuple(found.values())


def _walk(top: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(top):
        below.sort()
        if any(record in files for record in (*RECORDS, FAILURE)):
            below.clear()  # runs do not nest
            yield Path(folder)


def read_runs(paths: Iterable[str | os.PathLike[str]]) -> tuple[tuple[Run, ...], tuple[str, ...]]:
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


def read_run(folder: str | os.PathLike[str]) -> Run:
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; expected a run folder")
    config = _read_json(folder / "config.json", CONFIG)
    versions = config.pop("versions")
    if order := config.pop("observation_order", None):  # of the environment's version, so to speak
        versions["observation_order"] = order
    given, stop_after = config.pop("settings", {}), config.pop("stop_after", None)
    environment = config.pop("environment", {})
    for name, part in (("settings", given), ("environment", environment)):
        if not isinstance(part, dict):
            raise InputError(f"{folder / 'config.json'}: {name} is {part!r}; expected an object")
    summary_file = folder / "summary.json"
    summary = _read_json(summary_file, SUMMARY) if summary_file.exists() else None
    tables = {}
    for record in RECORDS:
        # A run that has only just begun may not have written anything yet; one that has ended must have.
        begun = summary is not None or (folder / record).exists()
        tables[record] = _read_table(folder / record) if begun else {}
    evaluations = tables["evaluations.csv"]
    columns = ("env_step", "episode", "return", "length", "success")
    for column in columns if evaluations else ():
        if column not in evaluations:
            raise InputError(f"{folder / 'evaluations.csv'} lacks the column {column!r}")
    if not np.isfinite(evaluations.get("env_step", np.empty(0))).all():
        raise InputError(f"{folder / 'evaluations.csv'} has a row without env_step")
    damage: list[str] = []
    return Run(
        folder=folder,
        config=config,
        given=given,
        stop_after=stop_after,
        environment=environment,
        versions=versions,
        evaluations=Evaluations(*(evaluations.get(column, np.empty(0)) for column in columns)),
        progress=tables["progress.csv"],
        summary=summary,
        failure=_read_failure(folder / FAILURE),
        warnings=_read_warnings(folder, summary, damage),
        measures=_read_measures(folder / "metrics.jsonl", damage),
        films=tuple(sorted(path for path in folder.rglob("*.mp4") if path.is_file())),
        damage=tuple(damage),
    )


def _read_failure(file: Path) -> str | None:
    if not file.exists():
        return None
    try:
        failure = _read_json(file, {"error": str})
    except InputError as error:
        return str(error)
    step = failure.get("env_step")
    return failure["error"] + (f" (at simulator step {step:,})" if isinstance(step, int) else "")


def _read_warnings(folder: Path, summary: Mapping[str, Any] | None, damage: list[str]) -> tuple[Warned, ...]:
    """From the summary, or while there is none from the file they are gathered in."""
    found = (summary or {}).get("warnings")
    entries = found if isinstance(found, list) else _read_lines(folder / "warnings.jsonl", damage)
    warnings = []
    for entry in entries:
        if not isinstance(entry, dict):
            damage.append(f"a warning in {folder} is {entry!r}; expected an object")
            continue
        words = (str(entry.get(name, "")) for name in ("name", "text", "remedy"))
        step = entry.get("env_step")
        warnings.append(Warned(step if isinstance(step, int) else 0, *words))
    return tuple(warnings)


def _read_measures(file: Path, damage: list[str]) -> dict[str, Measure]:
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
    return {
        name: Measure(np.array(steps, float), np.array(each, float)) for name, (steps, each) in columns.items()
    }


def _read_lines(file: Path, damage: list[str]) -> list[Any]:
    """The objects in a file of one JSON object per line, up to the first that cannot be read."""
    if not file.exists():
        return []
    try:
        text = _read_text(file)
    except InputError as error:
        damage.append(str(error))
        return []
    found = []
    # A last line without its end is still being written.
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        try:
            found.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError) as error:
            damage.append(f"{file}, line {number} is no valid JSON: {error}")
            break
    return found


def _read_json(file: Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    """The object in `file`, which must have at least these fields with these types."""
    try:
        data = json.loads(_read_text(file))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{file} is no valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{file} holds {type(data).__name__}; expected an object")
    for name, kind in expected.items():
        if name not in data:
            raise InputError(f"{file} lacks {name!r}")
        if not isinstance(data[name], kind):
            raise InputError(f"{file}: {name} is {data[name]!r}; expected {getattr(kind, '__name__', kind)}")
    return data


def _read_table(file: Path) -> dict[str, Floats]:
    """The columns of a CSV file of numbers; an empty cell is NaN."""
    text = _read_text(file)
    whole = text[: text.rfind("\n") + 1]  # a last line without its end is still being written
    header, *rows = list(csv.reader(whole.splitlines())) or [[]]
    if not header:
        raise InputError(f"{file} is empty; expected a header line")
    numbers = np.empty((len(rows), len(header)))
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{file}, line {line}: {len(row)} cells; expected {len(header)}")
        for index, cell in enumerate(row):
            try:
                numbers[line - 2, index] = float(cell) if cell else np.nan
            except ValueError as error:
                raise InputError(f"{file}, line {line}: {cell!r} is no number") from error
    return dict(zip(header, numbers.T, strict=True))


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file} is missing") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
