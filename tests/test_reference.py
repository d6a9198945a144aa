"""The tuned update beside a plain one, for every preset."""

from functools import partial

import jax
import numpy as np
import pytest
import reference
from test_learner import ACTIONS, OBSERVATIONS, TASK, batches

from simbav2.config import leaves, override, presets
from simbav2.learner import Learner
from simbav2.types import Normalizer

pytestmark = pytest.mark.numerics
# In `make test`: a value that is a distribution, one that is a number, a policy that is a point, and cloning.
EVERY_TIME = ("simbav2", "ddpg-mlp")
SMALL = {"actor.width": 16, "critic.width": 16, "critic.depth": 1}
NORMALIZER = Normalizer(
    np.linspace(-1, 1, OBSERVATIONS, dtype=np.float32),
    np.linspace(0.5, 2, OBSERVATIONS, dtype=np.float32),
    np.float32(2),
)


def in_float64(tree):
    def widened(leaf):
        array = np.asarray(leaf)
        return array.astype(np.float64) if array.dtype == np.float32 else leaf

    return jax.tree.map(widened, tree)


@pytest.fixture
def float64():
    """In float32 the two differ by up to 2e-5 (20 seeds): Adam enlarges the rounding errors of small gradients."""
    with jax.enable_x64(True):
        yield


# The order of SimbaV2's update; tests/golden_updates.py has the other methods.
ACTOR_FIRST = [
    name
    for name, preset in presets.PRESETS.items()
    if preset.config.update_order == "actor-first" and preset.config.actor_every == 1
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=() if name in EVERY_TIME else pytest.mark.full) for name in ACTOR_FIRST]
)
def test_tuned_update_is_the_plain_one(preset):
    method = presets.preset(preset)
    # Rounding is a share of a step: all take steps of the paper's size, so that one tolerance serves.
    rate = {"learning_rate.initial": 1e-4} if "learning_rate.initial" in leaves(method) else {}
    config = override(method, SMALL | rate).resolve(TASK)
    learner = Learner(config, OBSERVATIONS, ACTIONS)
    tuned = in_float64(learner.init(jax.random.PRNGKey(3)))
    temperature = None if tuned.log_temperature is None else tuned.log_temperature.params
    plain = reference.start(*jax.tree.map(np.asarray, (tuned.actor.params, tuned.critic.params, temperature)))
    first, key = jax.tree.map(np.asarray, tuned.critic.params), np.asarray(tuned.key)
    update = jax.jit(partial(reference.update, learner.networks, config))
    experience, normalizer = in_float64((batches(20), NORMALIZER))
    for start in range(0, 20, 10):
        tuned, _ = learner.learn(tuned, normalizer, jax.tree.map(lambda x, a=start: x[a : a + 10], experience))
    for at in range(20):
        batch = normalizer.transition(jax.tree.map(lambda x, at=at: x[at], experience))
        plain = update(plain, batch, at, key)

    def compare(ours, theirs):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5), ours, theirs)

    compare(tuned.actor.params, plain.actor)
    compare(tuned.critic.params, plain.critics)
    compare(tuned.target, plain.targets)
    if temperature is not None:
        compare(tuned.log_temperature.params, plain.log_temperature)
    moved = jax.tree.map(lambda now, then: np.abs(now - then).max(), tuned.critic.params, first)
    assert min(jax.tree.leaves(moved)) > 1e-4  # far more than the tolerance
