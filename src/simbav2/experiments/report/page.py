"""The report as one self-contained HTML page.

Text from outside is escaped here; the script inserts its data as text, never as markup. The page fetches nothing,
and its content security policy allows no script but its own. It follows the reader's light or dark setting,
figures included.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from simbav2.experiments.report.curves import CurveFigure
from simbav2.experiments.report.plots import THEME, Drawn
from simbav2.experiments.report.tables import Cell, Row, Table, printable

ASSETS = Path(__file__).parent / "assets"
SECTIONS = ("overview", "figures", "curves", "tables", "runs", "notes")
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
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
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
