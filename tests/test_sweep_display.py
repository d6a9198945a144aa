"""What a person sees of a sweep."""

import io

from rich.console import Console

from simbav2.experiments.sweep.plan import read_plan
from simbav2.experiments.sweep.status import SweepTable


def begin(folder) -> None:
    folder.mkdir()
    (folder / "config.json").touch()
    (folder / "progress.csv").write_text("env_step,decisions,updates\n500,250,20\n")


def test_plain_output_has_a_line_for_every_change(tmp_path):
    plan, console = read_plan("smoke"), Console(file=io.StringIO(), width=40)
    with SweepTable(plan, tmp_path, console) as board:
        board.refresh()
        begin(tmp_path / plan.runs[3].name)
        board.refresh()
        board.refresh()
    assert console.file.getvalue().splitlines() == [
        "smoke: 12 waiting",
        "stopped   mujoco/Hopper-v4 · sac · seed 1: step 500 of 3,000",
    ]
    assert board.summary() == "1 stopped, 11 waiting"


def test_a_terminal_shows_a_table_with_what_matters_first(tmp_path):
    plan = read_plan("smoke")
    begin(tmp_path / plan.runs[11].name)
    (tmp_path / plan.runs[11].name / "failure.json").write_text('{"error": "no more \\u001b[31mpaint"}')
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=10, color_system=None)
    with SweepTable(plan, tmp_path, console):
        pass
    shown = console.file.getvalue().split("smoke: 1 failed, 11 waiting")[-1]
    first = next(line for line in shown.splitlines() if "seed" in line)
    assert first.startswith("Pendulum-v1 · sac · seed 1")
    assert "500 / 3,000" in first
    assert "failed: no more \\x1b[31mpaint" in first
    assert shown.count(" waiting") == 3
    assert "and 8 more" in shown
