"""Several seeds side by side: who gets which cores, and that each is its single run bit for bit."""

import json
import os
import subprocess
import sys

import pytest
from toys import TINY

from simbav2 import cli
from simbav2.experiments.sweep.worker import Share, shares
from simbav2.xla_flags import ONE_THREAD

SETTINGS = [
    f"--{name}={value}"
    for name, value in {
        **TINY,
        "env_steps": 300,
        "updates_per_decision": 0.1,
        "schedule.evaluation_episodes": 1,
    }.items()
]


def test_every_process_has_cores_of_its_own():
    assert shares([0, 1], 2) == [Share(1, (0,)), Share(1, (1,))]
    assert shares([0, 1, 2, 3], 2) == [Share(2, (0, 2)), Share(2, (1, 3))]
    assert shares([5, 7], 3) == [Share(1, (5,)), Share(1, (7,)), Share(1, (5,))]


def test_xla_is_told_what_a_process_has(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_foo=1")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert Share(1).environment()["XLA_FLAGS"] == "--xla_foo=1 --xla_cpu_multi_thread_eigen=false"
    assert Share(2).environment()["XLA_FLAGS"] == "--xla_foo=1"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in Share(1, gpus=1).environment()
    assert Share(1, gpus=0.25).environment()["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.225"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "0", "1", "--seed", "2"], "both given"),
        (["--seeds", "1", "1"], "twice"),
        (["--seeds", "0", "--critic.widht", "3"], "critic.width"),
    ],
    ids=["both", "twice", "typo"],
)
def test_bad_input_is_told_once(words, told, capsys):
    assert cli.main(["train", "Pendulum-v1", *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1


def test_a_seed_among_several_is_its_single_run(tmp_path):
    def train(*words: str) -> str:
        # As many threads as the command itself chooses.
        environment = {**os.environ, "XLA_FLAGS": os.environ["XLA_FLAGS"].replace(ONE_THREAD, "")}
        call = [sys.executable, "-m", "simbav2", "train", "Pendulum-v1", "--preset", "sac", *SETTINGS, *words]
        return subprocess.run(call, env=environment, check=True, capture_output=True, text=True).stdout

    printed = train("--seeds", "0", "1", "--out", str(tmp_path / "several"))
    train("--seed", "1", "--out", str(tmp_path / "single"))
    assert "seed 0: " in printed
    assert "seed 1: " in printed
    summaries = [
        json.loads((tmp_path / folder / "summary.json").read_text())
        for folder in ("single", "several/seed-1", "several/seed-0")
    ]
    single, one, other = (summary["params_sha256"] for summary in summaries)
    assert single == one != other
    evaluations = [(tmp_path / folder / "evaluations.csv").read_text() for folder in ("single", "several/seed-1")]
    assert evaluations[0] == evaluations[1]
