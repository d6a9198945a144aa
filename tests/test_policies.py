"""The tanh-squashed Gaussian against numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simbav2.networks.policies import TanhNormal

pytestmark = pytest.mark.numerics


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
