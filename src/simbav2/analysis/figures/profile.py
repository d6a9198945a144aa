"""Performance profiles: more than a mean says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simbav2.analysis import aggregate
from simbav2.analysis.figures.points import (
    common_ground,
    on,
)
from simbav2.analysis.plots import (
    COLUMN,
    SERIES,
    Drawn,
    legend,
    look,
    panels,
    save,
)
from simbav2.analysis.scores import System

if TYPE_CHECKING:
    pass


def draw_profile(found: Sequence[System], folder: Path) -> Drawn | None:
    able, ids = common_ground(found)
    places = {index: system for index, system in enumerate(found) if system in able}
    if not places:
        return None
    scores = {index: system.scores(ids, holes=True).values for index, system in places.items()}
    top = max(1.0, max(float(np.nanmax(values)) for values in scores.values()))
    thresholds = np.linspace(0, 1.05 * top, 120)
    figure, ((axes,),) = panels(1, 1, COLUMN, 1.8, len(places))
    lines = {}
    for index, values in scores.items():
        profile = aggregate.performance_profile(values, thresholds)
        if len(values) > 1:
            samples = aggregate.resample(values, np.random.default_rng(0), 500)
            band = np.percentile(aggregate.performance_profile(samples, thresholds), [2.5, 97.5], axis=0)
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
        " bootstrap. A curve that is higher everywhere belongs to the better system.",
        save(figure, folder / "profile"),
    )
