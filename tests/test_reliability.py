"""Nothing is lost: kills at every step of the writing, locks, full disks, runs begun and begun again."""

import builtins
import io
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from mutations import digest, env, honest_run
from short_runs import ARGUMENTS, SETTINGS, TASK, load_trainer, results, start

from simbav2 import CheckpointError, Failure, InputError, SimbaV2
from simbav2.checkpoint import checkpoint, files, lock, rotation
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.cli import main
from simbav2.training import run

pytestmark = pytest.mark.usefixtures("empty_reports")

# Kills while a checkpoint is written. ------------------------------------------------------------------------


class Died(BaseException):
    """What a kill is to the code: nothing after it happens, not even cleaning up."""


class Faults:
    """Counts what is asked of the file system, and dies at call number `fatal`, before or in the middle of it."""

    EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"})

    def __init__(self) -> None:
        self.fatal: int | None = None
        self.calls = 0
        self.watching = False
        sys.addaudithook(lambda event, _: self.call() if event in self.EVENTS else None)

    def call(self) -> None:
        if self.watching:
            self.calls += 1
            if self.calls == self.fatal:
                self.watching = False
                raise Died

    def fsync(self, descriptor: int) -> None:
        self.call()

    def open(self, path, mode="r", *more, **named):
        faults = self

        class Torn(io.FileIO):
            def write(self, data) -> int:
                data = memoryview(data)
                written = super().write(data[: len(data) // 2])
                faults.call()
                return written + super().write(data[len(data) // 2 :])

        return Torn(path, mode) if mode == "wb" else builtins.open(path, mode, *more, **named)


@pytest.fixture(scope="module")
def faults():
    return Faults()


def identity(folder) -> str:
    """Of the newest checkpoint that verifies, replay files included; by its sums, which are of all its bytes."""
    for path in rotation.checkpoints(folder):
        try:
            found = checkpoint.verify(path, checkpoint.AGENT)
            for segment in found.replay:
                files.check(folder / "replay" / segment.name, segment.checksum)
        except CheckpointError:
            continue
        return json.dumps([found.files, found.replay])
    raise AssertionError(f"{folder} has no whole checkpoint")


def test_a_kill_at_any_call_of_the_writing_leaves_a_loadable_run(faults, tmp_path, monkeypatch):
    settings = {"schedule.keep": 2, "env_steps": 1_000, "replay.capacity": 250}  # old replay files go, too
    origin = honest_run(tmp_path / "origin", **settings)
    loop, replay = load_trainer(origin, env)
    before = identity(origin)
    # 60 steps on, from the checkpoint at 1,000.
    for _ in range(60):
        loop.step()

    def save(folder) -> None:
        CheckpointRotation(folder, loop.config.schedule, replay, saved=1_000).save(loop.checkpoint(episodes=True))

    shutil.copytree(origin, tmp_path / "whole")
    save(tmp_path / "whole")
    after, full = identity(tmp_path / "whole"), digest(tmp_path / "whole")
    files = {path.name for path in (tmp_path / "whole").glob("*/*")}
    assert before != after
    monkeypatch.setattr(os, "fsync", faults.fsync)
    monkeypatch.setattr("simbav2.checkpoint.files.open", faults.open, raising=False)
    seen, fatal = [], 0
    while True:
        fatal += 1
        folder = tmp_path / f"{fatal}"
        shutil.copytree(origin, folder)
        faults.calls, faults.fatal, faults.watching = 0, fatal, True
        try:
            save(folder)
        except Died:
            pass
        else:
            faults.watching = False
            break
        seen.append(identity(folder))
        assert seen[-1] in (before, after), fatal
        # And whatever was left behind is in nobody's way.
        if fatal % 3 == 0:
            save(folder)
            assert identity(folder) == after
            assert {path.name for path in folder.glob("*/*")} == files
        shutil.rmtree(folder)
    assert digest(folder) == full
    assert fatal > 50
    # It switches once, at the rename, from the old to the new.
    assert sum(one != two for one, two in pairwise(seen)) == 1


def test_sigkill_costs_only_the_steps_since_the_last_checkpoint(finished, tmp_path):
    folder = tmp_path / "run"
    process = start(folder)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None and not rotation.checkpoints(folder):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert (folder / lock.NAME).exists()  # nobody was left to remove it, and nobody is kept out by it
    run.resume(folder)
    assert results(folder) == results(finished)


# Beginnings and ends. ----------------------------------------------------------------------------------------


def test_a_run_killed_before_its_first_checkpoint_starts_again(finished, tmp_path):
    folder = tmp_path / "run"
    run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder)
    for name in ("checkpoints", "replay"):
        shutil.rmtree(folder / name)
    (folder / "summary.json").unlink()
    (folder / "progress.csv").write_text("env_step,decis")
    run.resume(folder)
    assert results(folder) == results(finished)


def test_a_run_killed_before_its_summary_gets_it(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "summary.json").unlink()
    run.resume(folder)
    assert results(folder) == results(finished)
    with pytest.raises(InputError, match="complete"):
        run.resume(folder)


def test_episodes_that_ended_since_the_last_log_are_not_forgotten(tmp_path):
    """The row after a resume tells of them, too: from a checkpoint at 1,350 with logs at 1,200 and 1,600."""
    folder = tmp_path / "run"
    run.start(SimbaV2(TASK, seed=1, **{**SETTINGS, "schedule.checkpoint_every": 450}), folder)
    rows = (folder / "progress.csv").read_text().splitlines()
    for path in rotation.checkpoints(folder):
        if int(path.name) != 1_350:
            shutil.rmtree(path)
    run.resume(folder)
    again = (folder / "progress.csv").read_text().splitlines()
    assert [row.split(",")[:7] for row in again] == [row.split(",")[:7] for row in rows]


def test_auto_resume_starts_resumes_and_returns_if_complete(finished, tmp_path, capsys, caplog):
    folder = tmp_path / "run"
    words = ["train", TASK, "--seed", "1", *ARGUMENTS, "--out", str(folder), "--auto-resume"]
    assert main([*words, "--stop-after", "800"]) == 0
    # The schedule does not change what is learned: a run keeps its own, and says so.
    with caplog.at_level(logging.WARNING):
        assert main([*words, "--schedule.evaluation-episodes", "3"]) == 0
    assert caplog.messages == [
        f"simbav2: {folder} keeps the schedule it was started with: schedule.evaluation_episodes 2"
    ]
    assert results(folder) == results(finished)
    capsys.readouterr()
    page = folder / "report" / "index.html"
    for again in (words, ["resume", str(folder)]):  # a job that is started once too often writes a missing report
        page.unlink()
        assert main(again) == 0
        assert "after 1,600 steps" in capsys.readouterr().out
        assert page.exists()
    assert main(["resume", str(folder)]) == 2
    assert "is complete at 1,600 steps" in capsys.readouterr().err
    assert main(["train", TASK, "--seed", "2", *ARGUMENTS, "--out", str(folder), "--auto-resume"]) == 2
    assert "other settings" in capsys.readouterr().err


def test_the_result_of_a_run_outlives_its_checkpoints(finished, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, ignore=shutil.ignore_patterns("checkpoints", "replay", "report"))
    with pytest.raises(InputError, match="has a result but no checkpoint to resume from"):
        run.resume(folder)
    words = ["train", TASK, "--seed", "1", *ARGUMENTS, "--out", str(folder), "--auto-resume"]
    assert main(words) == 0
    assert "after 1,600 steps" in capsys.readouterr().out
    assert (folder / "report" / "index.html").exists()
    assert not (folder / "checkpoints").exists()  # nothing was made again
    assert results(folder) == results(finished)


def test_what_a_process_left_before_its_first_file_is_no_obstacle(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / lock.NAME).write_text("process 1 on elsewhere")
    (folder / ".config.json.tmp").write_text("{")
    honest_run(folder)
    assert rotation.checkpoints(folder)


def test_a_checkpoint_writes_only_what_is_new_and_old_ones_go(tmp_path):
    folder = honest_run(tmp_path / "run", **{"schedule.keep": 3, "replay.capacity": 220})
    kept = rotation.checkpoints(folder)
    assert [int(path.name) for path in kept] == [500, 400, 300]
    segments = [checkpoint.read_manifest(path).replay for path in kept]
    # The ring holds steps 280 to 499; the last of them is with the checkpoint.
    assert [(segment.first, segment.last) for segment in segments[0]] == [(199, 299), (299, 399), (399, 499)]
    names = {path.name for path in (folder / "replay").iterdir()}
    assert names == {segment.name for each in segments for segment in each}
    assert main(["train", TASK, *ARGUMENTS, "--keep", "0"]) == 2


def test_minutes_bring_checkpoints_too(tmp_path):
    given = {"schedule.checkpoint_every": 10**6, "schedule.checkpoint_minutes": 1e-9, "schedule.keep": 1_000}
    folder = honest_run(tmp_path / "run", **given, env_steps=50)
    assert len(rotation.checkpoints(folder)) == 50
    off = honest_run(tmp_path / "off", **{**given, "schedule.checkpoint_minutes": 0}, env_steps=50)
    assert [int(path.name) for path in rotation.checkpoints(off)] == [50]  # the end of the run


# Two at once, and no room. -----------------------------------------------------------------------------------


def test_the_second_process_on_a_run_is_refused(tmp_path):
    folder = honest_run(tmp_path / "run")
    code = (
        "import pathlib, sys; from simbav2.checkpoint.lock import hold\n"
        "with hold(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for attempt in (
        lambda: run.resume(folder, env=env),
        lambda: run.start(SimbaV2(env, **SETTINGS), folder, overwrite=True),
    ):
        with pytest.raises(InputError, match=f"in use by process {holder.pid} on "):
            attempt()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    holder.kill()
    holder.communicate()
    with pytest.raises(InputError, match="complete"):
        run.resume(folder, env=env)
    assert lock.holder(folder) is None


def test_a_full_disk_ends_the_run_in_one_line_and_costs_nothing_saved(finished, tmp_path):
    """A limit on the size of files stands for the disk: the same error, by another number."""
    folder = tmp_path / "run"
    run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder, stop_after=800)
    before = identity(folder)
    learner = (rotation.checkpoints(folder)[0] / "learner.safetensors").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (learner - 1, limits[1]))
    try:
        with pytest.raises(Failure, match=r"learner\.safetensors.* cannot be written: File too large.*resume"):
            run.resume(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert identity(folder) == before
    assert not [path for path in folder.rglob(".*") if path.name != lock.NAME]
    run.resume(folder)
    assert results(folder) == results(finished)


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        assert main(["train", TASK, *ARGUMENTS, "--out", str(place)]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "Not a directory" in error
