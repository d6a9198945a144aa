"""The categorical value: hand-worked projections; the tanh-squashed Gaussian: numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simbav2.config import Categorical
from simbav2.networks.critics import Bootstrap, CategoricalValue
from simbav2.networks.policies import TanhNormal

pytestmark = pytest.mark.numerics

three = CategoricalValue(Categorical(low=0.0, high=2.0, atoms=3))
full = CategoricalValue(Categorical())


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1.25, [0.0, 0.75, 0.25]),  # inside: three quarters to 1, one quarter to 2
        (1.0, [0.0, 1.0, 0.0]),  # on an atom: all of it
        (0.0, [1.0, 0.0, 0.0]),
        (2.0, [0.0, 0.0, 1.0]),
        (-3.0, [1.0, 0.0, 0.0]),  # past both ends: the end takes it
        (7.5, [0.0, 0.0, 1.0]),
    ],
)
def test_mass_is_shared_by_the_two_nearest_atoms(position, expected):
    projected = three.project(jnp.full((1, 3), position), jnp.array([[0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(projected, [expected], atol=1e-6)


def test_target_shifts_and_shrinks_the_atoms():
    # All mass at atom 1 (z = 1): 0.5 + 0.5 * (1 + 0.2) = 1.1, so 0.9 stays on 1 and 0.1 goes to 2.
    logits = jnp.array([[-50.0, 50.0, -50.0]])
    target = three.target(Bootstrap(logits, jnp.array([0.5]), jnp.array([0.5]), jnp.array([0.2])))
    np.testing.assert_allclose(target, [[0.0, 0.9, 0.1]], atol=1e-6)


def test_target_mass_sums_to_one_and_keeps_its_mean():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 101)).astype(np.float32)
    reward = rng.normal(size=500).astype(np.float32) * 3
    discount = rng.uniform(0, 1, 500).astype(np.float32)
    target = full.target(Bootstrap(logits, reward, discount, np.zeros(500, np.float32)))
    np.testing.assert_allclose(target.sum(axis=-1), 1.0, atol=1e-5)
    positions = np.clip(reward[:, None] + discount[:, None] * full.atoms, -5, 5)
    mean = (np.asarray(jax.nn.softmax(logits)) * positions).sum(axis=-1)
    np.testing.assert_allclose(target @ full.atoms, mean, atol=1e-4)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.3)])
def test_density_integrates_to_one(mean, log_std):
    # Trapezoids in the unsquashed variable, where the density is smooth to the ends.
    x = np.linspace(-12, 12, 200_001)
    action = np.tanh(x)
    inside = np.abs(action) < 1 - 1e-6
    policy = TanhNormal(jnp.full((inside.sum(), 1), mean), jnp.full((inside.sum(), 1), log_std))
    density = np.exp(np.asarray(policy.log_prob(jnp.asarray(action[inside, None])), np.float64))
    mass = np.trapezoid(density, action[inside])
    assert mass == pytest.approx(1.0, abs=5e-3)


def test_sampled_log_probability_is_that_of_the_action():
    policy = TanhNormal(jnp.array([[0.3, -0.2]]), jnp.array([[-0.5, 0.1]]))
    action, log_prob = policy.sample_and_log_prob(jax.random.PRNGKey(3))
    np.testing.assert_allclose(log_prob, policy.log_prob(action), rtol=1e-4)


def test_log_probability_stays_finite_far_out():
    policy = TanhNormal(jnp.array([[40.0]]), jnp.array([[-10.0]]))
    action, log_prob = policy.sample_and_log_prob(jax.random.PRNGKey(0))
    assert action == 1.0
    assert np.isfinite(log_prob).all()
    slope = jax.grad(
        lambda mean: TanhNormal(mean, policy.log_std).sample_and_log_prob(jax.random.PRNGKey(0))[1][0]
    )
    assert np.isfinite(slope(policy.mean)).all()


def test_no_noise_is_the_deterministic_action():
    policy = TanhNormal(jnp.array([[0.3, -0.2]]), jnp.array([[1.0, 2.0]]))
    assert (policy.sample(jax.random.PRNGKey(0), 0.0) == jnp.tanh(policy.mean)).all()
