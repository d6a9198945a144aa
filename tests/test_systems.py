"""Every system and every design change trains, on a task of each of two suites, and learns what is known."""

import jax
import numpy as np
import pytest
from toys import CHAIN, TINY, Chain

from simbav2 import SimbaV2, presets
from simbav2.networks.spherical import columns

# Those that learn by acting; tests/test_offline.py has the others.
ACTING = [name for name, preset in presets.PRESETS.items() if not preset.config.imitates]
# (preset, design): all presets as they are, all designs on the paper's system.
SYSTEMS = [(name, None) for name in ACTING] + [("paper", letter) for letter in presets.DESIGNS]
NAMES = [name if letter is None else f"design-{letter}" for name, letter in SYSTEMS]
# `make test` trains one of each kind, `make test-all` every one.
KINDS = ("simbav2", "simba", "sac", "ddpg-mlp")
SMALL = {
    "actor.width": 8,
    "critic.width": 8,
    "critic.depth": 1,
    "critic.members": 1,  # two are in the chains below
    "replay.batch_size": 32,
    "replay.capacity": 5_000,
    "warmup_decisions": 500,
    "updates_per_decision": 0.1,
}
# Compiling takes the time: these two have spaces of the same size and, with the schedules of as many decisions,
# share their programs.
TASKS = {"dmc/cheetah-run": 2_000_000, "mujoco/HalfCheetah-v4": 1_000_000}
EVERY_TIME = {("simbav2", "dmc/cheetah-run"), ("sac", "mujoco/HalfCheetah-v4")}
# To learn the value of a chain: smaller batches do, and most of this file's time goes into updates.
QUICKLY = {**TINY, **CHAIN, "replay.batch_size": 32}
# The last step of two is the one step again; the longer chain is enough for the designs.
CHAINS = [
    pytest.param(
        *system, length, id=f"{name}-{length}", marks=() if name in KINDS and length == 2 else pytest.mark.full
    )
    for system, name in zip(SYSTEMS, NAMES, strict=True)
    for length in ((1, 2) if system[1] is None else (2,))
]


TRAININGS = [
    pytest.param(task, *system, id=f"{name}-{task}", marks=() if (name, task) in EVERY_TIME else pytest.mark.full)
    for system, name in zip(SYSTEMS, NAMES, strict=True)
    for task in TASKS
]


@pytest.mark.parametrize(("task", "preset", "design"), TRAININGS)
def test_trains(task, preset, design):
    agent = SimbaV2(task, preset=preset, design=design, env_steps=TASKS[task], **SMALL)
    agent.learn(3_000)
    decisions = 3_000 // agent.task.action_repeat
    assert (agent.env_steps, agent.updates) == (3_000, (decisions - 500) // 10 + 1)
    assert int(agent.state.updates) == agent.updates
    for leaf in jax.tree.leaves(agent.state):
        assert np.isfinite(leaf).all()
    for kernel in columns((agent.state.actor.params, agent.state.critic.params)):
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=-2), 1, atol=1e-5)
    action, _ = agent.predict(np.zeros(agent.task.observation_size))
    assert np.all(np.abs(action) <= 1)


@pytest.mark.numerics
@pytest.mark.parametrize(("preset", "design", "length"), CHAINS)
def test_value_and_best_action_are_learned(preset, design, length):
    agent = SimbaV2(lambda: Chain(length), seed=1, preset=preset, design=design, **QUICKLY)
    agent.learn(700)
    assert agent.config.critic.members == 2
    last = np.array([(length - 1) / length, 0.5], np.float32)
    action, _ = agent.predict(last)
    assert action[0] == pytest.approx(0.5, abs=0.15)
    scale = agent.normalizer.reward_scale
    value = agent.q_values(last, np.array([0.5])).mean() * scale
    assert value == pytest.approx(1.0, abs=0.1)
    worse = agent.q_values(last, np.array([-0.5])).mean() * scale
    assert worse == pytest.approx(0.0, abs=0.3)
    if length == 2:
        first = agent.q_values(np.array([0.0, 0.5]), np.array([0.5])).mean() * scale
        assert first == pytest.approx(CHAIN["discount"], abs=0.15)


@pytest.mark.numerics  # the programs of the chains
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in KINDS else pytest.mark.full) for name in ACTING]
)
def test_only_policies_with_entropy_log_it(name):
    agent = SimbaV2(lambda: Chain(1), preset=name, **QUICKLY)
    agent.learn(199)
    assert agent.update() is None
    agent.learn(1)
    logged = set(agent.update() or ())
    assert ({"entropy", "temperature"} <= logged) == (not name.startswith("ddpg"))
    assert {"q", "actor_loss", "critic_loss", "learning_rate"} <= logged
