"""Damaged and forged checkpoints: identical, or one `CheckpointError`; never a hang, a crash, much memory."""

import logging
import shutil
from dataclasses import replace

import mutations
import numpy as np
import pytest
from mutations import digest, env, honest_run
from short_runs import edit

from simbav2 import CheckpointError, InputError, SimbaV2
from simbav2.checkpoint import checkpoint, files, rotation
from simbav2.checkpoint.files import JSON_LIMIT, Spec
from simbav2.errors import printable
from simbav2.training import run


def test_mutations_by_chance_and_by_intent(tmp_path):
    figures = mutations.campaign(tmp_path, 60, seed=0)
    assert figures["wrong"] == []
    assert figures["refused"] > 40
    assert figures["slowest_seconds"] < 30
    # Python and JAX breathe by tens of megabytes whatever is loaded; a forgery asks for far more.
    assert figures["most_megabytes"] < 2 * figures["honest_megabytes"] + 64


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_run(tmp_path_factory.mktemp("runs") / "honest", **{"schedule.keep": 2})


@pytest.mark.parametrize("kind", mutations.ATTACKS, ids=lambda kind: kind.__name__)
def test_every_kind_of_forgery_is_refused(honest, tmp_path, kind):
    copy = tmp_path / "copy"
    for seed in range(2):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(honest, copy)
        shutil.rmtree(rotation.checkpoints(copy)[1])
        kind(copy, np.random.default_rng(seed))
        with pytest.raises(CheckpointError, match=str(copy)):
            digest(copy)


def test_a_damaged_newest_checkpoint_costs_only_the_steps_since_the_one_before(honest, tmp_path, caplog):
    copy = tmp_path / "copy"
    shutil.copytree(honest, copy)
    newest, before = rotation.checkpoints(copy)
    (newest / "learner.safetensors").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert SimbaV2.load(copy, env).env_steps == int(before.name)
    (message,) = caplog.messages
    assert "learner.safetensors" in message
    assert "the checkpoint before it" in message
    # Going on from there makes the newest anew, and whole.
    run.resume(copy, env=env)
    assert digest(copy) == digest(honest)
    (newest / "learner.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"learner\.safetensors"):
        checkpoint.load(newest)


def edited(honest, folder, change):
    """A copy with one checkpoint, whose config is changed under right checksums."""
    shutil.copytree(honest, folder)
    newest, before = rotation.checkpoints(folder)
    shutil.rmtree(before)
    edit(newest, "config.json", change)
    return folder


def test_a_saved_id_that_names_a_module_is_not_imported(honest, tmp_path):
    def change(config):
        config["task"] = config["environment"]["id"] = "antigravity:Chain-v0"

    copy = edited(honest, tmp_path / "copy", change)
    agent = SimbaV2.load(copy)
    with pytest.raises(InputError, match="names a module to import"):
        agent.trainer.make_evaluation_envs()
    assert SimbaV2.load(copy, env).trainer.envs.num_envs == 1


def test_a_checkpoint_of_an_older_version_lacks_fields_and_loads(honest, tmp_path):
    def change(config):
        for field in ("reset_every", "optimizer", "target", "updates_per_decision"):
            del config[field]

    assert digest(edited(honest, tmp_path / "older", change)) == digest(honest)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("progress.csv", ""),
        ("progress.csv", "env_step\nmany\n"),
        ("progress.csv", "env_step\n100\n"),
        ("evaluations.csv", "env_step,episode\n0,1\n"),
        ("metrics.jsonl", "{}\n"),
        ("metrics.jsonl", "[\n"),
        ("config.json", "{"),
        ("config.json", '{"stop_after": "soon"}'),
    ],
)
def test_damaged_records_are_named_when_a_run_goes_on(honest, tmp_path, name, text):
    copy = tmp_path / "copy"
    shutil.copytree(honest, copy)
    (copy / "summary.json").unlink()
    (copy / name).write_text(text)
    with pytest.raises(CheckpointError, match=name):
        run.resume(copy, env=env)


def test_names_from_outside_are_shown_escaped_and_never_become_paths():
    assert printable("dmc/\x1b[2Jwalker\n\u202e") == r"dmc/\x1b[2Jwalker\n\u202e"
    agent = SimbaV2(env, **mutations.TINY)
    for task in ("../../etc/x", "/etc/passwd", "a\0b\n", "x" * 5_000):
        folder = run.default_folder(replace(agent.config, task=task))
        assert folder.parts[0] == "runs"
        assert len(folder.parts) == 2
        assert len(folder.name) < 200
        assert folder.name.isprintable()


def test_a_file_of_arrays_is_what_the_library_reads(tmp_path):
    from safetensors.numpy import load_file

    arrays = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.array([True, False, True]),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(3, np.int64),
        "sliced": np.arange(10, dtype=np.int32)[::2],
    }
    written = files.write_arrays(tmp_path / "x.safetensors", arrays)
    files.check(tmp_path / "x.safetensors", written)
    ours = files.read_arrays(tmp_path / "x.safetensors", files.specs(arrays))
    theirs = load_file(tmp_path / "x.safetensors")
    for name, array in arrays.items():
        for found in (ours[name], theirs[name]):
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
    with pytest.raises(CheckpointError, match="more is missing"):
        files.read_arrays(tmp_path / "x.safetensors", {**files.specs(arrays), "more": Spec((1,), np.float32)})


def test_json_is_bounded(tmp_path):
    path = tmp_path / "big.json"
    path.write_text('{"a": "' + "x" * JSON_LIMIT + '"}')
    with pytest.raises(CheckpointError, match="not a simbav2 file"):
        files.read_json(path)
    path.write_text('{"a": 1e999}')
    with pytest.raises(CheckpointError, match="not a finite number"):
        files.read_json(path)
