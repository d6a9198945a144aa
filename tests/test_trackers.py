"""Curves in TensorBoard and Weights & Biases: the numbers of the run's own files, also after a crash."""

import json
import struct
import sys
from collections import defaultdict
from importlib.util import find_spec

import numpy as np
import pytest
from short_runs import SETTINGS, TASK, results, rows

from simbav2 import Callback, SimbaV2
from simbav2.cli import main, runs
from simbav2.errors import InputError
from simbav2.training import run, trackers

Curves = dict[str, dict[int, float]]


class Crash(Callback):
    """Ends the program behind a checkpoint (500) and the rows written after it (800)."""

    def on_step(self, agent):
        if agent.env_steps == 850:
            raise ArithmeticError


def tracked(folder, name: str) -> None:
    """The run that `finished` is, crashed and resumed, and watched."""
    with pytest.raises(ArithmeticError):
        run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder, callbacks=[*trackers.trackers([name]), Crash()])
    assert run.resume(folder, callbacks=trackers.trackers([name]))["env_steps"] == 1_600


def own_curves(folder) -> Curves:
    """What the run's own files say."""
    curves: Curves = defaultdict(dict)
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        step = line.pop("env_step")
        for name, value in line.items():
            curves[name][step] = value
    columns = defaultdict(lambda: defaultdict(list))
    for row in rows(folder / "evaluations.csv"):
        for name in ("return", "length"):
            columns[f"evaluation/{name}"][int(row["env_step"])].append(float(row[name]))
    for name, by_step in columns.items():
        curves[name] = {step: float(np.mean(values)) for step, values in by_step.items()}
    return curves


def assert_same(found: Curves, expected: Curves) -> None:
    assert found.keys() == expected.keys()
    for name, curve in expected.items():
        assert found[name].keys() == curve.keys(), name
        np.testing.assert_allclose(
            [found[name][step] for step in curve], list(curve.values()), rtol=1e-6, err_msg=name
        )


def records(path):
    """The payloads of a TFRecord file."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield data[12 : 12 + length]
        data = data[16 + length :]


def tensorboard_curves(folder) -> Curves:
    """What TensorBoard shows: a session's start hides the points from its step on."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    curves: Curves = defaultdict(dict)
    for file in sorted(folder.iterdir()):
        for record in records(file):
            event = Event.FromString(record)
            if event.session_log.status == SessionLog.START:
                for curve in curves.values():
                    for step in [step for step in curve if step >= event.step]:
                        del curve[step]
            for value in event.summary.value:
                # Two lines of metrics may belong to one step, and both tell of the updates.
                assert curves[value.tag].setdefault(event.step, value.simple_value) == value.simple_value
    return {name: curve for name, curve in curves.items() if curve}


@pytest.mark.skipif(find_spec("tensorboardX") is None, reason="tensorboardX is not installed")
def test_tensorboard_shows_the_runs_own_numbers_after_a_crash_too(finished, tmp_path):
    folder = tmp_path / "run"
    tracked(folder, "tensorboard")
    assert results(folder) == results(finished)
    assert len(list((folder / "tensorboard").iterdir())) == 2
    assert_same(tensorboard_curves(folder / "tensorboard"), own_curves(folder))


def wandb_records(file):
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(file))
    while (data := store.scan_data()) is not None:
        yield Record.FromString(data)
    store.close()


@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb")
def test_weights_and_biases_gets_one_run_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = tmp_path / "run"
    tracked(folder, "wandb")
    chosen = json.loads((folder / "wandb.json").read_text())["id"]
    files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{chosen}.wandb"] * 2
    curves: Curves = defaultdict(dict)
    for file in files:
        for record in wandb_records(file):
            if record.HasField("history"):
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
                step = row.pop("_step")
                for name, value in row.items():
                    if not name.startswith("_"):
                        curves[name].setdefault(step, value)  # the service takes a step once
    assert_same(curves, own_curves(folder))


@pytest.mark.parametrize("name", trackers.SERVICES)
def test_a_missing_package_is_one_line(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, {"tensorboard": "tensorboardX"}.get(name, name), None)
    assert main(["resume", str(tmp_path / "run"), "--track", name]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"pip install 'simbav2[{name}]'" in error


def test_commands_know_the_services_and_refuse_others(capsys):
    assert tuple(trackers.SERVICES) == runs.SERVICES
    for command in (["train", "Pendulum-v1"], ["resume", "run"], ["offline", "data.hdf5"]):
        assert main([*command, "--track", "tensorboards"]) == 2
        assert "tensorboard" in capsys.readouterr().err


def test_an_agent_without_a_run_is_not_tracked():
    for service in trackers.SERVICES.values():
        tracker = service.__new__(service)
        with pytest.raises(InputError, match="tracking needs a run folder"):
            tracker.on_start(None, None)
