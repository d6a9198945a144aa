"""The paper's tables, our rows beside the published ones. A table is made only where there are runs for it."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report.paper_tables.ablation import ablation_table
from simbav2.experiments.report.paper_tables.by_task import other_table, suite_table, utd_table
from simbav2.experiments.report.paper_tables.offline import offline_table
from simbav2.experiments.report.paper_tables.online import online_table
from simbav2.experiments.report.paper_tables.own import improvement_table, summary_table
from simbav2.experiments.report.scores import Method
from simbav2.experiments.report.tables import Table


def all_tables(methods: Sequence[Method]) -> tuple[Table, ...]:
    """Those there are runs for."""
    made = (
        summary_table(methods),
        improvement_table(methods),
        online_table(methods),
        ablation_table(methods),
        offline_table(methods),
        utd_table(methods),
        *(suite_table(suite, methods) for suite in SUITES),
        other_table(methods),
    )
    return tuple(table for table in made if table is not None)
