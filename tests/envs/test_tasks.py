import subprocess
import sys
from types import SimpleNamespace

import pytest

from simbav2 import make_env
from simbav2.cli import main
from simbav2.envs import tasks as benchmark
from simbav2.envs.tasks import SUITES, Suite, Task, families, find, normalized_score, tasks
from simbav2.errors import InputError


def test_every_task_has_one_row():
    ids = [task.id for task in tasks()]
    assert len(set(ids)) == len(ids)
    assert len(ids) == 57
    assert [len(tasks(suite)) for suite in SUITES] == [5, 21, 7, 10, 14]


def test_a_suite_is_chosen_by_its_name_or_by_the_id_prefix():
    assert tasks("dmc") == tasks("dmc-easy") + tasks("dmc-hard")
    assert {task.suite for task in tasks()} == set(SUITES)
    assert {task.family for task in tasks()} == set(families())
    assert all(task.id == f"{task.family}/{task.name}" for task in tasks())


def test_a_normalized_score_is_0_for_random_and_1_for_the_reference():
    assert normalized_score("mujoco/Hopper-v4", 18.791) == 0.0
    assert normalized_score("mujoco/Hopper-v4", 3226.0) == find("mujoco/Hopper-v4").normalized(3226.0) == 1.0
    assert normalized_score("dmc/walker-walk", 962.0) == 0.962
    assert normalized_score("Pendulum-v1", 1.0) is None


def test_a_suite_is_added_by_a_row_and_a_module(monkeypatch, capsys):
    def build(task, render_mode):
        return make_env("Pendulum-v1").unwrapped

    task = Task("toys/pendulum", "toys", 3, 1, 1, 200, False, "return", -1200.0, -150.0)
    suite = Suite("Toys", "share of the best", "return", "toy_suite", 1e-5, False, extra="toys")
    monkeypatch.setitem(benchmark.SUITES, "toys", suite)
    monkeypatch.setitem(benchmark.TASKS, task.id, task)
    with pytest.raises(InputError, match=r"toys/pendulum cannot be built .*; pip install 'simbav2\[toys\]'"):
        make_env("toys/pendulum")
    monkeypatch.setitem(sys.modules, "toy_suite", SimpleNamespace(build=build))
    assert tasks("toys") == (task,)
    assert make_env("toys/pendulum").reset()[0].shape == (3,)
    with pytest.raises(InputError, match="did you mean 'toys/pendulum'"):
        find("toys/pendlum")
    assert main(["tasks", "toys", "--check"]) == 0
    assert "1 of 1 tasks work" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["dmc/cheeta-run", "dmc/cheetah_run", "dmc/cheetah", "mujoco/cheetah-run"])
def test_a_wrong_id_names_the_nearest_right_one(name):
    with pytest.raises(InputError, match=f"unknown task '{name}'.*did you mean 'dmc/cheetah-run'"):
        find(name)
    assert find("ALE/Pong-v5") is None
    with pytest.raises(InputError, match=r"unknown suite 'dmc-hrad'.*did you mean 'dmc-hard'"):
        tasks("dmc-hrad")


def test_listing_the_tasks_loads_nothing_heavy():
    code = "import sys, simbav2.envs.tasks; print(*{'numpy', 'gymnasium', 'mujoco', 'jax'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
