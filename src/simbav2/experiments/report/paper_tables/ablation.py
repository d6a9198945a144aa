"""The paper's table 2: what single changes to SimbaV2 cost."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.experiments.report import statistics
from simbav2.experiments.report.paper_tables.online import published_cell, suite_cell
from simbav2.experiments.report.paper_tables.suites import (
    COLUMNS,
    TITLES,
    suite_tasks,
)
from simbav2.experiments.report.published import ABLATIONS, aggregates
from simbav2.experiments.report.scores import Method
from simbav2.experiments.report.tables import Cell, Row, Table, change_mark


def ablation_table(methods: Sequence[Method]) -> Table | None:
    """Ours are compared with our own run of the same preset without the change, on the tasks that both have."""
    ours = [method for method in methods if method.ablation is not None]
    if not ours:
        return None
    rows = []
    base = aggregates("ablation")["SimbaV2"]
    rows.append(Row("SimbaV2", tuple(published_cell(base[suite]) for suite in COLUMNS), "Published"))
    for letter, ablation in ABLATIONS.items():
        values = aggregates("ablation", letter)["SimbaV2"]
        marked = (
            published_cell(values[suite])._replace(mark=change_mark(values[suite].mean, base[suite].mean))
            for suite in COLUMNS
        )
        rows.append(Row(f"({letter}) {ablation}", tuple(marked), "Published"))
    for method in ours:
        default = _without_ablation(method, methods)
        cells = tuple(_ablation_cell(method, default, suite) for suite in COLUMNS)
        title = f"Ours, against {default.label}" if default else "Ours, with nothing to compare"
        name = ABLATIONS.get(str(method.ablation), "unknown change")
        rows.append(Row(f"({method.ablation}) {name}: {method.label}", cells, title, ours=True))
    return Table(
        name="ablation",
        title="Ablation study (table 2)",
        caption="Mean normalised score of SimbaV2 with one change each. Highlighted is the change relative to the"
        " default: ▲ from 2 %, ▲▲ from 5 %, ▲▲▲ from 10 % up; ▼ from 2 %, ▼▼ from 5 %, ▼▼▼ from 10 % down.",
        headings=("ablation", *(f"{TITLES[suite]} ({len(suite_tasks(suite))})" for suite in COLUMNS)),
        rows=tuple(rows),
    )


def _without_ablation(method: Method, methods: Sequence[Method]) -> Method | None:
    """The default it is a change of: the same preset without one, and of those the one most alike."""
    candidates = [
        other for other in methods if other.preset == method.preset and other.ablation is None and other.runs
    ]

    def unlike(other: Method) -> int:
        names = set(method.settings) | set(other.settings)
        return sum(method.settings.get(name) != other.settings.get(name) for name in names)

    return min(candidates, key=unlike, default=None)


def _ablation_cell(method: Method, default: Method | None, suite: str) -> Cell:
    cell, _ = suite_cell(method, suite)
    ids = method.covered(suite_tasks(suite))
    if default is None or not ids or default.covered(ids) != ids:
        return cell
    own, base = (float(statistics.mean(each.scores(ids, holes=True).values)) for each in (method, default))
    return cell._replace(mark=change_mark(own, base))
