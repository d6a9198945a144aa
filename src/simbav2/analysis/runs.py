"""Run folders, read back. Plain files only: nothing here runs code when it loads a run.

A folder is taken for a run when it holds one of the run's records, so that a run whose `config.json` is lost
is reported instead of overlooked, and a saved agent (which has a `config.json` too) is not mistaken for one.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simbav2.errors import InputError

Floats = NDArray[np.float64]
RECORDS = ("evaluations.csv", "progress.csv")
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
class Run:
    folder: Path
    config: Mapping[str, Any]  # every setting
    given: Mapping[str, Any]  # those that differ from the preset, by dotted name
    stop_after: int | None  # simulator steps, where the run was to end before `env_steps`
    versions: Mapping[str, Any]
    evaluations: Evaluations
    progress: Mapping[str, Floats]
    summary: Mapping[str, Any] | None  # None: the run has not ended yet

    @property
    def task(self) -> str:
        return self.config["task"]

    @property
    def preset(self) -> str:
        return self.config["preset"]

    @property
    def seed(self) -> int:
        return self.config["seed"]

    @property
    def status(self) -> str:
        return "unfinished" if self.summary is None else "finished"

    @property
    def planned_env_steps(self) -> int:
        return self.config["env_steps"]

    @cached_property
    def env_steps(self) -> int:
        """Simulator steps taken, as far as the records tell."""
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
        if any(record in files for record in RECORDS):
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
    given, stop_after = config.pop("settings", {}), config.pop("stop_after", None)
    config.pop("environment", None)
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
    return Run(
        folder=folder,
        config=config,
        given=given,
        stop_after=stop_after,
        versions=versions,
        evaluations=Evaluations(*(evaluations.get(column, np.empty(0)) for column in columns)),
        progress=tables["progress.csv"],
        summary=summary,
    )


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
