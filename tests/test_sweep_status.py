"""The state of a plan's runs, read from their folders, and the table that shows it."""

import io
import os
import subprocess
import sys

from rich.console import Console

from simbav2.checkpoint import lock
from simbav2.experiments.sweep.plan import read_plan
from simbav2.experiments.sweep.status import SweepTable, log_path, status, summary


def begin(folder) -> None:
    folder.mkdir()
    (folder / "config.json").touch()
    (folder / "progress.csv").write_text("env_step,decisions,updates\n500,250,0\n1000,500,20\n1500,")


def test_status_is_read_from_folders_alone(tmp_path):
    runs = waiting, stopped, failed, killed, damaged, finished = read_plan("smoke").runs[:6]
    for each in (stopped, failed, damaged, finished):
        begin(tmp_path / each.name)
    (tmp_path / failed.name / "failure.json").write_text('{"error": "the arm fell off"}')
    (tmp_path / damaged.name / "summary.json").write_text('{"env_steps": ')
    (tmp_path / finished.name / "summary.json").write_text('{"env_steps": 3000, "final_return": 12.5}')
    (tmp_path / finished.name / "evaluations.csv").write_text("env_step,episode,return\n")
    (tmp_path / "logs").mkdir()
    log_path(tmp_path, killed.name).write_text("--- attempt on vm\n    it went well\n--- exit status -9\n")
    assert status(waiting, tmp_path).state == "waiting"
    assert status(stopped, tmp_path)[:3] == ("stopped", 3000, 1000)
    assert status(failed, tmp_path) == ("failed", 3000, 1000, None, "the arm fell off")
    assert status(killed, tmp_path) == ("failed", 3000, 0, None, "killed by SIGKILL")
    assert status(damaged, tmp_path).state == "failed"
    assert status(finished, tmp_path) == ("finished", 3000, 3000, 12.5, "")
    (tmp_path / finished.name / "config.json").write_text('{"schedule": {"evaluation_episodes": 3, "keep": 2}}')
    assert status(finished, tmp_path).note == "made with schedule.evaluation_episodes 3"
    with lock.hold(tmp_path / stopped.name):
        now = status(stopped, tmp_path)
        assert now.state == "running"
        assert f"process {os.getpid()} on" in now.note
    assert summary(status(each, tmp_path) for each in runs) == "3 failed, 1 stopped, 1 waiting, 1 finished"


def test_asking_who_holds_a_run_keeps_nobody_out(tmp_path):
    """A question has the lock for a moment; whoever wants it then waits that moment."""
    code = (
        f"from pathlib import Path; from simbav2.checkpoint import lock; run = Path({str(tmp_path)!r})\n"
        "(run / lock.NAME).touch(); print(flush=True)\nwhile True: lock.holder(run)"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert asking.stdout.readline()
        for _ in range(100):
            (tmp_path / lock.NAME).touch()
            with lock.hold(tmp_path):
                pass
    finally:
        asking.kill()
        asking.communicate()


def test_plain_output_has_a_line_for_every_change(tmp_path):
    plan, console = read_plan("smoke"), Console(file=io.StringIO(), width=40)
    with SweepTable(plan, tmp_path, console) as table:
        table.refresh()
        begin(tmp_path / plan.runs[3].name)
        table.refresh()
        table.refresh()
    assert console.file.getvalue().splitlines() == [
        "smoke: 12 waiting",
        "stopped   mujoco/Hopper-v4 · sac · seed 1: step 1,000 of 3,000",
    ]
    assert table.summary() == "1 stopped, 11 waiting"


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
    assert "1,000 / 3,000" in first
    assert "failed: no more \\x1b[31mpaint" in first
    assert shown.count(" waiting") == 3
    assert "and 8 more" in shown
