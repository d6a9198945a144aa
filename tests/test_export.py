"""Export as a user meets it: files that act like the agent, say what they are, and need neither JAX nor us."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
from toys import TINY

from simbav2 import Failure, InputError, SimbaV2
from simbav2.cli import main
from simbav2.export import numpy_policy, simbav2_policy
from simbav2.export.simbav2_policy import Policy
from simbav2.interop import export_policy

DEPLOY = Path(__file__).parents[1] / "examples" / "deploy.py"


class Lopsided(gym.Env):
    """Actions of an odd shape with bounds of their own: every entry other ones."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    low = np.array([[-2.0, 0.0], [5.0, -1.0]], np.float32)
    high = np.array([[2.0, 1.0], [9.0, -1.0]], np.float32)
    action_space = gym.spaces.Box(low, high)


@pytest.fixture(scope="module")
def agent():
    """Untrained, but with weights and statistics that are nowhere near their start."""
    agent = SimbaV2(Lopsided, **TINY)
    rng = np.random.default_rng(0)
    for _ in range(10):
        agent.statistics = agent.statistics.with_observation(rng.normal(7, 3, (1, 3)))
    return agent


@pytest.fixture(scope="module")
def observations():
    return np.random.default_rng(1).normal(7, 3, (20, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(agent, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    for format, name in (("numpy", "policy.npz"), ("onnx", "policy.onnx")):
        exported = export_policy(agent, format, folder / name)
        assert exported.difference < 1e-5
    return folder


def session(file: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@pytest.mark.numerics
def test_actions_are_in_the_environments_own_units(agent, observations, folder):
    actions, _ = agent.predict(observations)
    assert actions.shape == (20, 2, 2)
    expected = actions.reshape(20, 4)
    policy, graph = Policy(folder / "policy.npz"), session(folder / "policy.onnx")
    np.testing.assert_allclose(policy(observations), expected, atol=1e-5)
    np.testing.assert_allclose(graph.run(None, {"observation": observations})[0], expected, atol=1e-5)
    assert policy(observations[0]).shape == (4,)
    np.testing.assert_allclose(policy(observations[0].tolist()), expected[0], atol=1e-5)
    assert (expected[:, 3] == -1).all()
    assert expected[:, 2].min() >= 5


@pytest.mark.numerics
def test_unit_actions_are_in_the_cube(agent, observations, tmp_path):
    export_policy(agent, "numpy", tmp_path / "policy.npz", unit_actions=True)
    policy = Policy(tmp_path / "policy.npz")
    np.testing.assert_allclose(policy(observations), agent.act(observations, noise=0.0), atol=1e-5)
    assert policy.metadata["action_low"] == [-1.0] * 4


def test_a_loaded_agent_is_exported_without_its_environment(agent, observations, tmp_path):
    agent.save(tmp_path / "saved")
    export_policy(SimbaV2.load(tmp_path / "saved"), "numpy", tmp_path / "policy.npz")
    policy = Policy(tmp_path / "policy.npz")
    np.testing.assert_allclose(policy(observations).reshape(20, 2, 2), agent.predict(observations)[0], atol=1e-5)


def test_the_files_say_what_they_are(agent, folder):
    known = Policy(folder / "policy.npz").metadata
    assert (known["task"], known["observation_size"], known["action_size"]) == ("Lopsided", 3, 4)
    assert known["action_low"] == [-2.0, 0.0, 5.0, -1.0]
    assert known["action_high"] == [2.0, 1.0, 9.0, -1.0]
    assert (known["preset"], known["config"]) == (agent.config.preset, agent.config.digest())
    assert known["versions"]["jax"]
    model = onnx.load(folder / "policy.onnx")
    texts = {entry.key: entry.value for entry in model.metadata_props}
    assert {name: text if name in _TEXTS else json.loads(text) for name, text in texts.items()} == known
    (batch, size) = model.graph.input[0].type.tensor_type.shape.dim
    assert (batch.dim_param, size.dim_value) == ("batch", 3)


_TEXTS = ("task", "preset", "config", "params_sha256")


def test_the_numpy_policy_needs_nothing_but_numpy(folder):
    source = (folder / "simbav2_policy.py").read_text()
    assert source == Path(simbav2_policy.__file__).read_text()
    assert source.count("\n") <= 80
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported - set(sys.stdlib_module_names) == {"numpy"}
    with np.load(folder / "policy.npz", allow_pickle=False) as data:
        assert all(data[name].dtype.kind in "fU" for name in data)


@pytest.mark.numerics
def test_the_exported_file_must_act_like_the_agent(agent, tmp_path, monkeypatch):
    honest = numpy_policy.act
    monkeypatch.setattr(numpy_policy, "act", lambda model, observations: honest(model, observations) + 1e-3)
    with pytest.raises(Failure, match="off by"):
        export_policy(agent, "numpy", tmp_path / "policy.npz")
    monkeypatch.setattr(numpy_policy, "act", lambda model, observations: honest(model, observations) * np.nan)
    with pytest.raises(Failure, match="off by nan"):
        export_policy(agent, "numpy", tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


def test_without_onnx_the_extra_is_named(agent, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "simbav2.export.onnx_policy")
    with pytest.raises(InputError, match=r"pip install 'simbav2\[onnx\]'"):
        export_policy(agent, "onnx", tmp_path / "policy.onnx")


def test_bad_calls(agent, tmp_path):
    with pytest.raises(InputError, match="did you mean 'onnx'"):
        export_policy(agent, "onx", tmp_path / "policy.onnx")
    with pytest.raises(InputError, match=r"expected policy\.npz"):
        export_policy(agent, "numpy", tmp_path / "policy.onnx")
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="cannot be written"):
        export_policy(agent, "numpy", tmp_path / "file" / "policy.npz")


@pytest.mark.parametrize("format", ["onnx", "numpy"])
def test_from_the_command_line_to_another_process(finished, tmp_path, capsys, format):
    """A run is exported, and its policy drives Gymnasium's own environment without JAX or simbav2."""
    out = tmp_path / ("policy.onnx" if format == "onnx" else "policy.npz")
    assert main(["export", str(finished), "--format", format, "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"][0] == str(out)
    assert told["env_steps"] == 1_600
    played = subprocess.run(
        [sys.executable, "-W", "ignore", DEPLOY, out, "--episodes", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    assert played.stdout.startswith("episode 0: return ")


def test_the_command_line_refuses_in_one_line(finished, capsys):
    for arguments, message in (
        (["export", str(finished), "--format", "onx"], "did you mean 'onnx'"),
        (["export", "/nowhere", "--format", "onnx"], "holds no saved agent"),
        (["export", str(finished)], "--format"),
        (
            ["import-release", "/nowhere", "--observation-size", "5", "--action-size", "1", "--out", "x"],
            "/nowhere",
        ),
    ):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert message in captured.err
