import subprocess
import sys

import pytest

from simbav2.envs.tasks import SUITES, families, find, tasks
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
