"""What a person sees of a run."""

import io

import pytest
from rich.console import Console

from simbav2.training.display import Display, Status, clock, sparkline


def status() -> Status:
    return Status(
        "dmc/walker-walk · paper · seed [0]",
        45_000,
        100_000,
        512.3,
        None,
        83.1,
        50.0,
        [(0, 20.0), (40_000, 452.0)],
    )


def test_a_terminal_gets_a_panel():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with Display(status(), console) as display:
        display.refresh(evaluated=True)
    shown = console.file.getvalue()
    for fact in ("seed [0]", "45,000 / 100,000 steps", "18:20 left", "452.0", "512.3", "83.1", "▁█"):
        assert fact in shown


def test_anything_else_gets_plain_lines():
    console = Console(file=io.StringIO(), width=60)
    with Display(status(), console) as display:
        display.refresh(evaluated=True)
        display.refresh()  # too soon after the last line
    assert console.file.getvalue().splitlines() == [
        "dmc/walker-walk · paper · seed [0]",
        "step 45,000/100,000  return 452.0  83.1 updates/s  18:20 left",
    ]


@pytest.mark.parametrize(("seconds", "shown"), [(None, "–"), (7, "0:07"), (187.4, "3:07"), (3_729, "1:02:09")])
def test_clock(seconds, shown):
    assert clock(seconds) == shown


def test_sparkline_spans_lowest_to_highest_and_keeps_the_latest():
    assert sparkline([0.0, 7.0]) == "▁█"
    assert sparkline([5.0]) == "▁"
    assert sparkline([9.0, 0.0, 1.0], width=2) == "▁█"
