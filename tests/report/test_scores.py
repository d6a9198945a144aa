from __future__ import annotations

import numpy as np
import pytest

from simbav2.envs.tasks import normalized_score
from simbav2.errors import InputError
from simbav2.experiments.report.methods import common_settings, methods, read_curves
from simbav2.experiments.report.runs import read_run
from simbav2.experiments.report.scores import mean_curve, run_curve, suite_curve


@pytest.mark.parametrize(
    ("task", "value", "score"),
    [
        ("dmc/walker-walk", 500.0, 0.5),  # 0 to 1000
        ("mujoco/Hopper-v4", 18.791, 0.0),
        ("mujoco/Hopper-v4", 3226.0, 1.0),
        ("Pendulum-v1", -150.0, None),
        ("d4rl/hopper-medium-v2", 3234.3, 100),
        ("d4rl/hopper-medium-v2", 1607.0138475, 50.0),  # half-way from -20.272305 to 3234.3
        ("d4rl/halfcheetah-medium-v2", -280.178953, 0.0),
        ("d4rl/walker2d-medium-expert-v2", 1.629008, 0),
        ("d4rl/antmaze-umaze-v2", 1.0, None),
    ],
)
def test_a_score_is_measured_from_random_to_reference(task, value, score):
    assert normalized_score(task, value) == (score if score is None else pytest.approx(score))


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
    (method,) = methods(map(read_run, folders))
    (trials,) = method.trials.values()
    assert [trial.seed for trial in trials] == [0, 1, 2]
    curve = mean_curve(trials)
    found = (curve.env_step, curve.mean, curve.low, curve.high, curve.averaged)
    assert found == (10_000, 3.0, 1.0, 5.0, "2 seeds")  # of 1 and 5
    assert len(mean_curve(trials[2:])) == 0


def test_only_runs_that_differ_in_the_seed_alone_are_averaged(make_run):
    settings = [
        {},
        {"seed": 1},
        {"critic": {"width": 512}},
        {"preset": "paper"},
        {"versions": {"mujoco": "3.5.0"}},
        {"task": "dmc/walker-run"},
        {"ablation": "a"},
    ]
    small = {"critic": {"width": 128}}
    runs = [read_run(make_run({1: [1.0]}, name=str(index), **small | each)) for index, each in enumerate(settings)]
    assert {
        method.label: {task: len(trials) for task, trials in method.trials.items()} for method in methods(runs)
    } == {
        "paper": {"dmc/walker-walk": 1},
        "quick, critic.width 128, versions.mujoco 3.5.0": {"dmc/walker-walk": 1},
        "quick, critic.width 128, versions.mujoco 3.6.0": {"dmc/walker-run": 1, "dmc/walker-walk": 2},
        "quick, critic.width 512, versions.mujoco 3.6.0": {"dmc/walker-walk": 1},
        "quick, ablation a": {"dmc/walker-walk": 1},
    }


def test_a_run_that_lacks_a_new_setting_is_averaged_with_one_that_has_its_default(make_run):
    old = make_run({1: [1.0]}, name="old", schedule={"measure_every": 1_000}, versions={"simbav2": "0.1.0"})
    new = make_run({1: [1.0]}, name="new", seed=1, drop_bad_steps="diverged", versions={"simbav2": "0.2.0"})
    other = make_run({1: [1.0]}, name="other", seed=2, drop_bad_steps="never")
    assert [len(method.runs) for method in methods(map(read_run, (old, new, other)))] == [2, 1]


def test_a_method_is_named_by_its_preset_and_what_was_given(make_run):
    given = {"quick": {"tau": 0.01, "seed": 3}, "paper": {"tau": 0.01, "critic.width": 64}}
    runs = [read_run(make_run({1: [1.0]}, name=name, preset=name, settings=given[name])) for name in given]
    assert [method.label for method in methods(runs)] == ["paper, critic.width 64", "quick"]
    assert common_settings(methods(runs)) == {"tau": 0.01}  # what all share is told once
    assert [method.label for method in methods(runs[:1])] == ["quick, tau 0.01"]


def test_what_follows_from_the_task_does_not_split_a_method(make_run):
    facts = [
        {"task": "mujoco/Hopper-v4", "updates_per_decision": 1.0, "critic": {"num_critics": 2}},
        {"task": "dmc/walker-walk", "updates_per_decision": 2.0, "observation_order": "sorted"},
    ]
    runs = [read_run(make_run({1: [1.0]}, name=str(index), **each)) for index, each in enumerate(facts)]
    (method,) = methods(runs)
    assert list(method.trials) == ["mujoco/Hopper-v4", "dmc/walker-walk"]
    # On one task they would be two experiments.
    again = read_run(make_run({1: [1.0]}, name="2", **{**facts[1], "task": "mujoco/Hopper-v4"}))
    assert all(len(trials) == 1 for method in methods([*runs, again]) for trials in method.trials.values())
    assert len(methods([*runs, again])) == 3


def test_the_label_of_a_method_does_not_repeat_what_follows_from_its_data(make_run):
    runs = [
        read_run(
            make_run(
                {1: [1.0]},
                name=name,
                data=data,
                discount=gamma,
                optimizer={"kind": "AdamW", "weight_decay": decay},
            )
        )
        for name, gamma, decay in (("a.hdf5", 0.99, 0.01), ("b.hdf5", 0.995, 0.02))
        for data in [{"source": name, "sha256": name, "transitions": 1_000}]
    ]
    assert [method.label for method in methods(runs)] == [
        "quick, optimizer.weight_decay 0.01",
        "quick, optimizer.weight_decay 0.02",
    ]


def test_scores_are_runs_by_tasks(make_run):
    runs = [
        read_run(make_run({1: [500.0]}, name="a")),
        read_run(make_run({1: [700.0]}, name="b", seed=1)),
        read_run(make_run({1: [900.0]}, name="c", task="dmc/dog-run")),
        read_run(make_run({1: [100.0]}, name="d", task="dmc/dog-run", seed=1, finished=False)),
    ]
    (method,) = methods(runs)
    scores = method.scores(list(method.trials))
    np.testing.assert_allclose(scores, [[0.5, 0.9], [0.7, np.nan]])  # walker-walk, dog-run
    assert method.scores(["dmc/dog-walk"]).shape == (0, 1)


def test_the_curve_of_a_suite_is_of_normalised_means(make_run):
    runs = [
        read_run(make_run({1: [500.0], 2: [700.0]}, name="a")),
        read_run(make_run({2: [100.0], 3: [100.0]}, name="b", task="dmc/dog-run")),
    ]
    (method,) = methods(runs)
    curve = suite_curve(method, ["dmc/walker-walk", "dmc/dog-run"])
    np.testing.assert_array_equal(curve.env_step, [2])
    np.testing.assert_allclose(curve.mean, [0.4])
    assert curve.averaged == "2 tasks, 1 seed"


CURVES = """,exp_name,env_name,seed,metric,env_step,value
0,simba,dog_trot,1,avg_return,0.0,10.0
1,simba,dog_trot,1,avg_return,50000.0,64.5
2,simba,dog_trot,1,avg_success,50000.0,0.0
3,simba,h1_walk_v0,2,avg_return,50000.0,7.0
4,simba,myo-reach,1,avg_return,50000.0,-9.0
5,simba,myo-reach,1,avg_success,50000.0,0.7
6,odd,cartpole-balance_sparse,0,avg_return,5.0,3.0
7,odd,dmc-walker-run,0,episode_return,5.0,4.0
8,odd,mujoco/Ant-v4,0,return,5.0,5.0
"""


def test_the_authors_files_are_read_by_our_task_ids(tmp_path):
    (tmp_path / "curves.csv").write_text(CURVES)
    simba, odd = read_curves(tmp_path / "curves.csv")
    assert list(simba.trials) == ["dmc/dog-trot", "myosuite/myo-reach", "hbench/h1-walk"]
    np.testing.assert_array_equal(simba.trials["dmc/dog-trot"][0].curve.mean, [10.0, 64.5])
    assert simba.trials["myosuite/myo-reach"][0].final == 0.7  # success, not return
    assert (simba.trials["hbench/h1-walk"][0].seed, odd.label) == (2, "odd")
    assert list(odd.trials) == ["mujoco/Ant-v4", "dmc/cartpole-balance-sparse", "dmc/walker-run"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "lacks the column 'exp_name'"),
        ("exp_name,env_name,seed,metric,env_step,value\nx,y,0,avg_return,1,high\n", "line 2: could not convert"),
        ("exp_name,env_name,seed,metric,env_step,value\nx,y,0,other,1,2\n", "no row with the metric"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_of_curves_is_refused(tmp_path, text, complaint):
    if text is not None:
        (tmp_path / "curves.csv").write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_curves(tmp_path / "curves.csv")
