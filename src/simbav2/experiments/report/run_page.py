"""Single runs: the table that lists them, and what the page's script needs to show each of them and its curves."""

from __future__ import annotations

import json
import math
import os
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.envs.tasks import SUITES, normalized_score
from simbav2.experiments.report.figures.points import run_compute
from simbav2.experiments.report.paper_tables.suites import TITLES
from simbav2.experiments.report.published import Published, published_score
from simbav2.experiments.report.runs import Floats, Run
from simbav2.experiments.report.scores import (
    Curve,
    Method,
    in_order,
    known_tasks,
    leaves,
    mean_curve,
    metric,
    run_curve,
    suite_curve,
)
from simbav2.experiments.report.tables import Cell, Row, Table, interval, number, printable

POINTS = 40  # of a measure; more than its small chart can show
EMBEDDED = 3_000_000  # bytes of the largest film that becomes part of the page


# The list of runs -------------------------------------------------------------------------------------------


RESULTS = (
    "status",
    "warnings",
    "steps",
    "final return",
    "success",
    "normalised score",
    "published",
    "updates/s",
    "time",
)


def runs_table(found: Sequence[Method]) -> Table:
    return Table(
        name="runs",
        title="Runs",
        caption="Every run with its result at the last evaluation. On recorded data, an update counts as a step.",
        headings=("task", "method", "seed", *RESULTS),
        rows=tuple(
            Row(run.task, (Cell(method.label), Cell(str(run.seed), run.seed), *_results(run)), ours=True)
            for method in found
            for run in method.runs
        ),
    )


def _results(run: Run) -> tuple[Cell, ...]:
    """One cell for each of `RESULTS`."""
    final = {measure: _last(run_curve(run, measure).mean) for measure in ("return", "success")}
    scored = final[metric(run.task)]
    normalized = math.nan if math.isnan(scored) else normalized_score(run.task, scored)
    score = math.nan if normalized is None else normalized
    published, seconds = published_score(run.task), _fact(run, "seconds")
    speed = _fact(run, "updates_per_second")
    return (
        Cell(run.status),
        Cell(str(len(run.warnings)) if run.warnings else "–", len(run.warnings)),
        Cell(f"{run.env_steps:,}", run.env_steps),
        Cell(number(final["return"], 1), final["return"]),
        Cell(percent(final["success"]), final["success"]),
        Cell(number(score), score),
        Cell(_published_text(published, run.task), published.mean if published else math.nan),
        Cell(number(speed, 1), speed),
        Cell(duration(seconds), seconds),
    )


def _last(values: Floats) -> float:
    return float(values[-1]) if len(values) else math.nan


def _fact(run: Run, name: str) -> float:
    """From the summary, or while there is none from the last row of the progress."""
    value = (run.summary or {}).get(name)
    return float(value) if isinstance(value, int | float) else _last(run.progress.get(name, np.empty(0)))


def _published_text(published: Published | None, task: str) -> str:
    if published is None:
        return "–"
    if metric(task) == "success":
        return interval(100 * published.mean, 100 * published.low, 100 * published.high, digits=1) + " %"
    return interval(published.mean, published.low, published.high, digits=0)


def percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


# What the script draws --------------------------------------------------------------------------------------


def page_data(found: Sequence[Method], stems: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Steps, configurations and versions are shared by many runs; they are stored once and named by number."""
    pools = {name: _Pool() for name in ("grids", "configs", "versions")}
    charts = [
        {"title": TITLES.get(suite, "Other"), "charts": list(_charts(suite, ids, found, stems, pools["grids"]))}
        for suite, ids in by_suite(found).items()
    ]
    runs = [_run_data(run, method, pools, folder) for method in found for run in method.runs]
    contents = {name: pool.values for name, pool in pools.items()}
    return {"methods": [printable(method.label) for method in found], "charts": charts, "runs": runs, **contents}


def by_suite(found: Sequence[Method]) -> dict[str, list[str]]:
    """All tasks under their suite, those of no suite under `other`."""
    suites: dict[str, list[str]] = {}
    for task in in_order(task for method in found for task in method.trials):
        known = known_tasks().get(task)
        suites.setdefault(known.suite if known else "other", []).append(task)
    return suites


class _Pool:
    """Values by number, each stored once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


def _charts(
    suite: str, ids: Sequence[str], found: Sequence[Method], stems: Mapping[str, str], grids: _Pool
) -> Iterator[dict[str, Any]]:
    if suite in SUITES and len(ids) > 1:
        whole = {i: method for i, method in enumerate(found) if all(task in method.trials for task in ids)}
        means = {i: suite_curve(method, ids) for i, method in whole.items()}
        series = [{"index": i, **_curve_data(curve, grids)} for i, curve in means.items() if curve is not None]
        if series:
            yield {"title": f"mean of {len(ids)} tasks (normalised)", "series": series, "published": None}
    for task in ids:
        owners = {i: method for i, method in enumerate(found) if task in method.trials}
        curves = {i: mean_curve(method.trials[task]) for i, method in owners.items()}
        yield {
            "title": printable(f"{task} ({metric(task)})"),
            "series": [{"index": i, **_curve_data(curve, grids)} for i, curve in curves.items()],
            "published": _published_data(published_score(task)),
            "link": f"figures/{stems[task]}.png",
        }


def _published_data(value: Published | None) -> dict[str, float] | None:
    return None if value is None else {"mean": value.mean, "low": value.low, "high": value.high}


def _curve_data(curve: Curve, grids: _Pool) -> dict[str, Any]:
    return {
        "x": grids.place(_rounded(curve.env_step)),
        "y": _rounded(curve.mean),
        "low": _rounded(curve.low),
        "high": _rounded(curve.high),
    }


def _rounded(values: Floats) -> list[float | None]:
    """As many digits as a chart can show; what is no number becomes a gap."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


def _run_data(run: Run, method: Method, pools: Mapping[str, _Pool], folder: Path) -> dict[str, Any]:
    measures = {}
    for name, measure in run.measures.items():
        kept = np.unique(np.linspace(0, len(measure.value) - 1, POINTS).round().astype(int))
        steps = pools["grids"].place(_rounded(measure.env_step[kept]))
        measures[printable(name)] = {"x": steps, "y": _rounded(measure.value[kept])}
    versions = ", ".join(f"{name} {version}" for name, version in leaves(run.versions).items())
    config = {name: value for name, value in run.config.items() if name != "seed"}
    return {
        "title": printable(f"{run.task}, {method.label}, seed {run.seed}"),
        "seed": run.seed,
        "clock": run.clock,
        "metric": metric(run.task),
        "published": _published_data(published_score(run.task)),
        "curve": _curve_data(run_curve(run, metric(run.task)), pools["grids"]),
        "measures": measures,
        "facts": [[name, printable(value)] for name, value in _facts(run).items()],
        "failure": run.failure and printable(run.failure),
        "doubts": [printable(doubt) for doubt in doubts(run, method)],
        "warnings": [
            [each.env_step, *map(printable, (each.name, each.text, each.remedy))] for each in run.warnings
        ],
        "films": [[printable(film.name), _film(film, folder)] for film in run.films],
        "command": printable(command(run)),
        "versions": pools["versions"].place(printable(versions)),
        "config": pools["configs"].place(_finite(config)),
    }


def _facts(run: Run) -> dict[str, str]:
    facts = {name: cell.text for name, cell in zip(RESULTS, _results(run), strict=True)}
    compute = run_compute(run)
    if compute is not None:
        facts["compute"] = f"{compute.update / 1e9:.3g} GFLOP an update, {compute.training:.3g} FLOP in all"
    return {name: text for name, text in facts.items() if text != "–"} | {"folder": str(run.folder)}


def doubts(run: Run, method: Method) -> Iterator[str]:
    """Reasons not to take a run at its number."""
    reached = f"{run.env_steps:,} of {run.planned_env_steps:,} {run.clock}"
    if run.status == "failed":
        yield f"failed after {reached}"
    elif run.status == "unfinished":
        yield f"unfinished: {reached} so far"
    elif run.env_steps < run.planned_env_steps:
        yield f"stopped early, at {reached}; its schedules were made for all of them"
    steps = run.evaluations.env_step
    if not len(steps):
        yield "not evaluated yet"
    elif steps.max() < run.env_steps and run.summary is not None:
        yield f"last evaluated at {steps.max():,.0f} {run.clock}, before its end"
    if not np.isfinite(run.evaluations.returns).all():
        yield "some returns are not finite numbers"
    if sum(run.seed == trial.seed for trial in method.trials[run.task]) > 1:
        yield f"more than one run here has this configuration and seed {run.seed}; they are not independent"
    yield from run.damage


def command(run: Run) -> str:
    """What to type to get this run again."""
    flags = {"preset": run.preset, "seed": run.seed, **run.given}
    if run.dataset:
        file = run.config["data"].get("file")
        flags = {**({"data": file} if file else {}), "task": run.config["task"], **flags}
    if run.stop_after is not None:
        flags["stop_after"] = run.stop_after
    spelled = (f"--{name.replace('_', '-')} {shlex.quote(_spell(value))}" for name, value in flags.items())
    verb = "offline" if run.dataset else "train"
    return " ".join((f"simbav2 {verb} {shlex.quote(run.task)}", *spelled))


def _spell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")


def _film(file: Path, folder: Path) -> str:
    """A small film becomes part of the page, a large one stays where it is."""
    if file.stat().st_size <= EMBEDDED:
        return f"data:video/mp4;base64,{b64encode(file.read_bytes()).decode()}"
    return Path(os.path.relpath(file, folder)).as_posix()


def _finite(tree: Any) -> Any:
    """The same tree in what JSON allows."""
    if isinstance(tree, Mapping):
        return {str(name): _finite(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_finite(value) for value in tree]
    return str(tree) if isinstance(tree, float) and not math.isfinite(tree) else tree
