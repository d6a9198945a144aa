"""The update: invariants that hold after many of them, and what is compiled."""

from functools import cache

import jax
import numpy as np
import pytest
from toys import TINY

from simbav2 import tasks
from simbav2.config import CosineDecay, LinearDecay, override, presets
from simbav2.learner import Learner, learning_rate
from simbav2.losses import bootstrap_target, next_action, temperature_loss
from simbav2.networks.architectures import HypersphericalEncoder
from simbav2.networks.sphere import columns, project, unit
from simbav2.types import Normalizer, Transition, Variables

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


def test_projection_leaves_the_rest_alone():
    state = learner().init(jax.random.PRNGKey(0))
    scaled = jax.tree.map(lambda leaf: 3 * leaf, state.actor.params)
    projected = project(scaled)
    spherical = {id(leaf) for leaf in columns(projected)}
    for before, after in zip(jax.tree.leaves(scaled), jax.tree.leaves(projected), strict=True):
        if id(after) not in spherical:
            np.testing.assert_array_equal(before, after)
    np.testing.assert_allclose(np.linalg.norm(columns(projected)[0], axis=-2), 1.0, atol=1e-6)


def test_target_is_the_average_of_critics():
    learn = learner()
    state = learn.init(jax.random.PRNGKey(0))
    before = jax.tree.map(np.asarray, state.target)
    state, _ = learn.learn(state, NORMALIZER, batches(1))
    expected = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, before, state.critic.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), state.target, expected)


def test_many_updates_in_one_dispatch_are_single_updates_in_a_row():
    learn = learner()
    together, _ = learn.learn(learn.init(jax.random.PRNGKey(0)), NORMALIZER, batches(10))
    alone = learn.init(jax.random.PRNGKey(0))
    for i in range(10):
        alone, _ = learn.learn(alone, NORMALIZER, jax.tree.map(lambda x, i=i: x[i : i + 1], batches(10)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), together, alone)


def test_clipped_double_q_takes_the_distribution_with_the_smaller_mean():
    learn = learner()
    networks, value = learn.networks, learn.networks.value
    state = learn.init(jax.random.PRNGKey(0))
    half, nothing = np.full(32, 0.5, np.float32), np.zeros(32, np.float32)
    batch = jax.tree.map(lambda x: x[0], batches(1))._replace(discount=half, reward=nothing)
    following = next_action(networks, state.actor.variables, 0.0, batch, jax.random.PRNGKey(1))
    critics = Variables(state.target, None)
    ahead = bootstrap_target(learn.config, networks, critics, following, batch, jax.random.PRNGKey(1))
    target = networks.value.target(ahead)
    action = networks.actions(state.actor.variables, batch.next_observation)[0].sample(jax.random.PRNGKey(1))
    q = networks.q(critics, batch.next_observation, action)
    assert 0 < (q[0] < q[1]).sum() < 32  # neither member is always the smaller one
    # Half of the support stays inside it, where the projection keeps the mean.
    np.testing.assert_allclose(target @ value.atoms, 0.5 * q.min(axis=0), atol=1e-5)


def test_temperature_falls_while_entropy_is_above_its_target_and_rises_below():
    log_temperature = learner().init(jax.random.PRNGKey(0)).log_temperature.params
    assert np.exp(log_temperature) == pytest.approx(0.01)
    for entropy, target in ((3.0, -1.0), (-3.0, -1.0)):
        slope = jax.grad(temperature_loss)(log_temperature, entropy, target)
        assert float(slope) == pytest.approx(0.01 * (entropy - target))  # which Adam steps against


def test_learning_rate_is_linear_then_constant():
    decay = LinearDecay(initial=1e-4, final=3e-5)
    rates = [float(learning_rate(decay, np.int32(at), 1_000)) for at in (0, 500, 1_000, 5_000)]
    np.testing.assert_allclose(rates, [1e-4, 6.5e-5, 3e-5, 3e-5], rtol=1e-5)


def test_a_cosine_decay_holds_first_and_ends_at_its_final_rate():
    decay = CosineDecay(initial=3e-4, final=1.5e-4, hold=100)
    rates = [float(learning_rate(decay, np.int32(at), 1_100)) for at in (0, 100, 600, 1_100, 5_000)]
    np.testing.assert_allclose(rates, [3e-4, 3e-4, 2.25e-4, 1.5e-4, 1.5e-4], rtol=1e-5)


def test_rewards_and_observations_are_normalized_inside():
    learn = learner()
    # Multiples of 1/64, so that scaling, shifting and back is exact: otherwise Adam enlarges the rounding errors.
    batch = jax.tree.map(lambda x: np.round(64 * x) / 64, batches(10))
    shifted = Normalizer(
        np.full(OBSERVATIONS, 7.0, np.float32), np.full(OBSERVATIONS, 2.0, np.float32), np.float32(4)
    )
    raw = batch._replace(
        observation=batch.observation * 2 + 7,
        next_observation=batch.next_observation * 2 + 7,
        reward=batch.reward * 4,
    )
    plain, _ = learn.learn(learn.init(jax.random.PRNGKey(0)), NORMALIZER, batch)
    normalized, _ = learn.learn(learn.init(jax.random.PRNGKey(0)), shifted, raw)
    jax.tree.map(np.testing.assert_array_equal, plain.critic.params, normalized.critic.params)
