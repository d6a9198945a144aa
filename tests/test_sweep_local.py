"""Runs in parallel on one machine, and as Slurm jobs: stopped or killed, they finish with the same results."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import stub_worker
from short_runs import results
from sweep_plan import SETTINGS, endings, finish, outcomes, start, wait, write
from toys import TINY

from simbav2 import SimbaV2, cli
from simbav2.checkpoint import lock
from simbav2.experiments.sweep import local
from simbav2.experiments.sweep.estimate import estimate
from simbav2.experiments.sweep.local import Machine
from simbav2.experiments.sweep.plan import read_plan
from simbav2.experiments.sweep.status import status
from simbav2.experiments.sweep.worker import Share, shares
from simbav2.runtime import ONE_THREAD
from simbav2.training import run


def test_every_process_has_its_own_cores_and_xla_knows(monkeypatch):
    assert shares([0, 1], 2) == [Share(1, (0,)), Share(1, (1,))]
    assert shares([0, 1, 2, 3], 2) == [Share(2, (0, 2)), Share(2, (1, 3))]
    assert shares([5, 7], 3) == [Share(1, (5,)), Share(1, (7,)), Share(1, (5,))]
    monkeypatch.setenv("XLA_FLAGS", "--xla_foo=1")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert Share(1).environment()["XLA_FLAGS"] == "--xla_foo=1 --xla_cpu_multi_thread_eigen=false"
    assert Share(2).environment()["XLA_FLAGS"] == "--xla_foo=1"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in Share(1, gpus=1).environment()
    assert Share(1, gpus=0.25).environment()["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.225"


def test_a_seed_among_several_is_its_single_run(tmp_path):
    settings = {**TINY, "env_steps": 300, "updates_per_decision": 0.1, "schedule.evaluation_episodes": 1}
    # As many threads as the command itself chooses.
    environment = {**os.environ, "XLA_FLAGS": os.environ["XLA_FLAGS"].replace(ONE_THREAD, "")}

    def train(*words: str) -> str:
        given = [f"--{name}={value}" for name, value in settings.items()]
        call = [sys.executable, "-m", "simbav2", "train", "Pendulum-v1", "--preset", "sac", *given, *words]
        return subprocess.run(call, env=environment, check=True, capture_output=True, text=True).stdout

    printed = train("--seeds", "0", "1", "--out", str(tmp_path / "several"))
    train("--seed", "1", "--out", str(tmp_path / "single"))
    assert "seed 0: " in printed
    assert "seed 1: " in printed
    assert results(tmp_path / "single") == results(tmp_path / "several" / "seed-1")
    assert results(tmp_path / "single")[0] != results(tmp_path / "several" / "seed-0")[0]


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

    monkeypatch.setattr(local, "start", start)
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
    assert list(made.items()) == [(second.name, ("finished", "")), (first.name, ("finished", ""))]


def test_a_log_that_cannot_be_written_is_the_runs_failure(tmp_path):
    (tmp_path / "logs").touch()  # a file where the folder should be
    (only,) = read_plan(str(write(tmp_path, seeds=1))).runs
    outcome = local.run_with_retries(only, tmp_path, Share(1), retries=5)
    assert outcome.state == "failed"
    assert outcome.error.startswith(str(tmp_path / "logs"))


@pytest.mark.parametrize(("gigabytes", "admitted"), [(1.0, False), (2.0, True)])
def test_runs_are_kept_from_memory_that_is_not_there(tmp_path, gigabytes, admitted):
    first, second = read_plan(str(write(tmp_path, seeds=2))).runs
    assert 0.5e9 < estimate(first).memory < 1e9
    machine = Machine(workers=2, memory=int(gigabytes * 1e9))
    assert machine.admits(first, [])
    assert machine.admits(second, [first]) == admitted


def slurm(tmp_path, program: str) -> tuple[Path, dict[str, str]]:
    """The script of a plan of two runs, and an environment in which `simbav2` is `program`."""
    script = tmp_path / "jobs.sh"
    plan = write(tmp_path, seeds=2)
    assert cli.main(["sweep", str(plan), "--out", str(tmp_path / "runs"), "--slurm", str(script)]) == 0
    subprocess.run(["bash", "-n", str(script)], check=True)
    for name, text in {"simbav2": program, "scontrol": f'echo "$@" > {tmp_path}/requeued'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return script, {**os.environ, "PATH": path, "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "1"}


def test_a_line_of_the_job_array_makes_its_run(tmp_path):
    script, environment = slurm(tmp_path, f'exec {sys.executable} -m simbav2 "$@"')
    assert "#SBATCH --array=0-1\n" in script.read_text()
    subprocess.run(["bash", str(script)], env=environment, check=True, capture_output=True)
    plan, out = tmp_path / "short.toml", tmp_path / "runs"
    first, second = read_plan(str(plan)).runs
    assert status(first, out).state == "waiting"
    assert status(second, out)[:3] == ("finished", SETTINGS["env_steps"], SETTINGS["env_steps"])
    # Finished runs are not queued again.
    assert cli.main(["sweep", str(plan), "--out", str(out), "--slurm", str(script)]) == 0
    assert "#SBATCH --array=0-0\n" in script.read_text()


def test_a_slurm_job_that_is_stopped_is_queued_again(tmp_path):
    program = f"trap 'exit 130' TERM; touch {tmp_path}/started; while :; do sleep 0.05; done"
    script, environment = slurm(tmp_path, program)
    job = subprocess.Popen(["bash", str(script)], env=environment)
    wait((tmp_path / "started").exists, seconds=20)
    job.terminate()
    assert job.wait(20) == 130
    assert (tmp_path / "requeued").read_text() == "requeue 77_1\n"
