"""What a person sees of a run."""

import io

import pytest
from rich.console import Console

from simbav2.training.console import Display, Status, clock, diagnostics_table, sparkline


def status() -> Status:
    title, about = "dmc/walker-walk · paper · seed [0]", "actor [0.2M]"
    return Status(title, about, 45_000, 100_000, 512.3, None, 83.1, 50.0, [(0, 20.0), (40_000, 452.0)])


def test_a_terminal_gets_a_panel():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with Display(status(), console) as display:
        display.refresh(evaluated=True)
        display.warn("units dead", "lower the rate")
    shown = console.file.getvalue()
    facts = ("seed [0]", "45,000 / 100,000 steps", "18:20 left", "452.0", "512.3", "83.1", "▁█", "[0.2M]")
    assert all(fact in shown for fact in (*facts, "⚠ units dead"))


def test_anything_else_gets_plain_lines():
    console = Console(file=io.StringIO(), width=60)
    with Display(status(), console) as display:
        display.refresh(evaluated=True)
        display.refresh()  # too soon after the last line
        display.warn("units dead: 90% of them", "lower [the rate]")
    assert console.file.getvalue().splitlines() == [
        "dmc/walker-walk · paper · seed [0]",
        "actor [0.2M]",
        "step 45,000/100,000  return 452.0  83.1 updates/s  18:20 left",
        "warning: units dead: 90% of them",
        "    → lower [the rate]",
    ]


@pytest.mark.parametrize(("seconds", "shown"), [(None, "–"), (7, "0:07"), (187.4, "3:07"), (3_729, "1:02:09")])
def test_clock(seconds, shown):
    assert clock(seconds) == shown


def test_sparkline_spans_lowest_to_highest_and_keeps_the_latest():
    assert sparkline([0.0, 7.0]) == "▁█"
    assert sparkline([5.0]) == "▁"
    assert sparkline([9.0, 0.0, 1.0], width=2) == "▁█"


def test_measures_are_a_table_of_the_groups_that_were_measured():
    norms = ("feature_norm", "parameter_norm", "gradient_norm", "effective_learning_rate")
    measures = {f"critic/encoder/{name}": value for value, name in enumerate(norms, start=1)}
    head, row = diagnostics_table(measures)
    assert head.split() == ["norms", "features", "parameters", "gradients", "g/parameter"]
    assert row.split() == ["critic", "encoder", "1", "2", "3", "4"]
    assert diagnostics_table({}) == []
