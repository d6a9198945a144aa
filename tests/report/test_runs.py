from __future__ import annotations

import json

import numpy as np
import pytest

from simbav2.errors import InputError
from simbav2.experiments.report.runs import find_runs, read_run, read_runs

UNKNOWN = '{"task": "a", "preset": "b", "seed": 0, "env_steps": 1, "versions": {}, "critic": {"widht": 1}}'
HEADER = "env_step,episode,return,length,success\n"


def test_a_run_is_read_as_it_was_written(make_run):
    folder = make_run({10_000: [1.0, 3.0], 20_000: [5.0, 9.0]}, seed=3, success=1.0, critic={"width": 64})
    (folder / "walk.mp4").write_bytes(b"video")
    run = read_run(folder)
    assert (run.task, run.preset, run.seed, run.status) == ("dmc/walker-walk", "quick", 3, "finished")
    assert (run.env_steps, run.config.env_steps, run.config.critic.width) == (20_000, 20_000, 64)
    assert run.config.replay.batch_size == 256  # the default of a setting that the file does not name
    assert run.settings["versions.mujoco"] == "3.6.0"
    np.testing.assert_array_equal(run.evaluations.env_step, [10_000, 10_000, 20_000, 20_000])
    np.testing.assert_array_equal(run.evaluations.returns, [1, 3, 5, 9])
    np.testing.assert_array_equal(run.evaluations.success, [1, 1, 1, 1])
    np.testing.assert_array_equal(run.progress["return"], [np.nan, 12.5])
    assert [video.name for video in run.videos] == ["walk.mp4"]


def test_an_unfinished_run_is_read_as_far_as_it_is(make_run):
    folder = make_run({10_000: [1.0, 3.0]}, finished=False)
    with (folder / "evaluations.csv").open("a") as stream:
        stream.write("20000,0,5")  # half a line: it is being written
    run = read_run(folder)
    assert (run.status, run.env_steps, len(run.evaluations.returns)) == ("unfinished", 10_000, 2)
    (folder / "evaluations.csv").unlink()
    assert len(read_run(folder).evaluations.returns) == 0


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("config.json", None, "No such file"),
        ("config.json", '{"task": "dmc/wal', "config.json is damaged"),
        ("config.json", "[]", "config.json is damaged: expected a JSON object"),
        ("config.json", "{}", "config.json lacks 'task'"),
        ("config.json", '{"task": 3}', "task is 3; expected str"),
        ("config.json", UNKNOWN, "config.json: unknown setting 'critic.widht'; did you mean"),
        ("evaluations.csv", None, "No such file"),
        ("evaluations.csv", "", "evaluations.csv is damaged: it is empty"),
        ("evaluations.csv", "env_step,return\n", "evaluations.csv lacks the column 'episode'"),
        ("evaluations.csv", "env_step,return\n1,2,3\n", "line 2 has 3 cells, expected 2"),
        ("evaluations.csv", f"{HEADER},0,1,1,\n", "has a row without env_step"),
        ("evaluations.csv", b"\xff\xfe\x00", "evaluations.csv is damaged"),
        ("progress.csv", "env_step\n<b>\n", "progress.csv is damaged: line 2: could not convert"),
        ("summary.json", "{}", "summary.json lacks 'env_steps'"),
        ("summary.json", '{"env_steps": 1, "seconds": "long"}', "seconds is 'long'; expected int | float"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(make_run, file, text, complaint):
    folder = make_run({10_000: [1.0]})
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_run(folder)
    assert file in str(caught.value)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_runs_are_found_at_any_depth_and_once(make_run, tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        find_runs([tmp_path / "absent"])
    with pytest.raises(InputError, match="no run in"):
        find_runs([tmp_path])
    first, second = make_run({1: [1.0]}, name="a/first"), make_run({1: [1.0]}, name="b/c/second", seed=1)
    # A checkpoint may hold a config.json of its own; it is not a run.
    (first / "checkpoints").mkdir()
    (first / "checkpoints" / "config.json").write_text("{}")
    assert find_runs([second, tmp_path, first]) == (second, first)


def test_a_failed_run_is_shown_as_such(make_run, tmp_path):
    folder = make_run({}, finished=False)
    (folder / "failure.json").write_text('{"error": "loss is not finite", "env_step": 12000}')
    run = read_run(folder)
    assert (run.status, run.failure) == ("failed", "loss is not finite (at simulator step 12,000)")
    (folder / "failure.json").write_text("{")
    assert "failure.json is damaged" in read_run(folder).failure
    for table in ("evaluations.csv", "progress.csv"):  # it failed at once
        (folder / table).unlink()
    (run,), problems = read_runs([tmp_path])
    assert (run.status, problems) == ("failed", ())


def test_warnings_come_from_the_summary_or_from_their_own_file(make_run):
    entry = {"env_step": 5, "name": "dead-units", "text": "half are dead", "remedy": "lower the rate"}
    finished = read_run(make_run({1: [1.0]}, name="a", summary={"warnings": [entry, "odd"]}))
    assert [warning.name for warning in finished.warnings] == ["dead-units"]
    assert "expected an object" in finished.damage[0]
    folder = make_run({1: [1.0]}, name="b", finished=False)
    (folder / "warnings.jsonl").write_text(json.dumps(entry) + "\n" + '{"half')
    (warning,) = read_run(folder).warnings
    assert (warning.env_step, warning.remedy) == (5, "lower the rate")


def test_metrics_are_read_where_they_were_logged(make_run):
    folder = make_run({1: [1.0]})
    lines = ['{"env_step": 1, "q": 0.5, "name": "x"}', '{"env_step": 2, "q": NaN, "critic/feature_norm": 1.5}']
    (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"env_step": 3, "q"')
    metrics = read_run(folder).metrics
    assert set(metrics) == {"q", "critic/feature_norm"}
    np.testing.assert_array_equal(metrics["q"].value, [0.5, np.nan])
    np.testing.assert_array_equal(metrics["critic/feature_norm"].env_step, [2])


@pytest.mark.parametrize("text", ["nonsense\n", "[1]\n", '{"q": 1}\n'])
def test_damaged_metrics_do_not_cost_the_run(make_run, text):
    folder = make_run({1: [1.0]})
    (folder / "metrics.jsonl").write_text(text)
    run = read_run(folder)
    assert run.status == "finished"
    assert "metrics.jsonl" in run.damage[0]
