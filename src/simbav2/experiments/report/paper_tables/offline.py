"""The paper's table of offline training on D4RL."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simbav2.envs.tasks import normalized_score
from simbav2.experiments.report.paper_tables.online import highlighted
from simbav2.experiments.report.published import offline_scores
from simbav2.experiments.report.scores import Method
from simbav2.experiments.report.statistics import Sample
from simbav2.experiments.report.tables import Cell, Row, Table, plus_minus

OFFLINE_TRIALS = 10  # of the paper's offline table


def offline_table(methods: Sequence[Method]) -> Table | None:
    published = offline_scores()
    datasets = tuple(name for name in published["SimbaV2+BC"] if name != "average")
    ours = [method for method in methods if any(_finals(method, dataset) for dataset in datasets)]
    if not ours:
        return None
    columns = []
    for dataset in (*datasets, "average"):
        values = [each[dataset] for each in published.values()]
        deviations = [value.high - value.mean for value in values]
        # The caption: "the environment's average variance was used for methods without reported variance".
        usual = math.sqrt(np.nanmean(np.square(deviations)))
        cells: list[Cell] = []
        samples: list[Sample | None] = []
        for value, deviation in zip(values, deviations, strict=True):
            error = (usual if math.isnan(deviation) else deviation) / math.sqrt(OFFLINE_TRIALS)
            text = plus_minus(value.mean, deviation, digits=1)
            cells.append(Cell(text, value.mean, value.low, value.high, note=value.note))
            samples.append(Sample(value.mean, error, OFFLINE_TRIALS))
        for method in ours:
            cell, sample = _offline_cell(method, datasets if dataset == "average" else (dataset,))
            cells.append(cell)
            samples.append(sample)
        columns.append(highlighted(cells, samples))
    labels = [*published, *(method.label for method in ours)]
    return Table(
        name="offline",
        title="Offline RL (D4RL)",
        caption="D4RL score after offline training, ± one standard deviation over runs. Bold: the highest. Italic:"
        " not statistically worse than the highest (Welch's t-test, two-sided, level 0.05). The paper does not say"
        " what its ± is; read as a standard deviation it gives the paper's own highlights most often.",
        headings=("method", *(name.removeprefix("d4rl/").removesuffix("-v2") for name in datasets), "average"),
        rows=tuple(
            Row(label, tuple(column[index] for column in columns), ours=index >= len(published))
            for index, label in enumerate(labels)
        ),
    )


def _offline_cell(method: Method, datasets: Sequence[str]) -> tuple[Cell, Sample | None]:
    """The mean of runs; over several data sets the mean of their means, with the deviation of a run's mean."""
    per_set = [np.array(_finals(method, dataset)) for dataset in datasets]
    if not all(map(len, per_set)):
        return Cell(), None
    samples = [Sample.of(scores) for scores in per_set]
    mean = float(np.mean([sample.mean for sample in samples]))
    count = min(sample.size for sample in samples)
    error = math.sqrt(sum(sample.standard_error**2 for sample in samples)) / len(samples)
    deviation = error * math.sqrt(count)
    cell = Cell(plus_minus(mean, deviation, digits=1), mean, mean - deviation, mean + deviation)
    return cell, Sample(mean, error, count)


def _finals(method: Method, dataset: str) -> list[float]:
    """The final scores of complete runs that learned from data alone: going on online is another matter."""
    found = []
    for trial in method.trials.get(dataset, ()):
        score = None if trial.final is None else normalized_score(trial.task, trial.final)
        if trial.complete and score is not None and not (trial.run and "then_online" in trial.run.given):
            found.append(score)
    return found
