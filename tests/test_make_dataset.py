"""Runs as data: replays, fresh episodes and mixtures, and the command that writes and checks them."""

import json
import shutil

import h5py
import numpy as np
import pytest
from toys import TINY

from simbav2 import SimbaV2
from simbav2.checkpoint import rotation
from simbav2.cli import main
from simbav2.datasets import hdf5
from simbav2.envs.vector import Step
from simbav2.replay import Replay
from simbav2.training import make_dataset, run

SETTINGS = {
    **TINY,
    "warmup_decisions": 10_000,  # it learns nothing, which takes no time
    "env_steps": 400,
    "schedule.evaluate_every": 100,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 100,
    "schedule.keep": 20,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that keeps its checkpoints at 100, 200, 300 and 400 steps, with evaluations we know."""
    folder = tmp_path_factory.mktemp("runs") / "hopper"
    run.start(SimbaV2("mujoco/Hopper-v4", **SETTINGS), folder)
    header = "env_step,episode,return,length,success\n"
    totals = {0: 10, 100: 12, 200: 45, 300: 80, 400: 100}  # a third of the way from 10 to 100 is 40
    rows = (f"{step},0,{total},9,\n" for step, total in totals.items())
    (folder / "evaluations.csv").write_text(header + "".join(rows))
    return folder


def test_a_replay_becomes_its_own_transitions(trained, tmp_path):
    assert main(["dataset", str(trained), "--out", str(tmp_path / "a.hdf5")]) == 0
    replay = rotation.load_run(trained)[0].replay
    with h5py.File(tmp_path / "a.hdf5") as file:
        np.testing.assert_array_equal(file["observations"], replay.observation[:400])
        np.testing.assert_array_equal(file["actions"], replay.action[:400])
        np.testing.assert_array_equal(file["terminals"], replay.terminated[:400])
        ended = np.array(file["terminals"]) | np.array(file["timeouts"])
        following = np.array(file["next_observations"])[:-1] == np.array(file["observations"])[1:]
        np.testing.assert_array_equal(following.all(axis=1), ~ended[:-1])
        rows = replay._transitions(np.arange(400))
        np.testing.assert_array_equal(file["next_observations"], rows.next_observation)
        assert ended[-1]
        assert file.attrs["task"] == "mujoco/Hopper-v4"


def test_several_environments_become_episodes_of_their_own():
    replay = Replay(10, 1, 1, num_envs=2)
    for step in range(3):
        now, then = np.array([[step], [10 + step]], np.float32), np.array([[step + 1], [11 + step]], np.float32)
        flags = np.array([False, step == 1])
        fresh = np.where(flags[:, None], np.float32(50), then)
        replay.add(
            now,
            now / 100,
            Step(fresh, then, np.ones(2), flags, np.zeros(2, bool), np.full(2, np.nan), np.zeros(2, bool)),
        )
    episodes = [(e.observation[:, 0].tolist(), e.terminated) for e in make_dataset._episodes(replay, 0, 3)]
    assert episodes == [([0, 1, 2, 3], False), ([10, 11, 12], True), ([12, 13], False)]


def test_mixtures(trained, tmp_path):
    medium, expert = make_dataset._stages(trained)
    assert (medium.name, expert.name) == (f"{200:012}", f"{400:012}")
    counts = {"medium-replay": 200, "medium": 150, "medium-expert": 150}
    for level, count in counts.items():
        out = str(tmp_path / f"{level}.hdf5")
        assert main(["dataset", str(trained), "--mix", level, "--transitions", "150", "--out", out]) == 0
        with h5py.File(out) as file:
            assert len(file["rewards"]) == count
    with h5py.File(tmp_path / "medium.hdf5") as one, h5py.File(tmp_path / "medium-expert.hdf5") as two:
        # The first half is the medium policy's, cut in the middle of an episode.
        np.testing.assert_array_equal(two["actions"][:75], one["actions"][:75])
        assert two["timeouts"][74] or two["terminals"][74]


def test_fresh_episodes_are_whole_and_repeatable(trained, tmp_path, capsys):
    for name in ("a", "b"):
        out = str(tmp_path / f"{name}.hdf5")
        assert main(["dataset", str(trained), "--episodes", "2", "--seed", "3", "--out", out]) == 0
    capsys.readouterr()
    assert main(["dataset", "--check", str(tmp_path / "a.hdf5"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["episodes"], facts["terminated"], facts["task"]) == (2, 2, "mujoco/Hopper-v4")
    with h5py.File(tmp_path / "a.hdf5") as one, h5py.File(tmp_path / "b.hdf5") as two:
        np.testing.assert_array_equal(one["observations"], two["observations"])


def test_a_cut_episode_is_not_terminated():
    whole = hdf5.Episode(np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32), np.zeros(3, np.float32), True)
    parts = list(make_dataset.take(iter([whole, whole]), 5))
    assert [(len(part.reward), part.terminated) for part in parts] == [(3, True), (2, False)]


def test_the_check_is_readable_and_fails_on_problems(tmp_path, capsys):
    zero = np.zeros((2, 1), np.float32)
    hdf5.write(tmp_path / "a.hdf5", "toy", [hdf5.Episode(zero, zero[1:] + 3, zero[1:, 0], terminated=False)])
    assert main(["dataset", "--check", str(tmp_path / "a.hdf5")]) == 1
    out = capsys.readouterr().out
    assert "1 transitions, 1 episodes of toy" in out
    assert "problem: actions: 1 rows are outside [-1, 1], the first is row 0" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to do"),
        (["RUN", "--out", "x.hdf5", "--mix", "hard"], "unknown mixture 'hard'"),
        (["RUN", "--out", "x.hdf5", "--episodes", "0"], "--episodes is 0; expected at least 1"),
        (["nowhere", "--out", "x.hdf5"], "nowhere"),
        (["ONE", "--out", "x.hdf5", "--mix", "medium"], "holds 1 checkpoints; a mixture needs earlier policies"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_line(trained, tmp_path, capsys, words, message):
    shutil.copytree(trained, tmp_path / "one")
    for path in sorted((tmp_path / "one" / "checkpoints").iterdir())[:-1]:
        shutil.rmtree(path)
    named = {"RUN": str(trained), "ONE": str(tmp_path / "one")}
    assert main(["dataset", *(named.get(word, word) for word in words)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
