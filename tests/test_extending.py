"""The walks of docs/extending.md: a suite, an architecture and a sweep backend, added from outside."""

import json
import sys
from dataclasses import dataclass
from types import ModuleType

import flax.linen as nn
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from sweep_plan import SETTINGS, write
from toys import TINY, Chain

import simbav2
from simbav2 import cli
from simbav2.cli import sweep
from simbav2.config import Architecture, setting
from simbav2.envs import tasks
from simbav2.envs.tasks import Suite, Task
from simbav2.experiments.report import report
from simbav2.experiments.sweep.local import Outcome


@pytest.fixture
def suite(monkeypatch):
    """`toy`: a suite row, a task row, and a module with `build`."""
    row = Task("toy/chain", "toy", 2, 1, 1, 5, True, "return", random_score=0.0, reference_score=1.0)
    module = ModuleType("toy_suite")
    module.build = lambda task, render_mode: TimeLimit(Chain(length=2), task.episode_length)
    monkeypatch.setitem(sys.modules, "toy_suite", module)
    monkeypatch.setitem(tasks.SUITES, "toy", Suite("Toy", "return", "return", "toy_suite", 1e-5, True))
    monkeypatch.setitem(tasks.TASKS, row.id, row)
    return row


def test_a_suite_is_a_row_and_a_module(suite, tmp_path, capsys):
    assert simbav2.tasks("toy") == (suite,)
    assert cli.main(["tasks", "toy", "--check"]) == 0
    assert cli.main(["tasks", "toy", "--json"]) == 0
    assert "toy/chain" in capsys.readouterr().out
    with pytest.raises(simbav2.InputError, match="toy/chain"):
        tasks.find("toy/chian")

    words = [f"--{name}={value}" for name, value in {**SETTINGS, "env_steps": 120}.items()]
    assert cli.main(["train", "toy/chain", *words, f"--out={tmp_path / 'run'}"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["task"] == "toy/chain"
    assert summary["normalized_score"] == pytest.approx(summary["final_return"])

    page, problems, _ = report.report([tmp_path / "run"], tmp_path / "report")
    assert not problems
    assert "toy/chain" in page.read_text()


def test_an_architecture_is_a_dataclass_with_an_encoder_and_a_head(monkeypatch, tmp_path):
    monkeypatch.setattr(Architecture, "options", dict(Architecture.options))

    @dataclass(frozen=True)
    class Linear(Architecture):
        """No hidden units."""

        bias: bool = setting(True, "add a bias to the features")

        def encoder(self, width, depth):
            return nn.Dense(width, use_bias=self.bias, name="encoder")

        def head(self, size, name):
            return nn.Dense(size, name=name)

    settings = {"actor.architecture": "Linear", "critic.architecture": "Linear", "actor.architecture.bias": False}
    agent = simbav2.Agent(lambda: Chain(length=2), **{**TINY, **settings})
    assert set(agent.state.actor.params["encoder"]) == {"kernel"}
    assert set(agent.state.critic.params[0]["encoder"]) == {"kernel", "bias"}
    before = np.asarray(agent.state.actor.params["encoder"]["kernel"]).copy()
    agent.learn(240)
    assert not np.array_equal(before, agent.state.actor.params["encoder"]["kernel"])

    agent.save(tmp_path / "agent")
    loaded = simbav2.Agent.load(tmp_path / "agent")
    assert loaded.config.actor.architecture == Linear(bias=False)
    observations = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    np.testing.assert_array_equal(loaded.predict(observations)[0], agent.predict(observations)[0])


def test_a_backend_is_a_function_in_a_table(tmp_path, monkeypatch, capsys):
    def inline(runs, out, table, options):
        """Every run in this process, one after the other."""
        outcomes = {}
        for run in runs:
            status = cli.main(run.argv(out))
            outcomes[run.name] = Outcome("failed", "see above") if status else Outcome("finished")
            table.refresh()
        return outcomes

    monkeypatch.setitem(sweep.BACKENDS, "inline", inline)
    plan, out = write(tmp_path, seeds=2, env_steps=200), tmp_path / "runs"
    words = ["sweep", str(plan), "--backend", "inline", "--out", str(out)]
    assert cli.main(words) == 0
    assert len(list(out.glob("*/summary.json"))) == 2
    assert (out / "report-short" / "index.html").is_file()
    capsys.readouterr()
    assert cli.main(words) == 0
    assert "all 2 runs are finished" in capsys.readouterr().out
