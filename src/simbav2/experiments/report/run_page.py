"""Single runs: the table that lists them, and the data from which the page's script shows each of them."""

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

from simbav2.config import to_json
from simbav2.envs.tasks import normalized_score
from simbav2.experiments.report.cost_figures import run_compute, training_compute
from simbav2.experiments.report.curves import CurveFigure
from simbav2.experiments.report.published import Published, published_score
from simbav2.experiments.report.runs import Floats, RunRecord
from simbav2.experiments.report.scores import Curve, Method, metric, run_curve
from simbav2.experiments.report.tables import Cell, Row, Table, interval, number, printable

POINTS = 40  # of a metric; more than its small chart can show
EMBEDDED = 3_000_000  # bytes of the largest video that becomes part of the page


# The list of runs -------------------------------------------------------------------------------------------


RESULTS = (
    *("status", "warnings", "steps", "final return", "success", "normalised score", "published"),
    *("updates/s", "time"),
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


def _results(run: RunRecord) -> tuple[Cell, ...]:
    """One cell for each of `RESULTS`."""
    curves = {name: run_curve(run, name).mean for name in ("return", "success")}
    final = {name: float(values[-1]) if len(values) else math.nan for name, values in curves.items()}
    normalized = normalized_score(run.task, final[metric(run.task)])
    score = math.nan if normalized is None else normalized
    published, seconds, speed = published_score(run.task), run.fact("seconds"), run.fact("updates_per_second")
    return (
        Cell(run.status),
        Cell(str(len(run.warnings)) if run.warnings else "–", len(run.warnings)),
        Cell(f"{run.env_steps:,}", run.env_steps),
        Cell(number(final["return"], 1), final["return"]),
        Cell("–" if math.isnan(final["success"]) else f"{final['success']:.0%}", final["success"]),
        Cell(number(score), score),
        Cell(_published_text(published, run.task), published.mean if published else math.nan),
        Cell(number(speed, 1), speed),
        Cell(duration(seconds), seconds),
    )


def _published_text(published: Published | None, task: str) -> str:
    if published is None:
        return "–"
    if metric(task) == "success":
        return interval(100 * published.mean, 100 * published.low, 100 * published.high, digits=1) + " %"
    return interval(published.mean, published.low, published.high, digits=0)


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


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


# What the script shows --------------------------------------------------------------------------------------


def page_data(found: Sequence[Method], figures: Sequence[CurveFigure], folder: Path) -> dict[str, Any]:
    """Steps, configurations and versions are shared by many runs; they are stored once and named by number."""
    pools = {name: _Pool() for name in ("grids", "configs", "versions")}
    panels: dict[str, list[dict[str, Any]]] = {}
    for figure in figures:
        for panel, place in figure.panels:
            series = [{"index": i, **_curve_data(curve, pools["grids"])} for i, curve in panel.curves.items()]
            shown = {"place": place._asdict(), "series": series, "published": _published_data(panel.published)}
            panels.setdefault(figure.drawn.name, []).append(shown)
    runs = [_run_data(run, method, pools, folder) for method in found for run in method.runs]
    contents = {name: pool.values for name, pool in pools.items()}
    return {"methods": [printable(method.label) for method in found], "panels": panels, "runs": runs, **contents}


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


def _published_data(value: Published | None) -> dict[str, float] | None:
    return None if value is None else {"mean": value.mean, "low": value.low, "high": value.high}


def _curve_data(curve: Curve, grids: _Pool) -> dict[str, Any]:
    values = {"y": curve.mean, "low": curve.low, "high": curve.high}
    return {"x": grids.place(_rounded(curve.env_step)), **{name: _rounded(each) for name, each in values.items()}}


def _rounded(values: Floats) -> list[float | None]:
    """As many digits as a chart can show; NaN and infinity become gaps."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


def _run_data(run: RunRecord, method: Method, pools: Mapping[str, _Pool], folder: Path) -> dict[str, Any]:
    metrics = {}
    for name, each in run.metrics.items():
        kept = np.unique(np.linspace(0, len(each.value) - 1, POINTS).round().astype(int))
        steps = pools["grids"].place(_rounded(each.env_step[kept]))
        metrics[printable(name)] = {"x": steps, "y": _rounded(each.value[kept])}
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return {
        "title": printable(f"{run.task}, {method.label}, seed {run.seed}"),
        "seed": run.seed,
        "step_unit": run.step_unit,
        "metric": metric(run.task),
        "published": _published_data(published_score(run.task)),
        "curve": _curve_data(run_curve(run, metric(run.task)), pools["grids"]),
        "metrics": metrics,
        "facts": [[name, printable(value)] for name, value in _facts(run).items()],
        "failure": run.failure and printable(run.failure),
        "caveats": [printable(caveat) for caveat in caveats(run, method)],
        "warnings": [
            [each.env_step, *map(printable, (each.name, each.text, each.remedy))] for each in run.warnings
        ],
        "videos": [[printable(video.name), _video(video, folder)] for video in run.videos],
        "command": printable(command(run)),
        "versions": pools["versions"].place(printable(versions)),
        "config": pools["configs"].place({**to_json(run.config), "seed": None}),
    }


def _facts(run: RunRecord) -> dict[str, str]:
    facts = {name: cell.text for name, cell in zip(RESULTS, _results(run), strict=True)}
    compute, training = run_compute(run), training_compute(run)
    if compute is not None:
        total = "" if math.isnan(training) else f", {training:.3g} FLOP in all"
        facts["compute"] = f"{compute.update / 1e9:.3g} GFLOP per update{total}"
    return {name: text for name, text in facts.items() if text != "–"} | {"folder": str(run.folder)}


def _video(file: Path, folder: Path) -> str:
    """A small video becomes part of the page, a large one stays where it is."""
    if file.stat().st_size <= EMBEDDED:
        return f"data:video/mp4;base64,{b64encode(file.read_bytes()).decode()}"
    return Path(os.path.relpath(file, folder)).as_posix()
