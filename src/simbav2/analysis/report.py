"""What runs amount to, in files a person reads: a page, a Markdown table, figures and one tidy CSV.

Every number comes from the records in the run folders, so a report can be made anew at any time.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from simbav2.analysis.page import Card, Content, Section, html, markdown
from simbav2.analysis.plots import draw_learning_curve
from simbav2.analysis.published import Published, published_score
from simbav2.analysis.runs import Run
from simbav2.analysis.scores import Group, groups, leaves, metric, normalized_score, run_curve
from simbav2.errors import InputError

NOTES = (
    "Final return and success are means over the episodes of the last evaluation, where the policy acts"
    " deterministically.",
    "Published values are those of the SimbaV2 paper (arXiv 2502.15280) with their 95 % interval: 1,000,000"
    " simulator steps, two updates per decision, critic width 512. A run with another budget or size is not"
    " the same experiment.",
    "The normalised score is (x - random) / (reference - random): 0 is a random policy, 1 the reference of"
    " the suite.",
    "Runs are averaged only where they differ in nothing but the seed.",
)


def write_report(runs: Iterable[Run], out: str | os.PathLike[str], problems: Sequence[str] = ()) -> Path:
    """Write `index.html`, `report.md`, `results.csv` and `curve-<task>.png/.svg` into `out`; return the page.

    `problems` are lines about runs that could not be read; they are shown first.
    """
    found = groups(runs)
    if not found:
        raise InputError("nothing to report: no runs were given")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; expected a folder for the report")
    folder.mkdir(parents=True, exist_ok=True)

    by_task = {task: tuple(each) for task, each in groupby(found, key=lambda group: group.task)}
    sections = []
    for (task, each), stem in zip(by_task.items(), _stems(by_task), strict=True):
        svg = draw_learning_curve(each, folder / stem)
        sections.append(Section(task, stem, svg, tuple(map(_claim, each))))
    outcomes = [_outcome(run, group) for group in found for run in group.runs]
    succeeds = any(metric(task) == "success" for task in by_task)
    headings = tuple(heading for heading in COLUMNS if succeeds or heading != "success")
    content = Content(
        problems=tuple(problems),
        headings=headings,
        rows=tuple(tuple(COLUMNS[heading](outcome) for heading in headings) for outcome in outcomes),
        sections=tuple(sections),
        cards=tuple(map(_card, outcomes)),
        notes=NOTES,
    )
    (folder / "report.md").write_text(markdown(content), encoding="utf-8")
    (folder / "index.html").write_text(html(content), encoding="utf-8")
    _write_results(outcomes, folder / "results.csv")
    return folder / "index.html"


@dataclass(frozen=True)
class Outcome:
    """One run, in the numbers that are compared; None where there is none."""

    run: Run
    label: str  # the preset, and what tells the run from others of its preset
    final_return: float | None
    final_success: float | None
    normalized: float | None
    published: Published | None
    updates_per_second: float | None
    seconds: float | None
    doubts: tuple[str, ...]


def _outcome(run: Run, group: Group) -> Outcome:
    final = {measure: _last(run_curve(run, measure).mean) for measure in ("return", "success")}
    scored = final[group.measure]
    summary = run.summary or {}
    latest = {name: _last(values) for name, values in run.progress.items()}
    return Outcome(
        run=run,
        label=group.label,
        final_return=final["return"],
        final_success=final["success"],
        normalized=None if scored is None else normalized_score(run.task, scored),
        published=published_score(run.task),
        updates_per_second=summary.get("updates_per_second", latest.get("updates_per_second")),
        seconds=summary.get("seconds", latest.get("seconds")),
        doubts=tuple(_doubts(run, group)),
    )


def _last(values: np.ndarray) -> float | None:
    return float(values[-1]) if len(values) else None


def _doubts(run: Run, group: Group) -> Iterable[str]:
    """Reasons not to take a run at its number."""
    reached = f"{run.env_steps:,} of {run.planned_env_steps:,} simulator steps"
    if run.summary is None:
        yield f"unfinished: {reached} so far"
    elif run.env_steps < run.planned_env_steps:
        yield f"stopped early, at {reached}; its schedules were made for all of them"
    steps = run.evaluations.env_step
    if not len(steps):
        yield "not evaluated yet"
    elif steps.max() < run.env_steps and run.summary is not None:
        yield f"last evaluated at {steps.max():,.0f} simulator steps, before its end"
    if not np.isfinite(run.evaluations.returns).all():
        yield "some returns are not finite numbers"
    if sum(run.seed == other.seed for other in group.runs) > 1:
        yield f"more than one run here has this configuration and seed {run.seed}; they are not independent"


COLUMNS: dict[str, Callable[[Outcome], str]] = {
    "task": lambda outcome: outcome.run.task,
    "preset": lambda outcome: outcome.label,
    "seed": lambda outcome: str(outcome.run.seed),
    "status": lambda outcome: outcome.run.status,
    "simulator steps": lambda outcome: f"{outcome.run.env_steps:,}",
    "final return": lambda outcome: _number(outcome.final_return),
    "success": lambda outcome: _number(outcome.final_success, "success"),
    "normalised score": lambda outcome: "–" if outcome.normalized is None else f"{outcome.normalized:.3f}",
    "published": lambda outcome: _interval(outcome.published, metric(outcome.run.task)),
    "updates/s": lambda outcome: _number(outcome.updates_per_second),
    "time": lambda outcome: _duration(outcome.seconds),
}


def _number(value: float | None, measure: str = "return") -> str:
    if value is None or np.isnan(value):
        return "–"
    return f"{value:.0%}" if measure == "success" else f"{value:,.1f}"


def _interval(published: Published | None, measure: str) -> str:
    if published is None:
        return "–"
    mean, low, high = (f"{value:.0%}" if measure == "success" else f"{value:,.0f}" for value in published)
    return f"{mean} ({low} to {high})"


def _duration(seconds: float | None) -> str:
    if seconds is None or np.isnan(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _claim(group: Group) -> str:
    """The last point of a group's curve, as a sentence."""
    curve = group.curve
    if not len(curve):
        return f"{group.label}: not evaluated yet."
    mean, low, high = (_number(values[-1], group.measure) for values in (curve.mean, curve.low, curve.high))
    return (
        f"{group.label}: {group.measure} {mean} after {curve.env_step[-1]:,.0f} simulator steps,"
        f" mean of {curve.averaged} ({low} to {high})."
    )


def _card(outcome: Outcome) -> Card:
    run = outcome.run
    return Card(
        title=f"{run.task}, {outcome.label}, seed {run.seed}",
        status=run.status,
        result=_number(outcome.final_return),
        folder=str(run.folder),
        doubts=outcome.doubts,
        command=_command(run),
        versions=", ".join(f"{name} {version}" for name, version in leaves(run.versions).items()),
        config=json.dumps(run.config, indent=2),
    )


def _command(run: Run) -> tuple[str, ...]:
    """What to type to get this run again."""
    flags = {"preset": run.preset, "seed": run.seed, **run.given}
    if run.stop_after is not None:
        flags["stop_after"] = run.stop_after
    spelled = (f"--{name.replace('_', '-')} {shlex.quote(_spell(value))}" for name, value in flags.items())
    return (f"simbav2 train {shlex.quote(run.task)}", *spelled)


def _spell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")


def _stems(tasks: Iterable[str]) -> list[str]:
    """A file name for each task: harmless, and different even where the names are alike."""
    stems: dict[str, str] = {}
    for task in tasks:
        stem = "curve-" + (re.sub(r"[^A-Za-z0-9._]+", "-", task).strip("-.")[:80] or "task")
        tries = [stem, *(f"{stem}-{number}" for number in range(2, len(stems) + 3))]
        stem = next(each for each in tries if each.lower() not in stems)
        stems[stem.lower()] = stem
    return list(stems.values())


def _write_results(outcomes: Sequence[Outcome], file: Path) -> None:
    with file.open("w", encoding="utf-8", errors="replace", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(("task", "preset", "seed", "env_step", "return", "success", "episodes", "run"))
        for run in (outcome.run for outcome in outcomes):
            steps, episodes = np.unique(run.evaluations.env_step, return_counts=True)
            curves = (run_curve(run, measure).mean for measure in ("return", "success"))
            for step, returned, success, count in zip(steps, *curves, episodes, strict=True):
                solved = "" if np.isnan(success) else success
                names = (run.task, run.preset, run.seed)
                table.writerow((*names, int(step), returned, solved, count, run.folder))
