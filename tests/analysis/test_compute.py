from __future__ import annotations

from simbav2.envs.tasks import find
from simbav2.experiments.report.compute import multiply_adds, planned_updates, published_compute, training_compute


def test_matrix_products_counted_by_hand():
    # Width 4, one block, 3 inputs and the shift, two outputs: 16 in, 4*16 + 16*4 in the block, 16 + 8 in the head.
    network = {"width": 4, "depth": 1}
    assert multiply_adds(network, 3, [2]) == 16 + 128 + 24
    assert multiply_adds(network, 3, [2, 2]) == 16 + 128 + 48
    plain = {**network, "architecture": {"kind": "PreLayerNorm"}}
    assert multiply_adds(plain, 3, [2]) == 12 + 128 + 8
    perceptron = {"width": 4, "depth": 2, "architecture": {"kind": "mlp"}}
    assert multiply_adds(perceptron, 3, [1]) == 12 + 16 + 4


def test_the_default_critic_takes_about_14_gflop_an_update():
    walker, hopper = (published_compute(find(task), 2) for task in ("dmc/walker-walk", "mujoco/Hopper-v4"))
    assert 13.5e9 < walker.update < 14.5e9
    assert 27e9 < hopper.update < 29e9  # two critics
    assert walker.training == walker.update * (500_000 - 5_000) * 2


def test_an_update_is_four_passes_of_the_actor_and_six_of_each_critic():
    config = {
        "env_steps": 100,
        "action_repeat": 2,
        "warmup_decisions": 10,
        "updates_per_decision": 0.5,
        "actor": {"width": 4, "depth": 1},
        "critic": {"width": 4, "depth": 1, "num_critics": 2},
        "value": {"atoms": 3},
        "policy": {"kind": "deterministic"},
        "replay": {"batch_size": 5},
    }
    compute = training_compute(config, observation_size=2, action_size=1)
    actor, critic = 3 * 4 + 128 + 16 + 4, 4 * 4 + 128 + 16 + 12
    assert compute.action == 2 * actor
    assert compute.update == 5 * 2 * (4 * actor + 6 * 2 * critic)
    assert planned_updates(config) == 20
    assert compute.training == 20 * compute.update
    assert training_compute(config, 2, 1, updates=3).training == 3 * compute.update
