"""The paper's figures from our runs, with the published values where there are any.

Methods are compared on tasks that all of them have; a figure says how many, and is left out where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simbav2.experiments.report.figures.compute import draw_compute
from simbav2.experiments.report.figures.measures import draw_measures
from simbav2.experiments.report.figures.profile import draw_profile
from simbav2.experiments.report.figures.scaling import SCALING, draw_scaling
from simbav2.experiments.report.figures.summary import draw_summary
from simbav2.experiments.report.plots import Drawn, style
from simbav2.experiments.report.scores import Method


def draw_all(found: Sequence[Method], folder: Path) -> tuple[Drawn, ...]:
    """Draw the figures there are runs for into `folder`."""
    with style():
        drawn = [
            draw_compute(found, folder),
            draw_summary(found, folder),
            draw_profile(found, folder),
            draw_measures(found, folder),
            *(draw_scaling(found, field, folder) for field in SCALING),
        ]
    return tuple(figure for figure in drawn if figure is not None)
