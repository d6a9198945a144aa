"""The paper's table 1: mean scores by suite, the best and what is not worse highlighted."""

from __future__ import annotations

from collections.abc import Sequence

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.paper_tables.suites import (
    COLUMNS,
    PARTIAL,
    TITLES,
    suite_tasks,
)
from simbav2.experiments.report.published import Published, aggregates, seeds
from simbav2.experiments.report.scores import Method
from simbav2.experiments.report.statistics import Sample, not_worse
from simbav2.experiments.report.tables import BEST, GOOD, Cell, Mark, Row, Table, plus_minus


def online_table(methods: Sequence[Method]) -> Table | None:
    own = [method for method in methods if method.ablation is None and method.covered(suite_tasks("all"))]
    if not own:
        return None
    groups = {"low": "(a) Low UTD (≤ 2)", "high": "(b) High UTD (≥ 8)"}
    rows = []
    for variant, title in groups.items():
        published = aggregates("online", variant)
        ours = [method for method in own if (_utd(method) > 4) == (variant == "high")]
        columns = []
        for suite in COLUMNS:
            cells = [published_cell(each.get(suite)) for each in published.values()]
            samples = [_published_sample(method, suite, each.get(suite)) for method, each in published.items()]
            for method in ours:
                cell, sample = suite_cell(method, suite)
                cells.append(cell)
                samples.append(sample)
            columns.append(highlighted(cells, samples))
        labels = [*published, *(method.label for method in ours)]
        for index, label in enumerate(labels):
            mine = index >= len(published)
            shown = tuple(column[index] for column in columns)
            rows.append(Row(label, shown, title, ours=mine and bool(ours[index - len(published)].runs)))
    return Table(
        name="online",
        title="Online RL (table 1)",
        caption="Mean normalised score after training, ± the paper's 95 % interval, 1.96 s / √n over all runs of"
        " all tasks; † marks intervals that the paper made from the means of tasks. Bold: the highest of its part."
        " Italic: not statistically worse than the highest (Welch's t-test, two-sided, level 0.05). The test is"
        " ours for all rows, so some highlights differ from the paper's.",
        headings=("method", *(f"{TITLES[suite]} ({len(suite_tasks(suite))})" for suite in COLUMNS)),
        rows=tuple(rows),
    )


def _utd(method: Method) -> float:
    """The most updates per decision that it takes on any task; 2, as in the paper, where that is not known."""
    return max((run.config.get("updates_per_decision") or 2 for run in method.runs), default=2)


def published_cell(value: Published | None) -> Cell:
    if value is None:
        return Cell()
    half = (value.high - value.low) / 2
    text = plus_minus(value.mean, half) + ("†" if value.approximate else "")
    return Cell(text, value.mean, value.low, value.high, note=value.note)


def _published_sample(method: str, suite: str, value: Published | None) -> Sample | None:
    if value is None:
        return None
    suites = SUITES if suite == "all" else (suite,)
    # Where the paper does not say how many seeds there were, five is its usual number.
    runs = (1 if value.approximate else seeds().get((method, each), 5) for each in suites)
    count = sum(many * len(suite_tasks(each)) for many, each in zip(runs, suites, strict=True))
    return Sample(value.mean, value.standard_error, count)


def suite_cell(method: Method, suite: str) -> tuple[Cell, Sample | None]:
    """Of one of our methods; the sample only where it has the whole suite."""
    wanted = suite_tasks(suite)
    ids = method.covered(wanted)
    if not ids:
        return Cell(), None
    values = method.scores(ids, holes=True).values
    value, (low, high) = float(statistics.mean(values)), statistics.normal_interval(values)
    text = plus_minus(value, (high - low) / 2)
    if len(ids) < len(wanted):
        return Cell(f"{text} ({len(ids)} of {len(wanted)})", value, low, high, note=f"Mean {PARTIAL}."), None
    return Cell(text, value, low, high), Sample.of(values)


def highlighted(cells: Sequence[Cell], samples: Sequence[Sample | None]) -> list[Cell]:
    """The highest, and what is not statistically worse than it; cells without a sample stay as they are."""
    best = max((sample for sample in samples if sample), key=lambda sample: sample.mean, default=None)
    return [
        cell if sample is None or best is None else cell._replace(mark=_rank(sample, best))
        for cell, sample in zip(cells, samples, strict=True)
    ]


def _rank(sample: Sample, best: Sample) -> Mark | None:
    if sample.mean == best.mean:
        return BEST
    return GOOD if not_worse(sample, best) else None
