import pytest

from simbav2.envs import check
from simbav2.envs.check import Attempt, attempt, missing
from simbav2.envs.tasks import tasks
from simbav2.errors import InputError


def test_a_task_that_works_is_stepped_as_often_as_asked(monkeypatch):
    from simbav2.envs import wrappers

    steps = []
    step = wrappers.EpisodeSeeds.step
    monkeypatch.setattr(wrappers.EpisodeSeeds, "step", lambda env, action: steps.append(1) or step(env, action))
    hopper = tasks("mujoco")[2]  # falls within the fifty steps
    assert attempt(hopper) == Attempt("mujoco/Hopper-v4", "mujoco", True)
    assert len(steps) == check.STEPS == 50


@pytest.mark.parametrize(
    ("error", "problem", "remedy"),
    [
        (
            InputError("mujoco/Ant-v4 cannot be built (a; b); pip install c"),
            "cannot be built (a; b)",
            "pip install c",
        ),
        (OSError("broken"), "OSError('broken')", "pip install --force-reinstall simbav2"),
    ],
)
def test_what_stands_in_the_way_is_told_with_its_remedy(monkeypatch, error, problem, remedy):
    def fail(name):
        raise error

    monkeypatch.setattr("simbav2.envs.make.make_env", fail)
    assert attempt(tasks("mujoco")[0]) == Attempt("mujoco/Ant-v4", "mujoco", False, problem, remedy)


def test_a_suite_is_missing_when_none_of_its_tasks_works():
    tried = [
        Attempt("a/1", "a", False, "one of two"),
        Attempt("a/2", "a", True),
        Attempt("b/1", "b", False, "first"),
        Attempt("b/2", "b", False, "second"),
    ]
    assert [one.problem for one in missing(tried)] == ["first"]
