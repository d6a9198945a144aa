"""Sweeps on a Ray cluster: nodes and drivers may die, and the results are those of the local backend."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
import ray_nodes
from sweep_plan import endings, finish, outcomes, start, wait, write

from simbav2.checkpoint import lock
from simbav2.experiments.sweep.plan import read_plan

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
RUNS = 4


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes with room for one run each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with ray_nodes.started(nodes=2, cpus=1) as process:
        yield process


@pytest.mark.full
def test_nodes_and_drivers_die_and_no_run_is_lost(cluster, tmp_path):
    plan = write(tmp_path, RUNS)
    names = [each.name for each in read_plan(str(plan)).runs]
    out = tmp_path / "ray"
    on_ray = ("--backend", "ray", "--address", cluster.address)

    def finished() -> int:
        return len(outcomes(out))

    def under_way() -> list[Path]:
        return [out / name for name in names if (out / name / "checkpoints").exists() and lock.holder(out / name)]

    driver = start(plan, out, *on_ray)
    wait(under_way)
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
    wait(under_way)
    cluster.stdin.write("kill one\n")
    cluster.stdin.flush()
    assert cluster.stdout.readline() == "killed\n"
    assert finished() < RUNS
    printed, errors = driver.communicate(timeout=600)
    assert driver.returncode == 0, errors
    assert f"short: {RUNS} finished" in printed

    assert all(ends.count("0") <= 1 for ends in endings(out))  # none was made twice
    assert list(outcomes(out)) == sorted(names)
    finish(plan, tmp_path / "local")
    assert outcomes(tmp_path / "local") == outcomes(out)


def test_a_cluster_that_is_not_there_is_told_in_one_line(tmp_path):
    process = start(write(tmp_path, 1), tmp_path / "runs", "--backend", "ray", "--address", "127.0.0.1:1")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == "simbav2: no Ray cluster at 127.0.0.1:1: [Errno 111] Connection refused\n"
