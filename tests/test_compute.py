"""Compute, counted by hand, and the figures that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simbav2.config import (
    MLP,
    Actor,
    Categorical,
    Config,
    Critic,
    Deterministic,
    PreLayerNorm,
    ReplayConfig,
    presets,
)
from simbav2.envs.tasks import find
from simbav2.experiments.compute import count_compute, multiply_adds
from simbav2.experiments.report.figures import published_points


def test_matrix_products_counted_by_hand():
    # Width 4, one block, 3 inputs and the shift, two outputs: 16 in, 4*16 + 16*4 in the block, 16 + 8 in the head.
    network = Actor(width=4, depth=1)
    assert multiply_adds(network, 3, [2]) == 16 + 128 + 24
    assert multiply_adds(network, 3, [2, 2]) == 16 + 128 + 48
    assert multiply_adds(replace(network, architecture=PreLayerNorm()), 3, [2]) == 12 + 128 + 8
    assert multiply_adds(Actor(width=4, depth=2, architecture=MLP()), 3, [1]) == 12 + 16 + 4


@pytest.mark.parametrize(
    ("task", "gflop"), [("dmc/walker-walk", 14), ("mujoco/Hopper-v4", 28)]
)  # one, two critics
def test_the_default_critic_takes_about_14_gflop_an_update(task, gflop):
    config = presets.simbav2.resolve(find(task))
    update = count_compute(config, find(task).observation_size, find(task).action_size).update
    assert update == pytest.approx(gflop * 1e9, rel=0.035)
    at_two = published_points([task])["SimbaV2 (paper)"][1]
    decisions = 1_000_000 / find(task).action_repeat
    assert (at_two.note, at_two.training) == ("2", update * (decisions - 5_000) * 2)


def test_an_update_is_four_passes_of_the_actor_and_six_of_each_critic():
    config = Config(
        actor=Actor(width=4, depth=1),
        critic=Critic(width=4, depth=1, num_critics=2),
        value=Categorical(atoms=3),
        policy=Deterministic(),
        replay=ReplayConfig(batch_size=5),
    )
    actor, critic = 3 * 4 + 128 + 16 + 4, 4 * 4 + 128 + 16 + 12
    found = count_compute(config, observation_size=2, action_size=1)
    assert found == (2 * actor, 5 * 2 * (4 * actor + 6 * 2 * critic), actor, 2 * critic)
