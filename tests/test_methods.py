"""Every method and every ablation change trains, on a task of each of two suites."""

import json

import jax
import numpy as np
import pytest
from learning import chain_settings
from toys import Chain

from simbav2 import SimbaV2
from simbav2.config import override, presets
from simbav2.errors import InputError
from simbav2.networks.sphere import columns
from simbav2.training import run
from simbav2.training.trainer import HeldNoise

# Those that learn by acting; tests/test_offline.py has the others.
ACTING = [name for name, preset in presets.PRESETS.items() if not preset.config.imitates]
# (preset, ablation): all presets as they are, all ablations on the paper's method.
METHODS = [(name, None) for name in ACTING] + [("paper", letter) for letter in presets.ABLATIONS]
NAMES = [name if letter is None else f"ablation-{letter}" for name, letter in METHODS]
# `make test` trains one of each kind, `make test-all` every one.
KINDS = ("simbav2", "ddpg-mlp")
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


# Those with constants of their own papers.
OTHERS = ("td3", "tqc", "crossq", "redq", "droq", "xqc", "flashsac")


@pytest.mark.full
@pytest.mark.parametrize("task", ["myosuite/myo-reach", "hbench/h1-stand"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_methods_train_on_the_other_suites(name, task):
    try:
        agent = SimbaV2(task, preset=name, **SMALL)
    except InputError as error:
        pytest.skip(str(error))
    agent.learn(3_000)
    assert int(agent.state.updates) == agent.updates > 50
    for leaf in jax.tree.leaves(agent.state):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "flashsac" else pytest.mark.full) for name in OTHERS]
)
def test_a_stopped_run_of_another_method_resumes_to_the_same_bits(name, tmp_path):
    settings = SMALL | {"env_steps": 900, "warmup_decisions": 100, "updates_per_decision": 0.5}
    settings |= {"schedule.evaluation_episodes": 1, "schedule.evaluate_every": 900, "schedule.log_every": 300}

    def agent():
        return SimbaV2("dmc/cartpole-swingup", preset=name, seed=5, **settings)

    whole = run.start(agent(), tmp_path / "whole")
    run.start(agent(), tmp_path / "parts", stop_after=437)
    resumed = run.resume(tmp_path / "parts", stop_after=900)
    assert whole is not None
    assert resumed is not None
    summaries = [json.loads((tmp_path / part / "summary.json").read_text()) for part in ("whole", "parts")]
    assert summaries[0]["params_sha256"] == summaries[1]["params_sha256"]
    assert summaries[0]["final_return"] == summaries[1]["final_return"]


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


def test_noise_is_held_for_a_number_of_decisions_drawn_by_a_zeta_law():
    held = HeldNoise(seed=0, longest=16, num_envs=1)
    draws = [held.draw(decision) for decision in range(20_000)]
    assert all(draw <= decision for decision, draw in enumerate(draws))
    lengths = np.diff([*np.flatnonzero(np.diff([-1, *draws])), len(draws)])
    shares = np.array([1 / n**2 for n in range(1, 17)])
    assert lengths.max() <= 16
    # P(1) = 0.6312 and a mean of 2.134; the deviations over 9,400 draws are 0.005 and 0.026.
    assert np.mean(lengths == 1) == pytest.approx(1 / shares.sum(), abs=0.03)
    assert lengths.mean() == pytest.approx(np.arange(1, 17) @ shares / shares.sum(), abs=0.15)
    # A resumed run starts in the middle.
    resumed = HeldNoise(seed=0, longest=16, num_envs=1)
    middle = next(at for at in range(10_000, 20_000) if draws[at] < at)
    resumed.drawn, resumed.until = (
        draws[middle],
        next(at for at in range(middle, 20_000) if draws[at] != draws[middle]),
    )
    assert [resumed.draw(decision) for decision in range(middle, 20_000)] == draws[middle:]


def test_without_repetition_every_decision_has_its_own_noise():
    held = HeldNoise(seed=0, longest=1, num_envs=4)
    assert [held.draw(decision) for decision in range(0, 40, 4)] == list(range(0, 40, 4))


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        ("simbav2", {"critic.joint_batch": True}, "critic.architecture Hyperspherical has none"),
        ("redq", {"critic.target_subset": 11}, "expected at most critic.num_critics, 10"),
        ("tqc", {"value.drop": 25}, "expected less than value.quantiles, 25"),
        ("droq", {"critic.architecture.dropout": 1.0}, "expected at least 0 and less than 1"),
    ],
)
def test_mixtures_without_meaning_are_refused_in_one_line(preset, changes, message):
    with pytest.raises(InputError, match=message):
        override(presets.preset(preset), changes)


@pytest.mark.full
def test_simbav2_takes_the_parts_of_other_methods():
    mixture = {
        "policy.noise_repeat": 16,
        "actor_every": 2,
        "learning_rate": "CosineDecay",
        "replay.n_step": 3,
        "warmup_decisions": 200,
        "critic.width": 16,
        "actor.width": 16,
    }
    agent = SimbaV2("dmc/cartpole-swingup", **mixture).learn(800)
    assert agent.updates == 2 * (400 - 200 + 1)
    assert int(agent.state.actor.optimizer.count) == agent.updates // 2
