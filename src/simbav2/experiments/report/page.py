"""The report as one self-contained HTML page.

Text from outside is escaped here; the script inserts its data as text, never as markup. The page fetches nothing,
and its content security policy allows no script but its own. It follows the reader's light or dark setting,
figures included.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from simbav2.config import to_json
from simbav2.experiments.report.curves import CurveFigure
from simbav2.experiments.report.methods import caveats
from simbav2.experiments.report.paper_tables import RESULTS, results
from simbav2.experiments.report.plots import THEME, Drawn
from simbav2.experiments.report.published import Published, published_score
from simbav2.experiments.report.runs import Floats, RunRecord, command
from simbav2.experiments.report.scores import Curve, Method, metric, run_curve
from simbav2.experiments.report.tables import Cell, Row, Table, printable

ASSETS = Path(__file__).parent / "assets"
SECTIONS = ("overview", "figures", "curves", "tables", "runs", "notes")
POINTS = 40  # of a metric; more than its small chart can show
EMBEDDED = 3_000_000  # bytes of the largest video that becomes part of the page
PILLS = ("finished", "unfinished", "failed")  # the states of a run


class Content(NamedTuple):
    abstract: str
    problems: tuple[str, ...]
    overview: Table | None
    figures: tuple[Drawn, ...]
    curves: tuple[CurveFigure, ...]
    tables: tuple[Table, ...]
    runs: Table  # one row for each of the runs in `data`, in the same order
    notes: tuple[str, ...]
    data: dict[str, Any]  # what the script shows
    refresh_seconds: int | None  # the page reloads itself while runs are unfinished


def html(content: Content) -> str:
    script = _asset("page.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    overview = f'<h2 id="overview">Overview</h2>{_table(content.overview)}' if content.overview else ""
    figures = "".join(map(_figure, content.figures))
    tables = "".join(map(_table, content.tables))
    made = {"overview": overview, "figures": figures, "tables": tables}  # the other sections are always there
    refresh = content.refresh_seconds
    return Template(_asset("page.html")).substitute(
        digest=f"sha256-{digest}",
        refresh=f'<meta http-equiv="refresh" content="{refresh}">\n' if refresh else "",
        theme=" ".join(f"--{name}: {colour};" for name, colour in THEME.items()),
        css=_asset("page.css"),
        links="".join(
            f'<li><a href="#{name}">{name.title()}</a></li>' for name in SECTIONS if made.get(name) != ""
        ),
        abstract=_text(content.abstract),
        problems=f'<div class="alert">{_list(content.problems, "Could not be read: ")}</div>'
        if content.problems
        else "",
        overview=overview,
        figures=f'<h2 id="figures">Figures</h2><div class="grid">{figures}</div>' if figures else "",
        curves=_curves(content.curves),
        tables=f'<h2 id="tables">Tables</h2>{tables}' if tables else "",
        runs=_rows(content.runs, "runs-table", linked=True),
        notes=_list(content.notes),
        data=_json(content.data),
        script=script,
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return escape(printable(text))


def _json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _list(lines: Iterable[str], prefix: str = "") -> str:
    items = "".join(f"<li>{prefix}{_text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


# Tables -----------------------------------------------------------------------------------------------------


def _table(table: Table) -> str:
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    files = " ".join(f'<a href="tables/{table.name}.{kind}">{kind}</a>' for kind in ("md", "tex", "csv"))
    return (
        f'<section class="card"><h3>{_text(table.title)} <span class="files">{files}</span></h3>'
        f'<p class="caption">{_text(table.caption)}</p>'
        f'<div class="scroll">{_rows(table, f"table-{table.name}")}</div>'
        + (f'<ol class="notes">{notes}</ol>' if notes else "")
        + "</section>"
    )


def _rows(table: Table, name: str, linked: bool = False) -> str:
    notes = {note: index for index, note in enumerate(table.notes, start=1)}
    width = len(table.headings)
    # A column without a single number is sorted as text.
    numeric = [
        any(not math.isnan(cell.value) for cell in column)
        for column in zip(*(row.cells for row in table.rows), strict=True)
    ]
    head = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in table.headings)
    bodies = []
    numbered = list(enumerate(table.rows))
    for group in table.groups:
        rows = [f'<tr class="group"><th colspan="{width}">{_text(group)}</th></tr>'] if group else []
        rows += [
            _row(row, table, notes, numeric, f"#run-{index}" if linked else None)
            for index, row in numbered
            if row.group == group
        ]
        bodies.append(f"<tbody>{''.join(rows)}</tbody>")
    return f'<table id="{name}"><thead><tr>{head}</tr></thead>{"".join(bodies)}</table>'


def _row(row: Row, table: Table, notes: dict[str, int], numeric: list[bool], link: str | None) -> str:
    label = f'<a href="{link}">{_text(row.label)}</a>' if link else _text(row.label)
    cells = "".join(
        _cell(cell, notes, mine=index in table.ours, numeric=numeric[index])
        for index, cell in enumerate(row.cells)
    )
    ours = ' class="ours"' if row.ours and not link else ""
    return f'<tr{ours}><th scope="row">{label}</th>{cells}</tr>'


def _cell(cell: Cell, notes: dict[str, int], mine: bool, numeric: bool) -> str:
    mark = "mark-" + cell.mark.name.replace(" ", "-") if cell.mark else ""
    classes = " ".join(filter(None, ("mine" if mine else "", mark, "" if numeric else "text")))
    value = "" if math.isnan(cell.value) else f"{cell.value:.8g}"
    shown = _text(cell.text)
    if cell.text in PILLS:
        shown = f'<span class="pill {cell.text}">{shown}</span>'
    if cell.note:
        shown += f"<sup>{notes[cell.note]}</sup>"
    attributes = (f' class="{classes}"' if classes else "") + (f' data-value="{value}"' if numeric else "")
    return f"<td{attributes}>{shown}</td>"


# Figures ----------------------------------------------------------------------------------------------------


def _curves(figures: Iterable[CurveFigure]) -> str:
    """Under the title of each suite its figure, or the small figures of its tasks."""
    parts = []
    for title, own in groupby(figures, key=lambda figure: figure.suite):
        shown = "".join(_figure(each.drawn, scale=2.4) for each in own)
        grid = ' class="grid"' if shown.count("<figure") > 1 else ""
        parts.append(f"<h3>{_text(title)}</h3><div{grid}>{shown}</div>")
    return "".join(parts)


def _figure(figure: Drawn, scale: float = 1.7) -> str:
    files = f'<a href="figures/{figure.name}.png">PNG</a> <a href="figures/{figure.name}.svg">SVG</a>'
    title = f'<h3>{_text(figure.title)} <span class="files">{files}</span></h3>'
    caption = f'<figcaption class="caption">{_text(figure.caption)}</figcaption>'
    return f'<figure id="figure-{figure.name}">{title}{_inline(figure, scale)}{caption}</figure>'


def _inline(figure: Drawn, scale: float) -> str:
    """The figure as part of the page: its size and colours are the page's, its ids are its own."""
    svg = figure.svg[figure.svg.index("<svg") :]
    width = re.search(r' width="([\d.]+)pt"', svg)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{figure.name}-", svg)
    for name, colour in THEME.items():
        svg = svg.replace(colour, f"var(--{name})")
    # Letters of all figures have about the size of the page's; on a phone a wide one is moved under the finger.
    points = float(width[1]) if width else 0.0
    room = f' style="min-width: {0.95 * points:.0f}px; max-width: {scale * points:.0f}px"'
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{_text(figure.title)}"{room}', 1)
    return f'<div class="scroll">{svg}</div>'


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
    facts = {name: cell.text for name, cell in zip(RESULTS, results(run), strict=True)}
    compute, training = run.compute, run.training_compute
    if compute is not None:
        total = "" if math.isnan(training) else f", {training:.3g} FLOP in all"
        facts["compute"] = f"{compute.update / 1e9:.3g} GFLOP per update{total}"
    return {name: text for name, text in facts.items() if text != "–"} | {"folder": str(run.folder)}


def _video(file: Path, folder: Path) -> str:
    """A small video becomes part of the page, a large one stays where it is."""
    if file.stat().st_size <= EMBEDDED:
        return f"data:video/mp4;base64,{b64encode(file.read_bytes()).decode()}"
    return Path(os.path.relpath(file, folder)).as_posix()
