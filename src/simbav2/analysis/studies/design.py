"""The paper's table 2: what single changes to SimbaV2 cost."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.analysis import aggregate
from simbav2.analysis.published import DESIGNS, aggregates
from simbav2.analysis.scores import System
from simbav2.analysis.studies.online import published_cell, suite_cell
from simbav2.analysis.studies.suites import (
    COLUMNS,
    TITLES,
    suite_tasks,
)
from simbav2.analysis.tables import Cell, Row, Table, change_mark


def design_table(systems: Sequence[System]) -> Table | None:
    """Ours are compared with our own run of the same preset without the change, on the tasks that both have."""
    ours = [system for system in systems if system.design is not None]
    if not ours:
        return None
    rows = []
    base = aggregates("ablation")["SimbaV2"]
    rows.append(Row("SimbaV2", tuple(published_cell(base[suite]) for suite in COLUMNS), "Published"))
    for letter, design in DESIGNS.items():
        values = aggregates("ablation", letter)["SimbaV2"]
        marked = (
            published_cell(values[suite])._replace(mark=change_mark(values[suite].mean, base[suite].mean))
            for suite in COLUMNS
        )
        rows.append(Row(f"({letter}) {design}", tuple(marked), "Published"))
    for system in ours:
        default = _without_design(system, systems)
        cells = tuple(_design_cell(system, default, suite) for suite in COLUMNS)
        title = f"Ours, against {default.label}" if default else "Ours, with nothing to compare"
        name = DESIGNS.get(str(system.design), "unknown change")
        rows.append(Row(f"({system.design}) {name}: {system.label}", cells, title, ours=True))
    return Table(
        name="design",
        title="Design study (table 2)",
        caption="Mean normalised score of SimbaV2 with one change each. Highlighted is the change relative to the"
        " default: ▲ from 2 %, ▲▲ from 5 %, ▲▲▲ from 10 % up; ▼ from 2 %, ▼▼ from 5 %, ▼▼▼ from 10 % down.",
        headings=("design", *(f"{TITLES[suite]} ({len(suite_tasks(suite))})" for suite in COLUMNS)),
        rows=tuple(rows),
    )


def _without_design(system: System, systems: Sequence[System]) -> System | None:
    """The default it is a change of: the same preset without one, and of those the one most alike."""
    candidates = [
        other for other in systems if other.preset == system.preset and other.design is None and other.runs
    ]

    def unlike(other: System) -> int:
        names = set(system.settings) | set(other.settings)
        return sum(system.settings.get(name) != other.settings.get(name) for name in names)

    return min(candidates, key=unlike, default=None)


def _design_cell(system: System, default: System | None, suite: str) -> Cell:
    cell, _ = suite_cell(system, suite)
    ids = system.covered(suite_tasks(suite))
    if default is None or not ids or default.covered(ids) != ids:
        return cell
    own, base = (float(aggregate.mean(each.scores(ids, holes=True).values)) for each in (system, default))
    return cell._replace(mark=change_mark(own, base))
