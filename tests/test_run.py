"""A run: its folder, its end, its interruption, and its continuation."""

import json
import os
import signal
import time

import numpy as np
import pytest
from short_runs import SETTINGS, TASK, results, rows, start
from toys import Chain

from simbav2 import InputError, SimbaV2
from simbav2.training import run
from simbav2.training.evaluate import evaluate


def test_the_run_folder_is_complete(finished):
    summary = json.loads((finished / "summary.json").read_text())
    expected = (
        "task preset seed env_steps decisions updates final_return final_success dropped_steps normalized_score "
        "seconds updates_per_second seconds_per_action compile_seconds params_sha256 parameters measures warnings "
        "versions"
    )
    assert set(summary) == set(expected.split())
    assert summary["compile_seconds"] > 0
    assert (summary["task"], summary["seed"], summary["env_steps"]) == (TASK, 1, 1_600)
    config = json.loads((finished / "config.json").read_text())
    assert (config["critic"]["num_critics"], config["settings"]["critic.width"]) == (2, 16)
    assert config["versions"]["mujoco"]
    assert [row["env_step"] for row in rows(finished / "progress.csv")] == ["400", "800", "1200", "1600"]
    evaluations = rows(finished / "evaluations.csv")
    assert list(evaluations[0]) == ["env_step", "episode", "return", "length", "success"]
    assert [row["env_step"] for row in evaluations] == ["0", "0", "800", "800", "1600", "1600"]
    assert summary["final_return"] == pytest.approx(np.mean([float(row["return"]) for row in evaluations[-2:]]))
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["env_step"] for line in metrics if line.get("critic_loss", 0) > 0] == [400, 800, 1_200, 1_600]
    assert sorted(path.name for path in (finished / "checkpoints").iterdir()) == ["000000001500", "000000001600"]


def test_a_run_can_be_loaded_and_evaluated(finished):
    agent = SimbaV2.load(finished)
    assert agent.env_steps == 1_600
    with agent.trainer.make_evaluation_envs() as envs:
        once = evaluate(agent, envs, 2, first_episode=4)
        assert evaluate(agent, envs, 2, first_episode=4) == once
    written = [float(row["return"]) for row in rows(finished / "evaluations.csv")[-2:]]
    assert [episode.total for episode in once] == written


def test_ctrl_c_saves_and_says_how_to_go_on(finished, tmp_path):
    folder = tmp_path / "run"
    process = start(folder)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "progress.csv").exists() and len(rows(folder / "progress.csv")) >= 2:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert f"simbav2 resume {folder}" in output
    assert not (folder / "summary.json").exists()
    run.resume(folder)
    assert results(folder)[:2] == results(finished)[:2]


def test_a_folder_that_holds_a_run_is_refused(finished):
    agent = SimbaV2(TASK, **SETTINGS)
    with pytest.raises(InputError, match=r"simbav2 resume .*--overwrite"):
        run.start(agent, finished)
    with pytest.raises(InputError, match="holds other files"):
        run.start(agent, finished.parent)


class Forgetful(Chain):
    """Every reset and every step lands somewhere else, whatever the seed."""

    def _observation(self) -> np.ndarray:
        return np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)


def test_an_environment_that_does_not_repeat_starts_a_new_episode_and_says_so(tmp_path, caplog):
    folder = tmp_path / "run"
    settings = {**SETTINGS, "env_steps": 500, "schedule.evaluate_every": 500, "schedule.evaluation_episodes": 1}
    run.start(SimbaV2(lambda: Forgetful(70), **settings), folder, stop_after=300)
    with caplog.at_level("WARNING"):
        summary = run.resume(folder, env=lambda: Forgetful(70))
    assert summary["env_steps"] == 500
    assert "cannot be put back into the middle of an episode: the resumed run starts new episodes" in caplog.text
    agent = SimbaV2.load(folder, env=Forgetful)
    # 300 = 4 * 70 + 20: the fifth episode, given up at its twentieth step, was followed by a sixth.
    state = json.loads((folder / "checkpoints" / "000000000500" / "state.json").read_text())
    assert state["loop"]["lengths"] == [60]
    assert agent.env_steps == 500
