"""Every method and every ablation change trains, on a task of each of two suites."""

import jax
import numpy as np
import pytest
from learning import chain_settings
from toys import Chain

from simbav2 import SimbaV2
from simbav2.config import presets
from simbav2.networks.sphere import columns

# Those that learn by acting; tests/test_offline.py has the others.
ACTING = [name for name, preset in presets.PRESETS.items() if not preset.config.imitates]
# (preset, ablation): all presets as they are, all ablations on the paper's method.
METHODS = [(name, None) for name in ACTING] + [("paper", letter) for letter in presets.ABLATIONS]
NAMES = [name if letter is None else f"ablation-{letter}" for name, letter in METHODS]
# `make test` trains one of each kind, `make test-all` every one.
KINDS = ("simbav2", "ddpg-mlp", "redq")
SMALL = {
    "actor.width": 8,
    "critic.width": 8,
    "critic.depth": 1,
    "replay.batch_size": 32,
    "replay.capacity": 5_000,
    "warmup_decisions": 500,
    "updates_per_decision": 0.1,
}
# Compiling takes the time: these two have spaces of the same size and, with the schedules of as many decisions,
# share their programs.
TASKS = {"dmc/cheetah-run": 2_000_000, "mujoco/HalfCheetah-v4": 1_000_000}
EVERY_TIME = {("simbav2", "dmc/cheetah-run"), ("sac", "mujoco/HalfCheetah-v4")}
EVERY_TIME |= {(name, task) for name in ("xqc", "flashsac") for task in TASKS}


TRAININGS = [
    pytest.param(task, *method, id=f"{name}-{task}", marks=() if (name, task) in EVERY_TIME else pytest.mark.full)
    for method, name in zip(METHODS, NAMES, strict=True)
    for task in TASKS
]


@pytest.mark.parametrize(("task", "preset", "ablation"), TRAININGS)
def test_trains(task, preset, ablation):
    settings = SMALL | {"action_repeat": 2 if task.startswith("dmc") else 1}
    if not presets.preset(preset).critic.target_subset:  # tests/learning.py has two critics
        settings["critic.num_critics"] = 1
    agent = SimbaV2(task, preset=preset, ablation=ablation, env_steps=TASKS[task], **settings)
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


@pytest.mark.numerics  # the programs of tests/test_learning.py
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in KINDS else pytest.mark.full) for name in ACTING]
)
def test_only_policies_with_entropy_log_it(name):
    agent = SimbaV2(lambda: Chain(2), preset=name, **chain_settings(name))
    agent.learn(199)
    assert agent.trainer.update() is None
    agent.learn(1)
    logged = set(agent.trainer.update() or ())
    assert ({"entropy", "temperature"} <= logged) == (not name.startswith(("ddpg", "td3")))
    assert {"q", "actor_loss", "critic_loss", "learning_rate"} <= logged
