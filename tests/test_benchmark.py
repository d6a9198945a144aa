"""The benchmark: what it counts, and the facts it prints. No test asserts a time."""

import json

import jax
import jax.numpy as jnp
import pytest

from simbav2 import cli
from simbav2.experiments import benchmark


def test_work_is_that_of_the_multiplies_inside_loops_too():
    def program(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x @ w[0], w)[0]

    traced = jax.make_jaxpr(program)(jnp.ones((3, 5)), jnp.ones((4, 5, 5)))
    assert benchmark.multiplied(traced.jaxpr) == 2 * 3 * 5 * 5 * (1 + 4)


def test_work_of_one_update():
    # cheetah-run has 17 observations and 6 actions; the shift adds one input.
    critic = 2 * 256 * (24 * 512 + 4 * 512 * 2048 + 512 * 512 + 512 * 101)
    # Forward three times (actor, target, critic), back to the action once, back to the weights once.
    first = 2 * 256 * 24 * 512
    actor = 2 * 256 * (18 * 128 + 2 * 128 * 512 + 2 * (128 * 128 + 128 * 6))
    expected = 6 * critic - first + 4 * actor - 2 * 256 * 18 * 128
    case = benchmark.Case("paper", 512, 1, 1)
    learner = benchmark.Learner(case.config(), 17, 6)
    state = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    traced = jax.make_jaxpr(learner._learn)(state, *benchmark.experience(1, 256))
    assert benchmark.multiplied(traced.jaxpr) == pytest.approx(expected, rel=1e-3)


def test_command_prints_its_facts_as_json(measured, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "run", lambda plan: measured if plan is benchmark.QUICK else None)
    assert cli.main(["bench", "--quick", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["matmul_gflops"] > 0
    (row,) = facts["update"]
    assert list(row) == ["preset", "width", "critics", "updates", "ms", "gflop", "fraction_of_peak"]
    assert list(row.values())[:4] == ["sac", 16, 2, 2]
    assert row["fraction_of_peak"] > 0
    (split,) = facts["loop"]
    assert list(split) == ["task", "width", "env_ms", "act_ms", "replay_ms", "update_ms", "other_ms"]
    assert min(list(split.values())[2:]) > 0
    sizes = facts["replay_bytes_per_transition"]
    assert len(sizes) == 5
    assert sizes["mujoco/Humanoid-v4"] <= 1_700
    times = {"import_seconds", "help_seconds", "compile_seconds", "act_ms", "sample_ms"}
    assert times | {"peak_memory_mb"} <= facts.keys()
    assert "dmc/cheetah-run" in benchmark.table(facts)
    assert set(benchmark.QUICK.cases) < set(benchmark.FULL.cases)
