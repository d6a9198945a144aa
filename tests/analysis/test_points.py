from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from simbav2.experiments.report.figures.points import annotate, cost_axis


@pytest.mark.parametrize("cost", [1e13, 3e14, 1e16])
def test_the_name_of_a_point_stays_within_its_axes(cost):
    axes = Figure((3, 2)).add_subplot()
    cost_axis(axes, "cost", [1e13, 1e16])
    annotate(axes, "SimbaV2 (paper)", cost, 0.5)
    (words,) = axes.texts
    box, frame = words.get_window_extent(), axes.get_window_extent()
    assert frame.x0 < box.x0 < box.x1 < frame.x1
