"""Exported policies: the actions of the networks they were made from, in files that need neither JAX nor us."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from toys import TINY

from simbav2 import Failure, InputError, SimbaV2, config, tasks
from simbav2.cli import main
from simbav2.envs.tasks import SUITES
from simbav2.export import simbav2_policy
from simbav2.export.formats import FORMATS
from simbav2.export.program import program
from simbav2.export.simbav2_policy import Policy
from simbav2.interop import export_policy
from simbav2.networks.policies import PolicyNetwork
from simbav2.types import Normalizer, Variables

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
def test_unit_actions_are_in_the_cube_and_a_loaded_agent_needs_no_environment(agent, observations, tmp_path):
    export_policy(agent, "numpy", tmp_path / "unit.npz", unit_actions=True)
    policy = Policy(tmp_path / "unit.npz")
    np.testing.assert_allclose(policy(observations), agent.act(observations, noise=0.0), atol=1e-5)
    assert policy.metadata["action_low"] == [-1.0] * 4
    agent.save(tmp_path / "saved")
    export_policy(SimbaV2.load(tmp_path / "saved"), "numpy", tmp_path / "own.npz")
    actions = Policy(tmp_path / "own.npz")(observations)
    np.testing.assert_allclose(actions.reshape(20, 2, 2), agent.predict(observations)[0], atol=1e-5)


def test_the_files_say_what_they_are(agent, folder):
    known = Policy(folder / "policy.npz").metadata
    assert (known["task"], known["observation_size"], known["action_size"]) == ("Lopsided", 3, 4)
    assert known["action_low"] == [-2.0, 0.0, 5.0, -1.0]
    assert known["action_high"] == [2.0, 1.0, 9.0, -1.0]
    assert (known["preset"], known["config"]) == (agent.config.preset, agent.config.digest())
    assert known["versions"]["jax"]
    model = onnx.load(folder / "policy.onnx")
    texts = {entry.key: entry.value for entry in model.metadata_props}
    plain = ("task", "preset", "config", "params_sha256")
    assert {name: text if name in plain else json.loads(text) for name, text in texts.items()} == known
    batch, size = model.graph.input[0].type.tensor_type.shape.dim
    assert (batch.dim_param, size.dim_value) == ("batch", 3)


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


@pytest.mark.parametrize(
    ("spoil", "message"), [(lambda x: x + 1e-3, "off by"), (lambda x: x * np.nan, "off by nan")]
)
def test_the_exported_file_must_act_like_the_agent(agent, tmp_path, monkeypatch, spoil, message):
    honest = FORMATS["numpy"]
    spoilt = honest._replace(act=lambda model, observations: spoil(honest.act(model, observations)))
    monkeypatch.setitem(FORMATS, "numpy", spoilt)
    with pytest.raises(Failure, match=message):
        export_policy(agent, "numpy", tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


def test_bad_calls(agent, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="did you mean 'onnx'"):
        export_policy(agent, "onx", tmp_path / "policy.onnx")
    with pytest.raises(InputError, match=r"expected policy\.npz"):
        export_policy(agent, "numpy", tmp_path / "policy.onnx")
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="cannot be written"):
        export_policy(agent, "numpy", tmp_path / "file" / "policy.npz")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'simbav2\[onnx\]'"):
        export_policy(agent, "onnx", tmp_path / "policy.onnx")


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


# The list of operations. ------------------------------------------------------------------------------------

SPHERE = config.Hyperspherical()
ARCHITECTURES = {
    "paper": SPHERE,
    "release": replace(SPHERE, head_scaler=config.Scaler(1.0, 1.0), head_bias=True),
    "not-normalised": replace(SPHERE, input=config.Shifted(unit=False)),
    "not-shifted": replace(SPHERE, input=config.Unshifted()),
    "shifted-less": replace(SPHERE, input=config.Shifted(constant=1.0)),
    "resized": replace(SPHERE, input=config.Resized()),
    "scalers": replace(SPHERE, scaler=config.Scaler(1.0, 0.5), lerp=config.Scaler(0.5, 1.0)),
    "pre-layer-norm": config.PreLayerNorm(),
    "mlp": config.MLP(),
    "mlp-layer-norm": config.MLP(layer_norm=True, dropout=0.1),
    "batch-norm-first": config.BatchNormMLP(),
    "batch-norm-last": config.BatchNormMLP(config.BatchRenorm(), norm_first=False, unit_weights=False),
    "batch-norm-residual": config.BatchNormResidual(),
}


def sizes(suite: str) -> list[tuple[int, int]]:
    """Observations and actions of the suite's tasks with the fewest and the most of either."""
    rows = [(task.observation_size, task.action_size) for task in tasks(suite)]
    by_actions = [(actions, observations) for observations, actions in rows]
    extremes = (min(rows), max(rows), min(by_actions)[::-1], max(by_actions)[::-1])
    return list(dict.fromkeys(extremes))


def trained(shape: tuple[int, ...], rng) -> np.ndarray:
    """Weights of the size that training leaves; scalers and biases are nowhere near their start."""
    drawn = rng.normal(size=shape) / np.sqrt(shape[0]) if len(shape) == 2 else rng.uniform(0.1, 0.6, shape)
    return drawn.astype(np.float32)


def check(actor: config.Actor, policy, observation_size: int, action_size: int) -> None:
    rng = np.random.default_rng(0)
    network = PolicyNetwork(policy, actor, action_size)
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), jnp.zeros((1, observation_size)))
    shapes = Variables(shapes["params"], shapes.get("batch_stats"))
    variables = jax.tree.map(lambda leaf: trained(leaf.shape, rng), shapes)
    # As large as the squares of what passes through: smaller variances would enlarge the rounding at every layer.
    stats = jax.tree_util.tree_map_with_path(
        lambda path, leaf: 4 * leaf + 1 if path[-1].key == "var" else leaf, variables.batch_stats
    )
    variables = variables._replace(batch_stats=stats)
    # Far from the origin in units of the deviation, as positions and clocks are.
    mean, std = 30 * rng.normal(size=observation_size), rng.uniform(1e-3, 5, observation_size)
    normalizer = Normalizer(mean.astype(np.float32), std.astype(np.float32), np.float32(1))
    observations = (mean + std * rng.normal(size=(1_000, observation_size))).astype(np.float32)

    actions = network.apply(variables.collections, normalizer.observation(observations))
    expected = np.asarray(actions.sample(jax.random.PRNGKey(0), 0.0))
    assert expected.std() > 1e-3  # far more than the tolerance
    metadata = {"task": "test", "observation_size": observation_size, "action_size": action_size}
    operations = program(actor, variables, normalizer)
    for name, written in FORMATS.items():
        model = written.encode(operations, metadata)
        found = written.act(model, observations)
        assert found.dtype == np.float32, name
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(written.act(model, observations[:1]), expected[:1], rtol=0, atol=1e-5)


@pytest.mark.numerics
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize("suite", ["mujoco", *(pytest.param(s, marks=pytest.mark.full) for s in list(SUITES)[1:])])
def test_every_architecture_at_every_suites_sizes(suite, architecture):
    for observation_size, action_size in sizes(suite):
        check(config.Actor(architecture=architecture), config.Gaussian(), observation_size, action_size)


@pytest.mark.numerics
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize("depth", [2, *(pytest.param(depth, marks=pytest.mark.full) for depth in (1, 3))])
def test_every_policy_at_other_depths_and_widths(depth, architecture):
    check(config.Actor(width=24, depth=depth, architecture=architecture), config.Deterministic(), 5, 2)
