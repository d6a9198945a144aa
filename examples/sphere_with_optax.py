"""Weights on the unit sphere in your own training loop: no agent, any Optax optimiser.

A weight on the sphere has the type `UnitColumns`; `on_sphere` makes the optimiser re-project it after every step.
Here a small network learns the angle between two arrows: `python examples/sphere_with_optax.py`.
"""

import jax
import jax.numpy as jnp
import optax

from simbav2.networks.sphere import UnitColumns, columns, on_sphere, unit

WIDTH, BATCH, STEPS = 64, 256, 1_000


def start(key):
    """Two weights on the sphere, and ordinary parameters."""
    first, second, last = jax.random.split(key, 3)
    return {
        "embed": UnitColumns(jax.random.normal(first, (4, WIDTH))).project(),
        "hidden": UnitColumns(jax.random.normal(second, (WIDTH, WIDTH))).project(),
        "scale": jnp.ones(WIDTH),
        "readout": jax.random.normal(last, (WIDTH, 1)) / WIDTH**0.5,
    }


def angle(params, arrows):
    h = unit(jax.nn.relu(arrows @ params["embed"].value))
    h = unit(h + jax.nn.relu(params["scale"] * (h @ params["hidden"].value)))
    return (h @ params["readout"])[:, 0]


def loss(params, arrows):
    first, second = unit(arrows[:, :2]), unit(arrows[:, 2:])
    target = jnp.arccos(jnp.clip(jnp.sum(first * second, axis=-1), -1, 1))
    return jnp.mean((angle(params, arrows) - target) ** 2)


def main(seed=0):
    optimizer = on_sphere(optax.adam(3e-3))
    params = start(jax.random.PRNGKey(seed))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, key):
        error, gradient = jax.value_and_grad(loss)(params, jax.random.normal(key, (BATCH, 4)))
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, error

    for number in range(STEPS):
        params, state, error = step(params, state, jax.random.PRNGKey(number))
        if number % 200 == 0 or number == STEPS - 1:
            off = max(float(jnp.abs(jnp.linalg.norm(w, axis=0) - 1).max()) for w in columns(params))
            print(f"step {number:>4}  error {error:.4f}  furthest from the sphere {off:.1e}")
    return params


if __name__ == "__main__":
    main()
