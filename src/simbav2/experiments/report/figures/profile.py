"""Performance profiles: more than a mean says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simbav2.experiments.report import statistics
from simbav2.experiments.report.figures.points import (
    common_ground,
    on,
)
from simbav2.experiments.report.plots import (
    COLUMN,
    SERIES,
    Drawn,
    legend,
    look,
    panels,
    save,
)
from simbav2.experiments.report.scores import Method

if TYPE_CHECKING:
    pass


def draw_profile(found: Sequence[Method], folder: Path) -> Drawn | None:
    able, ids = common_ground(found)
    places = {index: method for index, method in enumerate(found) if method in able}
    if not places:
        return None
    scores = {index: method.scores(ids, holes=True).values for index, method in places.items()}
    top = max(1.0, max(float(np.nanmax(values)) for values in scores.values()))
    thresholds = np.linspace(0, 1.05 * top, 120)
    figure, ((axes,),) = panels(1, 1, COLUMN, 1.8, len(places))
    lines = {}
    for index, values in scores.items():
        profile = statistics.performance_profile(values, thresholds)
        if len(values) > 1:
            samples = statistics.resample(values, np.random.default_rng(0), 500)
            band = np.percentile(statistics.performance_profile(samples, thresholds), [2.5, 97.5], axis=0)
            axes.fill_between(thresholds, *band, color=SERIES[index % len(SERIES)], alpha=0.18, linewidth=0)
        (lines[places[index].label],) = axes.plot(thresholds, profile, markevery=15, **look(index))
    axes.set_xlabel("normalised score τ")
    axes.set_ylabel("share of runs above τ")
    axes.set_title(on(ids))
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, thresholds[-1])
    legend(figure, lines)
    return Drawn(
        "profile",
        "Performance profiles",
        f"The share of all runs {on(ids)} that score more than τ; shaded: 95 % interval by the stratified"
        " bootstrap. A curve that is higher everywhere belongs to the better method.",
        save(figure, folder / "profile"),
    )
