"""Bad data from an environment, and numbers that run away: named, kept out, and the last good state saved.

Steps that may be dropped are the subject of test_dropped_steps.py.
"""

import json
import os

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import Failure, SimbaV2
from simbav2.checkpoint import rotation
from simbav2.errors import BadStep, Diverged
from simbav2.experiments.report.runs import read_run
from simbav2.training import run

pytestmark = pytest.mark.usefixtures("empty_reports")

SETTINGS = {
    **TINY,
    "env_steps": 400,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 400,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 1_000,
}


class Broken(Chain):
    """A chain of five steps that goes wrong `how` after `after` steps in all."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, how: str = "", after: int = 10**9) -> None:
        super().__init__(5)
        self.how, self.after, self.taken = how, after, 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.how == "reset" and self.taken >= self.after:
            observation = np.full(2, np.nan, np.float32)
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.taken += 1
        if self.taken < self.after:
            return observation, reward, terminated, truncated, info
        match self.how:
            case "observation":
                observation = np.array([0, np.inf])
            case "wide observation":
                observation = np.array([0, 1e300])  # finite, but not in float32
            case "shape":
                observation = np.zeros(1)
            case "reward":
                reward = float("nan")
            case "large reward":
                reward = 1e300
            case "raise":
                raise OSError("the simulator is gone")
            case "exit":
                os._exit(7)
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("observation", "the observation is not finite"),
        ("wide observation", "the observation is not finite"),
        ("shape", r"ValueError: the observation has shape \(1,\), expected \(2,\)"),
        ("reward", "the reward is not finite"),
        ("large reward", "the reward is not finite"),
        ("raise", "OSError: the simulator is gone"),
    ],
)
def test_nothing_of_a_bad_step_is_kept(how, message):
    agent = SimbaV2(lambda: Broken(how, after=13), seed=4, **TINY)
    loop = agent.trainer
    loop.begin()
    for _ in range(12):
        loop.step()

    def kept():
        rows, random = loop.replay.export_rows(0, 12), loop.warmup_rng.bit_generator.state
        return agent.statistics, rows, random, loop.snapshot()

    before = kept()
    # Thirteen steps in episodes of five: the third step of the third episode, which is number two.
    with pytest.raises(BadStep, match=f"Broken, seed 4, episode 2, step 3: {message}"):
        loop.step()
    jax.tree.map(np.testing.assert_array_equal, kept(), before)
    assert (agent.decisions, loop.replay.added) == (12, 12)


def test_a_bad_first_observation_is_step_zero_of_the_episode_to_come():
    with pytest.raises(BadStep, match="Broken, seed 0, episode 0, step 0: the first observation is not finite"):
        SimbaV2(lambda: Broken("reset", after=0), **TINY).trainer.begin()
    loop = SimbaV2(lambda: Broken("reset", after=5), **TINY).trainer
    loop.begin()
    for _ in range(4):
        loop.step()
    with pytest.raises(BadStep, match="seed 0, episode 1, step 0: the first observation is not finite"):
        loop.step()
    assert loop.snapshot()["episodes"] == [0]


def test_which_of_several_environments_is_told():
    made = []

    def make() -> Broken:
        made.append(Broken("reward", after=7 if len(made) == 1 else 10**9))
        return made[-1]

    loop = SimbaV2(make, num_envs=2, **TINY).trainer
    loop.begin()
    for _ in range(6):
        loop.step()
    with pytest.raises(BadStep, match="seed 0, environment 1, episode 1, step 2: the reward"):
        loop.step()


def test_a_non_finite_action_never_reaches_the_environment():
    agent = SimbaV2(Broken, **TINY)
    agent.trainer.envs.reset()
    with pytest.raises(BadStep, match="episode 0, step 1: the action is not finite"):
        agent.trainer.envs.step(np.full((1, 1), np.nan, np.float32))


def test_a_worker_process_that_dies_is_noticed():
    vector = gym.vector.AsyncVectorEnv(
        [lambda: Broken("exit", after=9), Broken],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
        context="forkserver",
    )
    agent = SimbaV2(vector, **TINY)
    with pytest.raises(BadStep, match="0, episode 1, step 4: its worker process died with exit code 7"):
        agent.learn(100)
    assert agent.decisions == 16
    assert not any(process.is_alive() for process in vector.processes)
    agent.trainer.envs.close()


def test_a_run_with_a_bad_step_saves_the_last_good_state_and_goes_on_from_it(tmp_path):
    folder, attempts = tmp_path / "run", []

    def make() -> Broken:
        """Goes wrong in the first process only."""
        attempts.append(Broken("raise", after=333 if not attempts else 10**9))
        return attempts[-1]

    with pytest.raises(Failure, match="episode 66, step 3: OSError"):
        run.start(SimbaV2(make, **SETTINGS), folder)
    assert [path.name for path in rotation.checkpoints(folder)] == ["000000000332"]
    assert "episode 66, step 3: OSError" in json.loads((folder / "failure.json").read_text())["error"]
    assert read_run(folder).status == "failed"
    summary = run.resume(folder, env=make)
    assert read_run(folder).status == "finished"
    whole = run.start(SimbaV2(Broken, **SETTINGS), tmp_path / "whole")
    assert summary["params_sha256"] == whole["params_sha256"]
    for name in ("evaluations.csv", "metrics.jsonl"):
        assert (folder / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_a_run_whose_numbers_run_away_is_stopped_and_kept_for_inspection(tmp_path):
    folder = tmp_path / "run"
    settings = {**SETTINGS, "schedule.checkpoint_every": 250}
    agent = SimbaV2(Broken, **settings)
    learn = agent.learner.learn

    def poisoned(state, normalizer, batches):
        state, metrics = learn(state, normalizer, batches)
        if agent.decisions == 299:
            state = state._replace(target=jax.tree.map(lambda leaf: leaf * jnp.nan, state.target))
        return state, metrics

    agent.learner.learn = poisoned
    with pytest.raises(Diverged, match=r"not finite after 300 steps; saved .* in .*inspect.*lower learning"):
        run.start(agent, folder)
    assert [path.name for path in rotation.checkpoints(folder)] == ["000000000250"]
    kept = SimbaV2.load(folder / "inspect" / "000000000300", env=Broken)
    assert not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.state.target))
    # No row of it was written: the records stay plain JSON and numbers.
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["env_step"] for row in rows] == [100, 200]


def test_a_state_that_is_not_finite_is_never_a_checkpoint(tmp_path):
    agent = SimbaV2(Broken, **{**SETTINGS, "schedule.checkpoint_every": 250, "schedule.log_every": 400})
    learn = agent.learner.learn

    def poisoned(state, normalizer, batches):
        state, metrics = learn(state, normalizer, batches)
        return state, {**metrics, "critic_loss": jnp.float32(jnp.inf)}

    agent.learner.learn = poisoned
    with pytest.raises(Diverged, match="critic_loss is not finite after 250 steps"):
        run.start(agent, tmp_path / "run")
    assert rotation.checkpoints(tmp_path / "run") == []
