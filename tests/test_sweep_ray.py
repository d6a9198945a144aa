"""Sweeps on a Ray cluster: nodes and drivers may die, and the results are those of the local backend."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sweep_plan import endings, finish, outcomes, start, wait, write

from simbav2.sweep.plan import read_plan
from simbav2.training import lock

RUNS = 12
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes with room for one run each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    command = [sys.executable, str(Path(__file__).parent / "ray_nodes.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.address = process.stdout.readline().strip()
        yield process
        process.stdin.close()


def test_nodes_and_drivers_die_and_no_run_is_lost(cluster, tmp_path):
    plan = write(tmp_path, RUNS)
    names = [each.name for each in read_plan(str(plan)).runs]
    out = tmp_path / "ray"
    on_ray = ("--backend", "ray", "--address", cluster.address)

    def finished() -> int:
        return endings(out).count("0")

    def under_way() -> list[Path]:
        return [out / name for name in names if (out / name / "checkpoints").exists() and lock.holder(out / name)]

    driver = start(plan, out, *on_ray)
    wait(lambda: len(under_way()) == 2)
    driver.send_signal(signal.SIGINT)
    printed, errors = driver.communicate(timeout=120)
    assert driver.returncode == 130, errors
    assert not any(lock.holder(out / name) for name in names)  # all have saved themselves

    driver = start(plan, out, *on_ray)
    wait(lambda: finished() and under_way())
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=60)
    wait(lambda: not any(lock.holder(out / name) for name in names), seconds=60)
    assert 0 < finished() < RUNS

    driver = start(plan, out, *on_ray)
    already = finished()
    wait(lambda: finished() > already and len(under_way()) == 2)
    cluster.stdin.write("kill one\n")
    cluster.stdin.flush()
    assert cluster.stdout.readline() == "killed\n"
    assert finished() < RUNS
    printed, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert f"short: {RUNS} finished" in printed

    assert finished() == RUNS  # none twice
    finish(plan, tmp_path / "local")
    assert list(outcomes(out)) == sorted(names)
    assert outcomes(out) == outcomes(tmp_path / "local")


def test_a_cluster_that_is_not_there_is_told_in_one_line(tmp_path):
    process = start(write(tmp_path, 1), tmp_path / "runs", "--backend", "ray", "--address", "127.0.0.1:1")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "no Ray cluster at 127.0.0.1:1" in errors.splitlines()[-1]
