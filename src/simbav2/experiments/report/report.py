"""The report on runs, as files a person reads: a page, Markdown, tables, figures and one tidy CSV.

Every number comes from the files in the run folders, so a report can be made again at any time.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.errors import InputError
from simbav2.experiments.report import tables
from simbav2.experiments.report.curves import draw_learning_curves
from simbav2.experiments.report.figures import draw_all
from simbav2.experiments.report.methods import COLUMNS, caveats, common_settings, methods, read_curves
from simbav2.experiments.report.page import Content, html, page_data
from simbav2.experiments.report.paper_tables import all_tables, runs_table
from simbav2.experiments.report.runs import RunRecord, find_runs, read_runs
from simbav2.experiments.report.scores import Method, Trial, metric, run_curve
from simbav2.experiments.report.tables import Table, plain

RESULTS = ("task", "method", "preset", "seed", "env_step", "return", "success", "episodes", "run")
NOTES = (
    "Final return and success are means over the episodes of the last evaluation, where the policy acts"
    " deterministically.",
    "Published values are those of the SimbaV2 paper (arXiv 2502.15280) with their 95 % interval: 1,000,000"
    " simulator steps, two updates per decision, critic width 512. A run with another budget or size is not"
    " the same experiment.",
    "The normalised score is (x - random) / (reference - random): 0 is a random policy, 1 the reference of"
    " the suite (TD3 on MuJoCo, 1000 on DMC, success on MyoSuite, the target on HumanoidBench). D4RL scores are in"
    " percent of the expert.",
    "Runs are averaged only where they differ in nothing but the seed. Only finished runs enter tables and figures"
    " other than learning curves.",
)


def write_report(
    runs: Iterable[RunRecord],
    out: str | os.PathLike[str],
    problems: Sequence[str] = (),
    curves: Iterable[Method] = (),
    refresh_seconds: int | None = None,
) -> Path:
    """Write `index.html`, `report.md`, `results.csv`, `curves.csv`, `tables/` and `figures/` into `out`.

    Returns the page.

    `problems` are lines about runs that could not be read; they are shown first. `curves` are methods that were
    trained elsewhere.
    """
    found = methods(runs, curves)
    if not found:
        raise InputError("nothing to report: no runs were given")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; expected a folder for the report")
    for part in (folder / "tables", folder / "figures"):
        part.mkdir(parents=True, exist_ok=True)

    made = all_tables(found)
    for table in made:
        for kind, write in {"md": tables.markdown, "tex": tables.latex, "csv": tables.tidy}.items():
            (folder / "tables" / f"{table.name}.{kind}").write_text(write(table), encoding="utf-8")
    learning_curves = draw_learning_curves(found, folder / "figures")
    content = Content(
        abstract=_abstract(found),
        problems=tuple(problems),
        overview=next((table for table in made if table.name == "summary"), None),
        figures=draw_all(found, folder / "figures"),
        curves=learning_curves,
        tables=tuple(table for table in made if table.name != "summary"),
        runs=runs_table(found),
        notes=NOTES,
        data=page_data(found, learning_curves, folder),
        refresh_seconds=refresh_seconds,
    )
    (folder / "report.md").write_text(_markdown(content, made, found), encoding="utf-8")
    _write_evaluations(found, folder)
    # Last, and all at once: where the page is, the whole report is.
    temporary = folder / ".index.html.tmp"
    temporary.write_text(html(content), encoding="utf-8")
    temporary.replace(folder / "index.html")
    return folder / "index.html"


def report(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    curves: Sequence[str | os.PathLike[str]] = (),
    refresh_seconds: int | None = None,
) -> tuple[Path, tuple[str, ...], bool]:
    """A report of the run folders under `paths`: the page, what could not be read, whether a run is unfinished.

    Files among `paths` are read as `curves` are: methods that were trained elsewhere, as long CSVs.
    """
    folders, files = _split(paths)
    runs, problems = read_runs(folders) if folders else ((), ())
    unfinished = any(run.status == "unfinished" for run in runs)
    trained_elsewhere = [method for file in (*files, *map(Path, curves)) for method in read_curves(file)]
    page = write_report(runs, out, problems, trained_elsewhere, refresh_seconds if unfinished else None)
    return page, problems, unfinished


def _split(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], list[Path]]:
    """Folders, and files of curves."""
    files = [path for path in map(Path, paths) if path.is_file()]
    return [path for path in map(Path, paths) if path not in files], files


def watch(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    curves: Sequence[str | os.PathLike[str]] = (),
    seconds: int = 30,
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A report whenever a run has written something, checked every few `seconds`, until all runs have ended."""
    seen: object = None
    unfinished = True
    while unfinished:
        state = _state(paths)
        if state != seen:
            seen = state
            page, problems, unfinished = report(paths, out, curves, refresh_seconds=seconds)
            yield page, problems
        if unfinished:
            time.sleep(seconds)


def _state(paths: Sequence[str | os.PathLike[str]]) -> list[tuple[str, int, int]]:
    """Every file at the top of a run folder, with its time and size."""
    files = [file for folder in find_runs(_split(paths)[0]) for file in sorted(folder.iterdir()) if file.is_file()]
    stats = [(file, file.stat()) for file in files]
    return [(str(file), stat.st_mtime_ns, stat.st_size) for file, stat in stats]


def _abstract(found: Sequence[Method]) -> str:
    tasks = len({task for method in found for task in method.trials})
    runs = [run for method in found for run in method.runs]
    states = Counter(run.status for run in runs)
    counts = ", ".join(
        f"{states[status]} {status}" for status in ("finished", "unfinished", "failed") if states[status]
    )
    counts = f": {counts}" if counts else ""
    elsewhere = sum(not method.runs for method in found)
    more = f" {_count(elsewhere, 'method')} from files of curves." if elsewhere else ""
    common = ", ".join(f"{name} {value}" for name, value in common_settings(found).items())
    more += f" All with {common}." if common else ""
    warned = sum(bool(run.warnings) for run in runs)
    more += f" The health monitor warned about {_count(warned, 'run')}." if warned else ""
    return (
        f"{_count(len(runs), 'run')} of {_count(len(found), 'method')} on {_count(tasks, 'task')}{counts}.{more}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _markdown(content: Content, made: Sequence[Table], found: Sequence[Method]) -> str:
    lines = ["# SimbaV2 results", "", plain(content.abstract), ""]
    lines += [f"**Could not be read:** {plain(problem)}\n" for problem in content.problems]
    lines += ["## Tables", "", *(tables.markdown(table) for table in made)]
    lines += ["## Figures", ""]
    for figure in (*content.figures, *(each.drawn for each in content.curves)):
        lines += [f"![{plain(figure.title)}](figures/{figure.name}.png)", "", plain(figure.caption), ""]
    lines += ["## Runs", "", tables.markdown(content.runs)]
    doubtful = [
        f"- {plain(f'{run.task}, {method.label}, seed {run.seed}')}: {plain('; '.join(reasons))}"
        for method in found
        for run in method.runs
        if (reasons := tuple(caveats(run, method)))
    ]
    if doubtful:
        lines += ["## Caveats", "", *doubtful, ""]
    lines += ["## Notes", "", *(f"- {plain(note)}" for note in content.notes)]
    return "\n".join(lines) + "\n"


def _write_evaluations(found: Sequence[Method], folder: Path) -> None:
    """`results.csv`, and `curves.csv` with the same means in the long format of the field."""
    results_file, curves_file = folder / "results.csv", folder / "curves.csv"
    with _new_table(results_file, RESULTS) as results, _new_table(curves_file, COLUMNS) as curves:
        for method, trial in ((each, trial) for each in found for own in each.trials.values() for trial in own):
            for step, means, episodes in _evaluations(trial):
                names = (trial.task, method.label, method.preset, trial.seed, step)
                values = ("" if math.isnan(means[name]) else means[name] for name in ("return", "success"))
                results.writerow((*names, *values, episodes, trial.run.folder if trial.run else ""))
                for name, value in means.items():
                    if not math.isnan(value):
                        curves.writerow((method.label, trial.task, trial.seed, f"avg_{name}", step, value))


def _evaluations(trial: Trial) -> Iterator[tuple[int, dict[str, float], int | str]]:
    """Step, mean return and success, and the number of episodes where it is known."""
    if trial.run is None:
        unknown = {"return": math.nan, "success": math.nan}
        for step, value in zip(trial.curve.env_step, trial.curve.mean, strict=True):
            yield int(step), unknown | {metric(trial.task): value}, ""
    else:
        steps, counts = np.unique(trial.run.evaluations.env_step, return_counts=True)
        means = (run_curve(trial.run, name).mean for name in ("return", "success"))
        for step, returned, success, count in zip(steps, *means, counts, strict=True):
            yield int(step), {"return": returned, "success": success}, int(count)


@contextmanager
def _new_table(file: Path, columns: Sequence[str]) -> Iterator[Any]:
    with file.open("w", encoding="utf-8", errors="replace", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(columns)
        yield table
