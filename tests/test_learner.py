"""The update: invariants that hold after many of them, and what is compiled."""

from functools import cache

import jax
import numpy as np
import pytest
from toys import TINY

from simbav2 import tasks
from simbav2.config import CosineDecay, LinearDecay, override, presets
from simbav2.learner import Learner, learning_rate
from simbav2.networks.architectures import HypersphericalEncoder
from simbav2.networks.sphere import columns, unit
from simbav2.types import Normalizer, Transition

pytestmark = pytest.mark.numerics
OBSERVATIONS, ACTIONS = 5, 2
NORMALIZER = Normalizer(np.zeros(OBSERVATIONS, np.float32), np.ones(OBSERVATIONS, np.float32), np.float32(1))
TASK = next(task for task in tasks() if task.id == "mujoco/Hopper-v4")  # can fail: two critics


@cache
def learner(preset: str = "paper", **settings) -> Learner:
    """A learner holds no state, so tests share it and what it has compiled. Its target follows visibly fast."""
    config = override(presets.preset(preset), {**TINY, "target.tau": 0.25, **settings}).resolve(TASK)
    return Learner(config, OBSERVATIONS, ACTIONS)


def batches(count: int, seed: int = 0, size: int = 32) -> Transition:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=(count, size, *shape)).astype(np.float32)

    return Transition(
        observation=normal(OBSERVATIONS),
        action=np.tanh(normal(ACTIONS)),
        reward=normal(),
        discount=np.float32(0.99) * (rng.uniform(size=(count, size)) > 0.1),
        next_observation=normal(OBSERVATIONS),
    )


@pytest.mark.parametrize("preset", ["paper", pytest.param("release", marks=pytest.mark.full)])
def test_every_spherical_column_has_unit_norm_after_a_thousand_updates(preset):
    learn = learner(preset)
    state = learn.init(jax.random.PRNGKey(0))
    start = [np.asarray(kernel) for kernel in columns(state.critic.params)]
    for seed in range(100):
        state, metrics = learn.learn(state, NORMALIZER, batches(10, seed))
    assert int(state.updates) == 1_000
    kernels = columns(state.actor.params) + columns(state.critic.params)
    assert len(kernels) == 7 + 2 * 5  # actor: 3 in the encoder, 4 in the heads; critics: 3 and 2 each
    for kernel in kernels:
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=-2), 1.0, atol=1e-5)
    moved = [
        np.abs(np.asarray(now) - then).max() for now, then in zip(columns(state.critic.params), start, strict=True)
    ]
    assert min(moved) > 1e-3
    assert all(np.isfinite(value) for value in metrics.values())


def test_features_have_unit_norm():
    learn = learner()
    part = learn.config.critic.architecture
    encoder = HypersphericalEncoder(part, 16, 2)
    x = np.random.default_rng(0).normal(size=(64, 7)).astype(np.float32) * 100
    params = encoder.init(jax.random.PRNGKey(0), x)
    np.testing.assert_allclose(np.linalg.norm(encoder.apply(params, x), axis=-1), 1.0, atol=1e-5)


def test_unit_norm_at_the_origin_has_a_finite_gradient():
    zero = np.zeros(3, np.float32)
    np.testing.assert_array_equal(unit(zero), zero)
    assert np.isfinite(jax.grad(lambda x: unit(x).sum())(zero)).all()
    np.testing.assert_allclose(unit(np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        (LinearDecay(initial=3e-4, final=1.5e-4), (3e-4, 2.85e-4, 2.25e-4, 1.5e-4, 1.5e-4)),
        (CosineDecay(initial=3e-4, final=1.5e-4, hold=100), (3e-4, 3e-4, 2.380e-4, 1.5e-4, 1.5e-4)),
    ],
)
def test_learning_rates_end_at_their_final_value_and_stay(decay, expected):
    rates = [float(learning_rate(decay, np.int32(at), 1_000)) for at in (0, 100, 500, 1_000, 5_000)]
    np.testing.assert_allclose(rates, expected, rtol=2e-3)
