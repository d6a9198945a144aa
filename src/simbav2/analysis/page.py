"""How a report is written down: one self-contained HTML page, and Markdown.

All text comes from outside and is escaped here, in one place each. The page needs no network and no script;
it follows the reader's light or dark setting, figures included, and on a phone each table row becomes a card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from string import Template
from typing import NamedTuple

from simbav2.analysis.plots import THEME, printable

LIGHT = {**THEME, "page": "#f4f5f7", "link": "#0a5fa3", "alert": "#8a4b00", "alert-back": "#fff1d6"}
DARK = {
    "card": "#1b1f24",
    "ink": "#e6e9ed",
    "muted": "#98a1ab",
    "line": "#343b43",
    "series-0": "#56b4e9",
    "series-1": "#f0803c",
    "series-2": "#2cc79a",
    "series-3": "#e29cc4",
    "series-4": "#f0b93a",
    "series-5": "#9ad3f5",
    "page": "#121519",
    "link": "#7cc4f2",
    "alert": "#ffc46b",
    "alert-back": "#3a2c14",
}
TEXT_COLUMNS = ("task", "preset", "status")


class Section(NamedTuple):
    """One task: its figure and what it shows."""

    task: str
    stem: str  # of the figure's files
    svg: str
    claims: tuple[str, ...]


class Card(NamedTuple):
    """One run in full."""

    title: str
    status: str
    result: str
    folder: str
    doubts: tuple[str, ...]
    command: tuple[str, ...]  # the program and its task, then a flag with its value each
    versions: str
    config: str  # JSON, hence ASCII


class Content(NamedTuple):
    problems: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # one per card, in the same order
    sections: tuple[Section, ...]
    cards: tuple[Card, ...]
    notes: tuple[str, ...]

    @property
    def abstract(self) -> str:
        unfinished = sum(card.status == "unfinished" for card in self.cards)
        count = f"{_count(len(self.cards), 'run')} of {_count(len(self.sections), 'task')}"
        return f"{count}, {unfinished or 'none'} unfinished."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# Markdown ---------------------------------------------------------------------------------------------------


def markdown(content: Content) -> str:
    rule = ["---" if heading in TEXT_COLUMNS else "---:" for heading in content.headings]
    table = [content.headings, rule, *(map(_plain, row) for row in content.rows)]
    lines = ["# SimbaV2 results", "", content.abstract, ""]
    lines += [f"**Could not be read:** {_plain(problem)}\n" for problem in content.problems]
    lines += ["| " + " | ".join(cells) + " |" for cells in table]
    for section in content.sections:
        lines += ["", f"## {_plain(section.task)}", "", f"![learning curve]({section.stem}.png)", ""]
        lines += [f"- {_plain(claim)}" for claim in section.claims]
    doubted = [card for card in content.cards if card.doubts]
    if doubted:
        lines += ["", "## Doubts", ""]
        lines += [f"- {_plain(card.title)}: {_plain('; '.join(card.doubts))}" for card in doubted]
    lines += ["", "## Notes", "", *(f"- {note}" for note in content.notes)]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return re.sub(r"([\\`*_\[\]<>|&#])", r"\\\1", " ".join(printable(part) for part in text.split()))


# HTML -------------------------------------------------------------------------------------------------------


def html(content: Content) -> str:
    problems = _list(content.problems, "Could not be read: ")
    return PAGE.substitute(
        light=_variables(LIGHT),
        dark=_variables(DARK),
        abstract=_text(content.abstract),
        problems=f'<div class="problems">{problems}</div>' if problems else "",
        table=_table(content),
        figures="".join(map(_figure, content.sections)),
        runs="".join(_details(card, index) for index, card in enumerate(content.cards)),
        notes=_list(content.notes),
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _list(lines: Iterable[str], prefix: str = "") -> str:
    items = "".join(f"<li>{prefix}{_text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(content: Content) -> str:
    kinds = ["text" if heading in TEXT_COLUMNS else "number" for heading in content.headings]
    columns = list(zip(content.headings, kinds, strict=True))
    head = "".join(f'<th scope="col" class="{kind}">{heading}</th>' for heading, kind in columns)
    body = []
    for index, row in enumerate(content.rows):
        cells = []
        for (heading, kind), text in zip(columns, row, strict=True):
            shown = _text(text)
            if heading == "task":
                shown = f'<a href="#run-{index}">{shown}</a>'
            elif heading == "status":
                shown = _pill(text)
            cells.append(f'<td class="{kind}" data-heading="{heading}">{shown}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _pill(text: str, kind: str | None = None) -> str:
    return f'<span class="pill {kind or text}">{text}</span>'


def _figure(section: Section) -> str:
    claims = _list(section.claims)
    files = f'<a href="{section.stem}.png">PNG</a> <a href="{section.stem}.svg">SVG</a>'
    return f"<figure>{_inline(section)}<figcaption>{claims}<p>{files}</p></figcaption></figure>"


def _inline(section: Section) -> str:
    """The figure as part of the page: its size and colours are the page's, its ids are its own."""
    svg = section.svg[section.svg.index("<svg") :]
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{section.stem}-", svg)
    for name, colour in THEME.items():
        svg = svg.replace(colour, f"var(--{name})")
    label = _text(f"Learning curve of {section.task}")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _details(card: Card, index: int) -> str:
    doubts = f"<h3>Doubts</h3>{_list(card.doubts)}" if card.doubts else ""
    pills = _pill(card.status) + (_pill(_count(len(card.doubts), "doubt"), "doubted") if card.doubts else "")
    command = " ".join(f"<span>{_text(words)}</span>" for words in card.command)
    return (
        f"<details class='run'><summary><b>{_text(card.title)}</b> {pills}"
        f"<span class='result'>{_text(card.result)}</span></summary>"
        f"<div id='run-{index}'>{doubts}"
        f"<h3>Command</h3><pre class='command'>{command}</pre>"
        f"<h3>Versions</h3><p>{_text(card.versions)}</p>"
        f"<h3>Folder</h3><p><code>{_text(card.folder)}</code></p>"
        f"<details><summary>Configuration</summary><pre>{escape(card.config)}</pre></details>"
        "</div></details>"
    )


PAGE = Template("""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SimbaV2 results</title>
<style>
:root { color-scheme: light dark; $light }
@media (prefers-color-scheme: dark) { :root { $dark } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2rem 1.25rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .7rem; }
h3 { font-size: .78rem; margin: 1rem 0 .2rem; color: var(--muted); font-weight: 600; }
p { margin: .2rem 0; }
a { color: var(--link); }
ul { margin: .2rem 0; padding-left: 1.2rem; }
.lead, footer { color: var(--muted); }
.problems { margin-top: 1rem; padding: .6rem .9rem; border-radius: 8px; }
.box, figure, details.run { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.box { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
th, td { padding: .5rem .7rem; text-align: left; }
th { font-weight: 600; font-size: .78rem; color: var(--muted); vertical-align: bottom; }
td { white-space: nowrap; }
td[data-heading="preset"] { white-space: normal; }
tbody tr { border-top: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.pill { font-size: .75rem; padding: .1rem .5rem; border: 1px solid var(--line); border-radius: 99px;
  margin-right: .3rem; }
.problems, .unfinished, .doubted { background: var(--alert-back); color: var(--alert); border-color: #0000; }
.figures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 32rem), 1fr)); }
figure { margin: 0; padding: 1rem; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: system-ui, sans-serif !important; }
figcaption { font-size: .85rem; color: var(--muted); margin-top: .6rem; }
figcaption ul { list-style: none; padding: 0; color: var(--ink); }
details.run { margin-bottom: .5rem; }
summary { cursor: pointer; }
details.run > summary { padding: .6rem .9rem; }
details.run > div { padding: 0 .9rem .9rem; font-size: .9rem; }
details details { margin-top: 1rem; }
.result { float: right; font-variant-numeric: tabular-nums; }
pre { margin: .3rem 0; padding: .7rem; background: var(--page); border-radius: 6px; font-size: .8rem;
  overflow-x: auto; }
pre.command { white-space: normal; }
pre.command span { display: inline-block; max-width: 100%; }
footer { font-size: .85rem; margin-top: 2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
@media (max-width: 700px) {
  main { padding: 1.25rem .75rem 2rem; }
  figure { padding: .6rem; }
  .box { background: none; border: 0; }
  table, tbody { display: block; }
  thead { display: none; }
  tbody tr { display: grid; grid-template-columns: repeat(3, 1fr); gap: .3rem 1rem; padding: .8rem;
    margin-bottom: .6rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
  td { display: block; padding: 0; white-space: normal; overflow-wrap: anywhere; }
  td.number { text-align: left; }
  td::before { content: attr(data-heading); display: block; font-size: .72rem; color: var(--muted); }
  td[data-heading="task"] { grid-column: 1 / -1; font-weight: 600; }
  td[data-heading="published"] { grid-column: span 2; }
}
</style>
<main>
<h1>SimbaV2 results</h1>
<p class="lead">$abstract
The same as <a href="report.md">Markdown</a>; all evaluations as <a href="results.csv">CSV</a>.</p>
$problems
<h2>Overview</h2>
<div class="box">$table</div>
<h2>Learning curves</h2>
<div class="figures">$figures</div>
<h2>Runs</h2>
$runs
<footer>$notes</footer>
</main>
</html>
""")
