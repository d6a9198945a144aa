"""Exported policies agree with the networks they were made from: every suite's sizes, every architecture."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simbav2 import config, tasks
from simbav2.envs.tasks import SUITES
from simbav2.export import numpy_policy, onnx_policy
from simbav2.export.program import program
from simbav2.networks.policies import PolicyNetwork
from simbav2.types import Normalizer

pytestmark = pytest.mark.numerics
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
    "perceptron": config.MLP(),
}
POLICIES = {"gaussian": config.Gaussian(), "deterministic": config.Deterministic()}
FORMATS = {"numpy": numpy_policy, "onnx": onnx_policy}


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
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), jnp.zeros((1, observation_size)))["params"]
    params = jax.tree.map(lambda leaf: trained(leaf.shape, rng), shapes)
    # Far from the origin in units of the deviation, as positions and clocks are.
    mean, std = 30 * rng.normal(size=observation_size), rng.uniform(1e-3, 5, observation_size)
    normalizer = Normalizer(mean.astype(np.float32), std.astype(np.float32), np.float32(1))
    observations = (mean + std * rng.normal(size=(1_000, observation_size))).astype(np.float32)

    actions = network.apply({"params": params}, normalizer.observation(observations))
    expected = np.asarray(actions.sample(jax.random.PRNGKey(0), 0.0))
    assert expected.std() > 1e-3  # far more than the tolerance
    metadata = {
        "task": "test",
        "observation_size": observation_size,
        "action_size": action_size,
    }
    listed = program(actor, params, normalizer)
    for name, written in FORMATS.items():
        model = written.encode(listed, metadata)
        found = written.act(model, observations)
        assert found.dtype == np.float32, name
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(written.act(model, observations[:1]), expected[:1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize(
    "suite", [SUITES[0], *(pytest.param(suite, marks=pytest.mark.full) for suite in SUITES[1:])]
)
def test_every_architecture_at_every_suites_sizes(suite, architecture):
    for observation_size, action_size in sizes(suite):
        check(config.Actor(architecture=architecture), config.Gaussian(), observation_size, action_size)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize("depth", [2, *(pytest.param(depth, marks=pytest.mark.full) for depth in (1, 3))])
def test_every_policy_at_other_depths_and_widths(depth, architecture):
    check(config.Actor(width=24, depth=depth, architecture=architecture), config.Deterministic(), 5, 2)
