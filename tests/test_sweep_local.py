"""Sweeps on one machine: whatever stops them, running them again finishes the plan with the same results."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest
import stub_worker
from short_runs import results
from sweep_plan import SETTINGS, endings, finish, outcomes, start, wait, write

from simbav2 import SimbaV2, cli
from simbav2.checkpoint import lock
from simbav2.experiments.sweep import local, retry
from simbav2.experiments.sweep.estimate import estimate
from simbav2.experiments.sweep.local import Machine
from simbav2.experiments.sweep.plan import read_plan
from simbav2.experiments.sweep.worker import Share
from simbav2.training import run


def test_a_stopped_or_killed_sweep_finishes_with_the_same_results(tmp_path):
    """From end to end: true processes, killed and stopped."""
    plan, out = write(tmp_path, seeds=2, env_steps=1_500), tmp_path / "runs"
    folders = [out / each.name for each in read_plan(str(plan)).runs]

    process = start(plan, out, "--workers", "2")
    wait(lambda: all(list(folder.glob("checkpoints/0*")) for folder in folders))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    # Its runs do not outlive it.
    wait(lambda: not any(lock.holder(folder) for folder in folders), seconds=30)
    assert not any((folder / "summary.json").exists() for folder in folders)

    process = start(plan, out, "--workers", "2")
    wait(lambda: all(lock.holder(folder) for folder in folders))
    wait(lambda: any(len((folder / "metrics.jsonl").read_text()) > 4_000 for folder in folders))
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "resume with the same command" in printed
    assert not any(lock.holder(folder) for folder in folders)
    assert not outcomes(out)

    printed = finish(plan, out, "--workers", "2")
    assert (out / "report-short" / "index.html").exists()
    assert [ends.count("0") for ends in endings(out)] == [1, 1]
    # Finished runs are left alone.
    before = [(folder / "summary.json").stat().st_mtime_ns for folder in folders]
    assert "all 2 runs are finished" in finish(plan, out)
    assert [(folder / "summary.json").stat().st_mtime_ns for folder in folders] == before

    settings = {**SETTINGS, "env_steps": 1_500}
    run.start(SimbaV2("Pendulum-v1", preset="sac", seed=1, **settings), tmp_path / "alone")
    assert outcomes(out)[folders[1].name] == results(tmp_path / "alone")


@pytest.fixture
def stubs(monkeypatch):
    """Runs whose processes only leave their files."""

    def start(words, share, output):
        return subprocess.Popen([sys.executable, stub_worker.__file__, *words], stdout=output, text=True)

    monkeypatch.setattr(retry, "start", start)
    monkeypatch.setattr("simbav2.experiments.report.report.report", lambda folders, out: (out, (), None))


def test_an_impossible_run_is_named_and_the_others_finish(tmp_path, capsys, stubs):
    plan, out = write(tmp_path, 1, stub_worker.FAILS, "Pendulum-v1"), tmp_path / "runs"
    sweep = ["sweep", str(plan), "--out", str(out), "--retries", "1", "--workers", "2"]
    assert cli.main(sweep) == 1
    printed = capsys.readouterr()
    assert "1 failed, 1 finished" in printed.out
    (told,) = printed.err.splitlines()
    assert told.startswith(f"simbav2: {stub_worker.FAILS} · sac · seed 0 failed: ")
    assert stub_worker.ERROR in told
    assert sorted(endings(out)) == [["0"], ["1", "1"]]  # tried once more

    assert cli.main(["sweep", "status", str(plan), "--out", str(out), "--json"]) == 1
    broken, whole = json.loads(capsys.readouterr().out)
    assert (whole["state"], whole["env_step"]) == ("finished", 600)
    assert (broken["state"], broken["env_step"]) == ("failed", 300)
    assert stub_worker.ERROR in broken["note"]

    # The third attempt gets to the end; the finished run is left alone.
    assert cli.main(sweep) == 0
    assert sorted(endings(out)) == [["0"], ["1", "1", "0"]]


def test_a_run_that_another_sweep_took_first_is_left_to_it(tmp_path, monkeypatch, stubs):
    """Both found it free; the one that came second does the others meanwhile."""
    out = tmp_path / "runs"
    first, second = read_plan(str(write(tmp_path, seeds=2, env_steps=100))).runs
    asked = lock.holder
    looks = iter([None])
    monkeypatch.setattr(lock, "holder", lambda folder: next(looks, asked(folder)))
    taken = ExitStack()
    taken.enter_context(lock.hold(out / first.name))

    def refresh():
        if (out / second.name / "summary.json").exists():
            taken.close()

    made = local.run_all([first, second], out, Machine(workers=1, memory=10**10), retries=0, refresh=refresh)
    assert {name: outcome.state for name, outcome in made.items()} == {
        first.name: "finished",
        second.name: "finished",
    }
    assert list(made) == [second.name, first.name]


def test_a_log_that_cannot_be_written_is_the_runs_failure(tmp_path):
    (tmp_path / "logs").touch()  # a file where the folder should be
    (only,) = read_plan(str(write(tmp_path, seeds=1))).runs
    outcome = retry.run_with_retries(only, tmp_path, Share(1), retries=5)
    assert outcome == ("failed", f"{tmp_path / 'logs'}: File exists")


@pytest.mark.parametrize(("gigabytes", "admitted"), [(1.0, False), (2.0, True)])
def test_runs_are_kept_from_memory_that_is_not_there(tmp_path, gigabytes, admitted):
    first, second = read_plan(str(write(tmp_path, seeds=2))).runs
    assert 0.5e9 < estimate(first).memory < 1e9
    machine = Machine(workers=2, memory=int(gigabytes * 1e9))
    assert machine.admits(first, [])
    assert machine.admits(second, [first]) == admitted
