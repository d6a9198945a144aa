"""Measures: by hand where that is possible, and what a run writes of them."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from toys import CHAIN, TINY, Chain

from simbav2 import SimbaV2, diagnostics
from simbav2.config import override, presets
from simbav2.diagnostics import norms, parameter_counts
from simbav2.networks.sphere import UnitColumns
from simbav2.training import run


@pytest.mark.numerics
def test_norms_are_weighted_by_the_share_of_parameters():
    # Encoder: a layer of 3 parameters (norm 3) and one of 1 (norm 2): weights 3/4 and 1/4.
    params = {
        "encoder": {
            "One": {"kernel": UnitColumns(jnp.array([[2.0], [2.0], [1.0]]))},
            "Two": {"vector": jnp.array([2.0])},
        },
        "predictor": {"kernel": jnp.array([[3.0], [4.0]])},
    }
    gradient = {
        "encoder": {
            "One": {"kernel": UnitColumns(jnp.array([[6.0], [0.0], [0.0]]))},
            "Two": {"vector": jnp.array([4.0])},
        },
        "predictor": {"kernel": jnp.array([[0.5], [0.0]])},
    }
    features = {
        "encoder/One": jnp.array([[3.0], [1.0]]),  # mean square 5
        "encoder/Two": jnp.array([[1.0], [1.0]]),
        "predictor": jnp.array([[2.0], [2.0]]),
    }
    expected = {
        "encoder/parameter_norm": math.sqrt(0.75 * 9 + 0.25 * 4),
        "encoder/gradient_norm": math.sqrt(0.75 * 36 + 0.25 * 16),
        "encoder/effective_learning_rate": math.sqrt(0.75 * 36 / 9 + 0.25 * 16 / 4),
        "encoder/feature_norm": math.sqrt(0.75 * 5 + 0.25 * 1),
        "predictor/parameter_norm": 5.0,
        "predictor/gradient_norm": 0.5,
        "predictor/effective_learning_rate": 0.1,
        "predictor/feature_norm": 2.0,
    }
    found = norms(params, gradient, features)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value), name


@pytest.mark.numerics
def test_a_unit_is_dead_when_it_is_silent_for_the_whole_batch():
    units = [jnp.array([[0.0, 1.0], [0.0, 0.0]]), jnp.array([[0.0, 2.0], [3.0, 0.0]])]
    assert float(diagnostics.dead(units)) == 0.25


@pytest.mark.parametrize(("width", "millions"), [(128, 0.3), (256, 1.1), (512, 4.5), (1024, 17.8)])
def test_parameter_counts_over_width_are_the_papers(width, millions):
    config = override(presets.paper, {"critic.width": width, "critic.num_critics": 1})
    assert round(parameter_counts(config, 67, 21).critic_hidden / 1e6, 1) == millions


@pytest.mark.parametrize(("depth", "squares"), [(1, 9), (2, 17), (4, 33), (8, 65)])
def test_a_block_adds_eight_squares_of_the_width(depth, squares):
    config = override(presets.paper, {"critic.depth": depth, "critic.num_critics": 2})
    counts = parameter_counts(config, 67, 21)
    assert counts.critic_hidden == squares * 512**2
    # Embedding (with the shift's input), output layer, and the scalers of embedding, blocks, lerps and head.
    vectors = 512 * (1 + 4 * depth + depth + 1)
    assert counts.critic == counts.critic_hidden + (67 + 21 + 1) * 512 + 512 * 101 + vectors


def test_measuring_changes_nothing_and_does_not_recompile():
    one, other = (SimbaV2(lambda: Chain(1), seed=3, **TINY) for _ in range(2))
    one.learn(300)
    other.learn(250)
    first = other.trainer.diagnostics()
    other.learn(50)
    assert {name: value.shape for name, value in other.trainer.diagnostics().items()} == dict.fromkeys(first, ())
    assert other.compute_diagnostics._cache_size() == 1
    observation = np.zeros((4, 2), np.float32)
    np.testing.assert_array_equal(one.predict(observation)[0], other.predict(observation)[0])
    np.testing.assert_array_equal(
        one.q_values(observation, np.ones((4, 1))), other.q_values(observation, np.ones((4, 1)))
    )


@pytest.mark.parametrize(
    "preset", ["sac", *(pytest.param(name, marks=pytest.mark.full) for name in ("paper", "simba", "ddpg-simbav2"))]
)
def test_every_kind_of_method_is_measured(preset):
    measures = SimbaV2(lambda: Chain(1), preset=preset, **TINY, **CHAIN).learn(250).trainer.diagnostics()
    assert all(np.isfinite(value) for value in measures.values())
    groups = {f"{network}/{group}" for network in ("actor", "critic") for group in ("encoder", "predictor")}
    assert groups <= {name.rpartition("/")[0] for name in measures}
    assert ("column_error" in measures) == preset.endswith(("paper", "simbav2"))
    assert measures.get("column_error", 0) < 1e-5
    assert ("clipped_mass" in measures) == preset.endswith(("paper", "simbav2"))


@pytest.mark.parametrize(("low", "high", "mass"), [(-4, -2, 1), (-0.5, 1.5, 0)])
def test_clipped_mass_counts_what_lies_beyond_the_support(low, high, mass):
    # In a chain of one step the target is the reward, 0.96 for this action.
    agent = SimbaV2(lambda: Chain(1), rewards="RawRewards", **{**TINY, "value.low": low, "value.high": high})
    agent.trainer.explore = lambda observation: np.full((1, 1), 0.7, np.float32)
    assert float(agent.learn(50).trainer.diagnostics()["clipped_mass"]) == pytest.approx(mass, abs=1e-5)


def metrics(folder) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


SETTINGS = {
    **TINY,
    "env_steps": 1_000,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 500,
    "schedule.evaluation_episodes": 2,
    "schedule.diagnostics_every": 300,
}


def test_a_run_writes_measures_at_their_interval_and_in_its_summary(tmp_path):
    summary = run.start(SimbaV2(lambda: Chain(2), **SETTINGS), tmp_path / "run")
    assert summary is not None
    lines = metrics(tmp_path / "run")
    measured = [line["env_step"] for line in lines if "critic/encoder/gradient_norm" in line]
    assert measured == [300, 600, 900, 1_000]
    assert summary["measures"].items() <= {**lines[-2], **lines[-1]}.items()
    assert summary["parameters"]["critic"] == parameter_counts(*_sizes(Chain())).critic
    evaluated = [line for line in lines if "evaluation/q" in line]
    assert [line["env_step"] for line in evaluated] == [500, 1_000]
    # The best policy gets 1 after two steps: gamma, discounted.
    assert evaluated[-1]["evaluation/discounted_return"] <= 1.0


def _sizes(env: Chain):
    config = override(presets.preset("simbav2"), {**TINY, "critic.num_critics": 2})
    return config, env.observation_space.shape[0], env.action_space.shape[0]


def test_resets_start_networks_anew_and_keep_replay_and_statistics(tmp_path):
    settings = {**SETTINGS, "preset": "sac", "updates_per_decision": 1}
    plain = SimbaV2(lambda: Chain(2), **settings)
    reset = SimbaV2(lambda: Chain(2), **settings, reset_every=500)
    plain.learn(200 + 499)
    reset.learn(200 + 499)
    assert reset.trainer.resets == 0
    np.testing.assert_array_equal(plain.predict(np.zeros(2))[0], reset.predict(np.zeros(2))[0])
    reset.learn(1)  # the 501st update is the first of new networks
    assert (reset.trainer.resets, reset.updates, int(reset.state.updates)) == (1, 501, 501)
    assert int(reset.state.actor.optimizer.count) == int(reset.state.critic.optimizer.count) == 1
    assert (len(reset.trainer.replay), reset.decisions) == (700, 700)
    assert reset.statistics.observation.weight > 699
    run.start(SimbaV2(lambda: Chain(2), **settings, reset_every=300), tmp_path / "run")
    counted = [line["resets"] for line in metrics(tmp_path / "run") if "resets" in line]
    assert counted[0] == 0
    assert counted[-1] == 2
    assert counted == sorted(counted)
