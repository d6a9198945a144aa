"""A table as a value, and its Markdown, LaTeX and tidy CSV. Names from outside are escaped here.

What a highlight means is said by the table's caption; how strong it looks is decided here.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from typing import NamedTuple


class Mark(NamedTuple):
    """A highlight: the name it has in files, how Markdown shows it, and its colour in LaTeX."""

    name: str
    markdown: str  # with the text in place of {}
    colour: str


# The paper's scale, from best to worst; the words are its captions'.
BEST = Mark("highest", "**{}**", "green!35")
GOOD = Mark("not statistically worse", "*{}*", "green!15")
CHANGES = (
    (0.10, Mark("large positive change", "{} ▲▲▲", "green!45")),
    (0.05, Mark("positive change", "{} ▲▲", "green!30")),
    (0.02, Mark("mild positive change", "{} ▲", "green!15")),
)
LOSSES = (
    (-0.10, Mark("catastrophic change", "{} ▼▼▼", "red!45")),
    (-0.05, Mark("damaging change", "{} ▼▼", "red!30")),
    (-0.02, Mark("mild negative change", "{} ▼", "red!15")),
)


def change_mark(value: float, base: float) -> Mark | None:
    """The highlight of a relative change, after the caption of the paper's table 2."""
    if not base or math.isnan(value) or math.isnan(base):
        return None
    # Values have three digits; a change that is 0.02 on paper must not fail by the rounding of a quotient.
    change = round((value - base) / abs(base), 6)
    if change > 0:
        return next((mark for bound, mark in CHANGES if change >= bound), None)
    return next((mark for bound, mark in LOSSES if change <= bound), None)


class Cell(NamedTuple):
    text: str = "–"
    value: float = math.nan  # what to sort by
    low: float = math.nan
    high: float = math.nan
    mark: Mark | None = None
    note: str = ""


class Row(NamedTuple):
    label: str
    cells: tuple[Cell, ...]
    group: str = ""  # a heading that the row stands under
    ours: bool = False


class Table(NamedTuple):
    name: str  # of its files
    title: str
    caption: str
    headings: tuple[str, ...]  # the first stands over the labels
    rows: tuple[Row, ...]
    ours: frozenset[int] = frozenset()  # the columns that are ours, where those are the columns

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.group for row in self.rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said about single cells, once each, numbered from 1 in this order."""
        return tuple(dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note))


def number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """`0.892 [0.885, 0.899]`; the value alone where its interval is unknown."""
    shown = number(value, digits)
    return shown if math.isnan(low) else f"{shown} [{number(low, digits)}, {number(high, digits)}]"


def interval_cell(value: float, low: float, high: float, digits: int = 3, note: str = "") -> Cell:
    return Cell(interval(value, low, high, digits), value, low, high, note=note)


def plus_minus(value: float, half: float, digits: int = 3) -> str:
    shown = number(value, digits)
    return shown if math.isnan(half) else f"{shown} ± {number(half, digits)}"


def printable(name: str) -> str:
    """A name from outside, fit to be shown: one line, without control characters or halves of characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


# Markdown ---------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return re.sub(r"([\\`*_\[\]<>|&#~])", r"\\\1", " ".join(printable(part) for part in text.split()))


def markdown(table: Table) -> str:
    lines = [f"### {plain(table.title)}", "", plain(table.caption), ""]
    width = len(table.headings)
    lines += _line([plain(heading) for heading in table.headings])
    lines += _line(["---", *["---:"] * (width - 1)])
    for group in table.groups:
        if group:
            lines += _line([f"**{plain(group)}**", *[""] * (width - 1)])
        for row in (row for row in table.rows if row.group == group):
            label = plain(row.label)
            cells = [_markdown_cell(cell, table) for cell in row.cells]
            lines += _line([f"**{label}** (ours)" if row.ours else label, *cells])
    lines += ["", *(f"{index}. {plain(note)}" for index, note in enumerate(table.notes, start=1))]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_cell(cell: Cell, table: Table) -> str:
    text = plain(cell.text)
    shown = cell.mark.markdown.format(text) if cell.mark else text
    return shown + (f" ({table.notes.index(cell.note) + 1})" if cell.note else "")


def _line(cells: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


# LaTeX ------------------------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "–": "--", "±": r"$\pm$", "→": r"$\rightarrow$", "√": r"$\surd$", "≤": r"$\leq$",
    "≥": r"$\geq$", "…": r"\ldots{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def latex_text(text: str) -> str:
    shown = " ".join(printable(part) for part in text.split())
    return "".join(_LATEX.get(each, each if each.isascii() else "?") for each in shown)


def latex(table: Table) -> str:
    """A table for a two-column paper; its first line names the packages it needs."""
    width = len(table.headings)
    lines = [
        "% needs \\usepackage{booktabs,graphicx} and \\usepackage[table]{xcolor}",
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{\textbf{{{latex_text(table.title)}.}} {latex_text(table.caption)}}}",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        r"\toprule",
        " & ".join(rf"\textbf{{{latex_text(heading)}}}" for heading in table.headings) + r" \\",
    ]
    for group in table.groups:
        lines.append(r"\midrule")
        if group:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{latex_text(group)}}}}} \\")
        for row in (row for row in table.rows if row.group == group):
            label = latex_text(row.label) + (" (ours)" if row.ours else "")
            lines.append(" & ".join([label, *(_latex_cell(cell, table) for cell in row.cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [
        rf"\par\footnotesize\raggedright $^{{{index}}}$ {latex_text(note)}"
        for index, note in enumerate(table.notes, start=1)
    ]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def _latex_cell(cell: Cell, table: Table) -> str:
    colour = rf"\cellcolor{{{cell.mark.colour}}} " if cell.mark else ""
    note = f"$^{{{table.notes.index(cell.note) + 1}}}$" if cell.note else ""
    return colour + latex_text(cell.text) + note


# CSV --------------------------------------------------------------------------------------------------------


def tidy(table: Table) -> str:
    """One line per cell that holds a value."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("group", "row", "ours", "column", "value", "low", "high", "highlight", "note"))
    for row in table.rows:
        for index, (heading, cell) in enumerate(zip(table.headings[1:], row.cells, strict=True)):
            if not math.isnan(cell.value):
                ours = int(row.ours or index in table.ours)
                numbers = (
                    "" if math.isnan(each) else f"{each:.10g}" for each in (cell.value, cell.low, cell.high)
                )
                mark = cell.mark.name if cell.mark else ""
                names = (_inert(name) for name in (row.group, row.label))
                writer.writerow((*names, ours, _inert(heading), *numbers, mark, cell.note))
    return stream.getvalue()


def _inert(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    shown = printable(name)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown
