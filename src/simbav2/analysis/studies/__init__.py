"""The paper's tables, our rows beside the published ones. A table is made only where there are runs for it."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.analysis.scores import System
from simbav2.analysis.studies.by_task import other_table, suite_table, utd_table
from simbav2.analysis.studies.design import design_table
from simbav2.analysis.studies.offline import offline_table
from simbav2.analysis.studies.online import online_table
from simbav2.analysis.studies.own import improvement_table, summary_table
from simbav2.analysis.tables import Table
from simbav2.envs.tasks import SUITES


def all_tables(systems: Sequence[System]) -> tuple[Table, ...]:
    """Those there are runs for."""
    made = (
        summary_table(systems),
        improvement_table(systems),
        online_table(systems),
        design_table(systems),
        offline_table(systems),
        utd_table(systems),
        *(suite_table(suite, systems) for suite in SUITES),
        other_table(systems),
    )
    return tuple(table for table in made if table is not None)
