from __future__ import annotations

import numpy as np
import pytest

from simbav2.analysis.published import published_score
from simbav2.analysis.runs import read_run
from simbav2.analysis.scores import groups, normalized_score, run_curve
from simbav2.envs.tasks import tasks


def test_a_score_is_measured_from_random_to_reference():
    assert normalized_score("dmc/walker-walk", 500.0) == 0.5  # 0 to 1000
    assert normalized_score("mujoco/Hopper-v4", 18.791) == 0.0
    assert normalized_score("mujoco/Hopper-v4", 3226.0) == 1.0
    assert normalized_score("Pendulum-v1", -150.0) is None


def test_published_values_are_found_by_task_id():
    assert published_score("dmc/cheetah-run") == (920, 918, 922)  # not the 821 of the other table
    assert published_score("dmc/dog-run") == (562, 516, 608)
    assert published_score("myosuite/myo-key-turn-hard") == pytest.approx((0.62, 0.427, 0.813))  # in percent there
    assert published_score("hbench/h1-walk") == (845, 840, 850)  # printed as h1-walk-v0
    assert published_score("dmc/Mean") is None
    assert published_score("Pendulum-v1") is None


@pytest.mark.parametrize(("suite", "mean"), [("mujoco", 1.617), ("dmc-easy", 0.874), ("dmc-hard", 0.729)])
def test_published_values_give_the_means_of_table_1(suite, mean):
    scores = [normalized_score(task.id, published_score(task.id).mean) for task in tasks(suite)]
    assert np.mean(scores) == pytest.approx(mean, abs=0.003)


def test_a_run_is_averaged_over_its_episodes(make_run):
    # Rows of one evaluation need not stand together.
    run = read_run(make_run({20_000: [5.0, 9.0, 10.0], 10_000: [1.0, 3.0, 8.0]}))
    curve = run_curve(run, "return")
    np.testing.assert_array_equal(curve.env_step, [10_000, 20_000])
    np.testing.assert_array_equal(curve.mean, [4.0, 8.0])
    np.testing.assert_array_equal(curve.low, [1.0, 5.0])
    np.testing.assert_array_equal(curve.high, [8.0, 10.0])
    assert curve.averaged == "3 evaluation episodes"


def test_seeds_are_averaged_where_all_were_evaluated(make_run):
    folders = [
        make_run({10_000: [0.0, 2.0], 20_000: [10.0, 10.0]}, seed=1),
        make_run({10_000: [4.0, 6.0]}, seed=0, finished=False),
        make_run({}, seed=2, finished=False),
    ]
    (group,) = groups(map(read_run, folders))
    assert [run.seed for run in group.runs] == [0, 1, 2]
    np.testing.assert_array_equal(group.curve.env_step, [10_000])
    np.testing.assert_array_equal(group.curve.mean, [3.0])  # of 1 and 5
    np.testing.assert_array_equal([group.curve.low, group.curve.high], [[1.0], [5.0]])
    assert group.curve.averaged == "2 seeds"


def test_only_runs_that_differ_in_the_seed_alone_are_averaged(make_run):
    settings = [
        {"critic": {"width": 128}},
        {"critic": {"width": 128}, "seed": 1},
        {"critic": {"width": 512}},
        {"preset": "paper", "critic": {"width": 128}},
        {"critic": {"width": 128}, "mujoco": "3.5.0"},
        {"task": "dmc/walker-run", "critic": {"width": 128}},
    ]
    runs = [read_run(make_run({1: [1.0]}, name=str(index), **each)) for index, each in enumerate(settings)]
    found = {(group.task, group.label): len(group.runs) for group in groups(runs)}
    assert found == {
        ("dmc/walker-run", "quick"): 1,
        ("dmc/walker-walk", "paper"): 1,
        ("dmc/walker-walk", "quick, critic.width 128, versions.mujoco 3.5.0"): 1,
        ("dmc/walker-walk", "quick, critic.width 128, versions.mujoco 3.6.0"): 2,
        ("dmc/walker-walk", "quick, critic.width 512, versions.mujoco 3.6.0"): 1,
    }


def test_a_group_without_evaluations_has_an_empty_curve(make_run):
    (group,) = groups([read_run(make_run({}, finished=False))])
    assert len(group.curve) == 0
