"""Runs with vector environments of users, and with workers: trained, evaluated, killed and resumed."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from short_runs import SETTINGS, TASK, results, rows, start
from sweep_plan import wait
from toys import TINY, Chain

from simbav2 import Agent, Callback, Failure, InputError
from simbav2.checkpoint import rotation
from simbav2.cli import main
from simbav2.envs.make import make_env
from simbav2.training import run

SAME_STEP = gym.vector.AutoresetMode.SAME_STEP
HEAVY = ("hbench/h1-walk", "dmc/dog-run")


# Not a function of this module: worker processes would import it, and JAX with it.
chain = partial(Chain, 7)


def sync() -> gym.vector.VectorEnv:
    return gym.vector.SyncVectorEnv([chain] * 2, autoreset_mode=SAME_STEP)


def in_processes() -> gym.vector.VectorEnv:
    return gym.vector.AsyncVectorEnv([chain] * 2, autoreset_mode=SAME_STEP, context="forkserver")


@pytest.mark.parametrize("make", [sync, in_processes])
def test_a_run_with_a_vector_environment_is_trained_evaluated_and_resumed(make, tmp_path, caplog):
    settings = {
        **TINY,
        "env_steps": 600,
        "schedule.log_every": 150,
        "schedule.evaluate_every": 300,
        "schedule.evaluation_episodes": 3,
    }
    folder, agent = tmp_path / "run", Agent(make, **settings)
    assert agent.config.num_envs == 2
    assert run.start(agent, folder, stop_after=300)["env_steps"] == 300
    agent.trainer.envs.close()
    with caplog.at_level("WARNING"):
        summary = run.resume(folder, env=make)
    assert (summary["env_steps"], summary["decisions"]) == (600, 600)
    (message,) = caplog.messages
    assert "cannot be put back into the middle of an episode: the resumed run starts new episodes" in message
    # Of three episodes, the first environment plays two.
    evaluations = rows(folder / "evaluations.csv")
    assert [row["env_step"] for row in evaluations] == ["0"] * 3 + ["300"] * 3 + ["600"] * 3
    assert {row["length"] for row in evaluations} == {"7"}
    again = Agent.load(folder, env=make)
    assert again.evaluate(5).lengths == (7,) * 5
    assert again.predict(np.zeros((2, 2)))[0].shape == (2, 1)


def test_the_number_of_environments_is_the_vectors_own():
    with pytest.raises(InputError, match="num_envs is 3, but SyncVectorEnv"):
        Agent(sync, **TINY, num_envs=3)
    assert Agent(sync, **TINY, num_envs=2).config.num_envs == 2
    closed = []

    class Vector(gym.vector.SyncVectorEnv):
        def close_extras(self, **named):
            closed.append(True)
            super().close_extras(**named)

    with pytest.raises(InputError, match="action_repeat is 2, but Vector"):
        Agent(lambda: Vector([chain], autoreset_mode=SAME_STEP), **TINY, action_repeat=2)
    assert closed  # what was made for nothing keeps no processes


def test_a_callable_is_called_once_for_each_environment():
    made = []

    def make() -> Chain:
        made.append(Chain(3))
        return made[-1]

    assert Agent(make, **TINY, num_envs=3).trainer.envs.num_envs == len(made) == 3


def test_a_vector_from_make_vec_is_made_again_for_evaluation():
    vector = gym.make_vec("Pendulum-v1", num_envs=2, vector_kwargs={"autoreset_mode": SAME_STEP})
    agent = Agent(vector, **TINY)
    agent.learn(4)
    assert agent.evaluate(3).lengths == (200,) * 3
    # Nobody else stepped the environments that are trained on.
    assert [env.get_wrapper_attr("_elapsed_steps") for env in vector.envs] == [2, 2]


# Workers: the results do not depend on where environments step. ---------------------------------------------


@pytest.mark.parametrize("task", [TASK, *(pytest.param(task, marks=pytest.mark.full) for task in HEAVY)])
def test_a_run_with_workers_that_is_killed_and_resumed_has_the_bits_of_one_process(task, tmp_path, empty_reports):
    try:
        make_env(task)
    except InputError as error:
        pytest.skip(str(error))
    folder, settings = tmp_path / "run", {**SETTINGS, "num_envs": 4}
    process = start(folder, "--num-envs=4", "--env-workers=2", "--evaluation-workers=2", task=task)
    wait(lambda: process.poll() is not None or len(rotation.checkpoints(folder)) > 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 4
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children), seconds=30)
    assert main(["resume", str(folder), "--env-workers=1", "--evaluation-workers=0"]) == 0  # other cores
    run.start(Agent(task, seed=1, **settings), tmp_path / "whole")
    assert results(folder) == results(tmp_path / "whole")


def test_a_run_whose_worker_dies_says_so_and_goes_on_from_there(tmp_path):
    settings = {**TINY, "env_steps": 600, "num_envs": 2, "schedule.evaluate_every": 600}

    class Kills(Callback):
        def on_step(self, agent):
            if agent.decisions == 400:
                agent.trainer.envs._workers[1].process.kill()

    folder = tmp_path / "run"
    with pytest.raises(Failure, match=r"Chain, seed 0, environment 1: worker process \d+ was killed by SIGKILL"):
        run.start(Agent(chain, **settings, env_workers=2), folder, callbacks=[Kills()])
    assert "environment 1: worker process" in json.loads((folder / "failure.json").read_text())["error"]
    assert run.start_or_resume(Agent(chain, **settings), folder)  # without workers
    run.start(Agent(chain, **settings), tmp_path / "whole")
    assert results(folder) == results(tmp_path / "whole")
