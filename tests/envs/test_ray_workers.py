"""Environments as actors of a Ray cluster: the bits of one process; a lost node costs its episodes, each once."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import ray_nodes
from short_runs import SETTINGS, TASK, results, start
from sweep_plan import wait

from simbav2 import SimbaV2
from simbav2.checkpoint import rotation
from simbav2.training import run

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`"),
]
# Programs of their own: Ray forks, which JAX's threads forbid in this process.
CONFORMANCE = """
from simbav2 import check_vector_env
from simbav2.envs.vector import make_vector_env
print(*check_vector_env(lambda probe: make_vector_env(probe, num_envs=3, workers=2, backend="ray")))
"""


def test_terminal_observations_are_kept_on_ray():
    done = subprocess.run([sys.executable, "-c", CONFORMANCE], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    decisions, terminations, truncations = map(int, done.stdout.split())
    assert decisions == 180
    assert min(terminations, truncations) >= 20


def test_a_run_on_ray_has_the_bits_of_one_process(tmp_path):
    workers = "--num-envs=4", "--env-workers=2", "--evaluation-workers=1", "--env-backend=ray"
    process = start(tmp_path / "run", *workers)
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    run.start(SimbaV2(TASK, seed=1, **SETTINGS, num_envs=4), tmp_path / "whole")
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_node_is_lost_and_the_run_goes_on(tmp_path, monkeypatch):
    """Eight environments in four actors fill two nodes; with one node, four episodes are lost."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folder, env_steps = tmp_path / "run", 20_000
    with ray_nodes.started(nodes=2, cpus=2) as cluster:
        more = "--num-envs=8", "--env-workers=4", "--env-backend=ray", f"--address={cluster.address}"
        process = start(folder, *more, f"--env-steps={env_steps}", "--replay.capacity=20000")
        wait(lambda: process.poll() is not None or len(rotation.checkpoints(folder)) > 1)
        cluster.stdin.write("kill one\n")
        cluster.stdin.flush()
        assert cluster.stdout.readline() == "killed\n"
        assert process.poll() is None
        _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors

    told = re.findall(
        r"environments (\d) to (\d): a Ray actor was lost .*; replaced, and cut: episode (\d+), (\d+)", errors
    )
    assert len(told) == 2, errors
    lost = {int(first): int(episode) for first, _, episode, _ in told}
    lost |= {int(last): int(episode) for _, last, _, episode in told}
    summary = json.loads((folder / "summary.json").read_text())
    counted = [summary[name] for name in ("env_steps", "decisions", "cut_episodes", "dropped_steps")]
    assert counted == [env_steps, env_steps, 4, 0]

    # Every episode has one end, in its own environment; the lost ones have none but the cut.
    saved, _ = rotation.load_run(folder)
    rows = saved.replay.export_rows(0, env_steps // 8)
    ends = np.zeros((2, 8), int)
    for kind, name in enumerate(("ended", "dropped")):
        np.add.at(ends[kind], rows[name] % 8, 1)
    assert np.flatnonzero(ends[1]).tolist() == sorted(lost)
    assert ends[1].max() == 1
    assert ends.sum(axis=0).tolist() == saved.episodes["episodes"]
