"""The parts on their own: weights on the sphere with any optimiser of Optax."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from simbav2 import InputError
from simbav2.networks.sphere import UnitColumns, columns, on_sphere

pytestmark = pytest.mark.numerics
EXAMPLE = Path(__file__).parents[1] / "examples" / "sphere_with_optax.py"


def off_the_sphere(params) -> float:
    return max(float(jnp.abs(jnp.linalg.norm(kernel, axis=0) - 1).max()) for kernel in columns(params))


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("sphere_with_optax", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.STEPS = 300
    return module


def test_the_example_stays_on_the_sphere(example):
    assert EXAMPLE.read_text().count("\n") <= 60
    params = example.main()
    assert len(columns(params)) == 2
    assert off_the_sphere(params) < 1e-6


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adam(1e-2),
        optax.adamw(1e-2, weight_decay=0.1),
        optax.sgd(0.5, momentum=0.9),
        optax.chain(optax.clip_by_global_norm(0.1), optax.rmsprop(optax.linear_schedule(1e-1, 1e-3, 10))),
    ],
    ids=["adam", "adamw", "sgd", "chain"],
)
def test_marked_weights_stay_and_the_others_move_as_before(example, optimizer):
    """One step from the same place: the marked ones go where the optimiser leads, then back to the sphere."""
    start = example.start(jax.random.PRNGKey(0))
    arrows = jax.random.normal(jax.random.PRNGKey(1), (32, 4))

    def moved(chosen):
        params, state = start, chosen.init(start)
        updates, state = chosen.update(jax.grad(example.loss)(params, arrows), state, params)
        return optax.apply_updates(params, updates)

    alone, wrapped = moved(optimizer), moved(on_sphere(optimizer))
    assert off_the_sphere(alone) > 1e-5
    assert off_the_sphere(wrapped) < 1e-6
    for name, before in start.items():
        if isinstance(before, UnitColumns):
            np.testing.assert_allclose(wrapped[name].value, alone[name].project().value, atol=1e-6)
            assert not np.allclose(wrapped[name].value, before.value, atol=1e-4)
        else:
            np.testing.assert_allclose(wrapped[name], alone[name], atol=1e-6)


def test_the_parameters_are_asked_for():
    optimizer = on_sphere(optax.adam(1e-3))
    params = {"kernel": UnitColumns(jnp.eye(3))}
    with pytest.raises(InputError, match="needs the parameters"):
        optimizer.update(params, optimizer.init(params))
