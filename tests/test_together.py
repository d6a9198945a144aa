"""Several seeds in one program: the same runs, to rounding, with one call of the device for all."""

import csv
import json
import signal
import sys
import threading
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from toys import TINY

from simbav2 import SimbaV2, cli
from simbav2.sweep import choice, together
from simbav2.sweep.choice import Cost
from simbav2.training import run

SETTINGS = {**TINY, "env_steps": 200, "warmup_decisions": 150, "schedule.evaluation_episodes": 1}


def agent(seed, **settings):
    return SimbaV2("Pendulum-v1", seed=seed, preset="paper", **{**SETTINGS, **settings})


def make(folder, seed, seat, callbacks=()):
    run.start(agent(seed), folder / f"seed-{seed}", callbacks=[seat, *callbacks])
    return 0


def returns(folder):
    rows = csv.DictReader((folder / "evaluations.csv").read_text().splitlines())
    return [float(row["return"]) for row in rows]


@pytest.fixture
def calls(monkeypatch):
    """How many runs every call of the device served, by the function's name."""
    found = []
    compute = together.Meeting._compute

    def counted(self, name, callers):
        found.append((name, len(callers)))
        return compute(self, name, callers)

    monkeypatch.setattr(together.Meeting, "_compute", counted)
    return found


def test_every_seed_is_its_single_run_and_all_learn_in_one_call(tmp_path, calls, capsys):
    assert together.train({seed: partial(make, tmp_path, seed) for seed in (0, 1)}) == {0: 0, 1: 0}
    assert {size for name, size in calls if name == "learn"} == {2}
    printed = capsys.readouterr().out
    assert all(f"seed {seed}: step 200/200" in printed for seed in (0, 1))
    single = agent(seed=1)
    assert run.start(single, tmp_path / "single")
    several = SimbaV2.load(tmp_path / "seed-1")
    assert several.updates == single.updates > 0
    for ours, theirs in zip(*map(jax.tree.leaves, (several.state, single.state)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    ours, theirs = returns(tmp_path / "seed-1"), returns(tmp_path / "single")
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6)  # before the first update only the rounding differs
    assert ours == pytest.approx(theirs, rel=0.01)
    assert returns(tmp_path / "seed-0") != ours


def test_one_call_gives_each_what_it_would_get_alone():
    learners = agent(0).learner
    first, second = (agent(seed) for seed in (0, 1))
    rng = np.random.default_rng(0)
    observations = [rng.normal(size=(1, 3)).astype(np.float32) for _ in range(2)]
    noise = (jax.random.PRNGKey(3), np.uint32(5), np.float32(1))
    asked = [
        (each.state.actor.params, each.normalizer, observation, *noise)
        for each, observation in zip((first, second), observations, strict=True)
    ]
    answers = together.stacked(learners.act)(*asked)
    for answer, arguments in zip(answers, asked, strict=True):
        np.testing.assert_allclose(answer, learners.act(*arguments), atol=1e-6)


def test_a_run_that_cannot_begin_keeps_nobody_waiting(tmp_path, capsys):
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "notes.txt").write_text("mine")
    words = ["train", "Pendulum-v1", "--preset=paper", "--out", str(tmp_path), "--seeds", "0", "1"]
    words += [f"--{name}={value}" for name, value in SETTINGS.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "in_one_program", lambda make, seeds: True)
        assert cli.main(words) == 2
    assert "seed 1: simbav2: " in capsys.readouterr().out
    assert json.loads((tmp_path / "seed-0" / "summary.json").read_text())["env_steps"] == 200


def test_a_stop_saves_all_and_they_go_on_from_different_steps(tmp_path, calls):
    class Interrupt(together.Callback):
        def on_step(self, agent):
            if agent.env_steps == 160:
                signal.raise_signal(signal.SIGINT)

    def begin(seed, seat):
        summary = run.start(agent(seed), tmp_path / f"seed-{seed}", callbacks=[seat, Interrupt()])
        return 0 if summary else 130

    assert together.train({seed: partial(begin, seed) for seed in (0, 1)}) == {0: 130, 1: 130}
    at = run.history.load_run(tmp_path / "seed-1")[0].env_steps
    assert 160 <= at < 200
    run.resume(tmp_path / "seed-1", stop_after=at + 5)  # ahead of the other

    def go_on(seed, seat):
        return 0 if run.resume(tmp_path / f"seed-{seed}", stop_after=200, callbacks=[seat]) else 130

    calls.clear()
    assert together.train({seed: partial(go_on, seed) for seed in (0, 1)}) == {0: 0, 1: 0}
    sizes = [size for name, size in calls if name == "learn"]
    assert sizes[0] == 2  # together while both are under way
    assert sizes[-1] == 1  # the one that was behind ends alone


def test_lines_are_whole_and_say_whose_they_are(capsys):
    out = together.Labelled(sys.stdout)
    for name, text in (("a", "one "), ("b", "other\n"), ("a", "line\nand")):
        thread = threading.Thread(target=out.write, args=(text,), name=name)
        thread.start()
        thread.join()
    assert capsys.readouterr().out == "b: other\na: one line\n"


def test_the_device_decides(monkeypatch, capsys):
    def chosen(device, cost):
        monkeypatch.setattr(choice.jax, "default_backend", lambda: device)
        monkeypatch.setattr(choice, "measure", lambda agent, seeds: cost)
        return choice.in_one_program(SimpleNamespace, seeds=4)

    assert not chosen("cpu", None)
    assert chosen("tpu", None)
    assert chosen("gpu", Cost(alone=0.002, together=0.005))
    assert not chosen("gpu", Cost(alone=0.001, together=0.005))
    assert "5.00 ms in one program, 1.00 ms for each alone" in capsys.readouterr().out


def test_the_cost_is_measured_at_the_sizes_of_the_run():
    cost = choice.measure(agent(0), seeds=2)
    assert cost.alone > 0
    assert cost.together > 0
