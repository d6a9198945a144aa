"""Callbacks: told of everything in order, able to stop a run, unable to change it."""

import json

import pytest
from short_runs import SETTINGS, TASK, results
from toys import TINY, Chain

from simbav2 import Callback, SimbaV2
from simbav2.training import run


class Diary(Callback):
    """Writes down what it is told, with the step; stops at a number of steps if asked to."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at = stop_at
        self.entries: list[tuple[str, int]] = []
        self.lines: list[dict[str, float]] = []
        self.returns: list[float] = []
        self.checkpoints: list[str] = []

    def note(self, what: str, agent: SimbaV2) -> None:
        self.entries.append((what, agent.env_steps))

    def on_start(self, agent, run):
        self.run = run
        self.note("start", agent)

    def on_step(self, agent):
        self.note("step", agent)
        self.stop_requested = agent.env_steps == self.stop_at

    def on_metrics(self, agent, metrics):
        self.lines.append(dict(metrics))

    def on_evaluation(self, agent, episodes):
        self.note("evaluation", agent)
        self.returns += [episode.total for episode in episodes]

    def on_checkpoint(self, agent, checkpoint):
        assert (checkpoint / "learner.safetensors").exists()
        self.checkpoints.append(checkpoint.name)

    def on_end(self, agent):
        self.note("end", agent)

    def steps(self, what: str) -> list[int]:
        return [step for name, step in self.entries if name == what]


def test_a_run_tells_everything_stops_when_asked_and_goes_on_to_the_same_bits(finished, tmp_path):
    folder = tmp_path / "run"
    first, second = Diary(stop_at=900), Diary()
    assert run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder, callbacks=[first, Callback()]) is None
    assert first.run == folder
    assert first.entries[0] == ("start", 0)
    assert first.steps("step") == list(range(1, 901))
    assert first.steps("evaluation") == [0, 800]
    assert first.entries[-1] == ("end", 900)
    assert first.checkpoints == ["000000000500", "000000000900"]
    assert not (folder / "summary.json").exists()

    assert run.resume(folder, callbacks=[second])["env_steps"] == 1_600
    assert second.entries[0] == ("start", 900)
    assert second.checkpoints == ["000000001000", "000000001500", "000000001600"]
    _, evaluations, _ = results(folder)
    assert results(folder) == results(finished)
    assert first.returns + second.returns == [float(row["return"]) for row in evaluations]
    written = (folder / "metrics.jsonl").read_text().splitlines()
    assert first.lines + second.lines == [json.loads(line) for line in written]


def test_learn_stops_when_any_of_its_callbacks_asks():
    diary, other = Diary(stop_at=7), Diary()
    agent = SimbaV2(lambda: Chain(3), **TINY).learn(20, callbacks=[diary, other])
    assert agent.env_steps == 7
    assert diary.run is None
    assert diary.entries == other.entries == [("start", 0), *(("step", n) for n in range(1, 8)), ("end", 7)]


class Failing(Callback):
    def on_step(self, agent):
        raise ArithmeticError


def test_the_end_is_told_also_when_something_fails():
    diary = Diary()
    with pytest.raises(ArithmeticError):
        SimbaV2(lambda: Chain(3), **TINY).learn(5, callbacks=[diary, Failing()])
    assert diary.entries == [("start", 0), ("step", 1), ("end", 1)]
