"""Agents that were trained before: new episodes, runs that begin with them, environments they do not fit."""

import json
import shutil

import gymnasium as gym
import jax
import numpy as np
import pytest
from mutations import digest, env, honest_run, resign
from short_runs import load_trainer
from toys import TINY, Chain

from simbav2 import CheckpointError, InputError, SimbaV2, actor_critic
from simbav2.checkpoint import rotation
from simbav2.learner import Learner
from simbav2.training import run
from simbav2.training.make_dataset import experience


class Paid(Chain):
    """Every step pays 10; episodes of 20 steps."""

    def __init__(self) -> None:
        super().__init__(20)

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 10.0, terminated, truncated, info


def test_the_running_return_starts_at_zero_with_the_episodes_of_a_loaded_agent(tmp_path):
    agent = SimbaV2(Paid, **TINY, discount=0.9).learn(210)
    assert agent.statistics.returns.running[0] > 60  # in the middle of an episode
    agent.save(tmp_path / "agent")
    again = SimbaV2.load(tmp_path / "agent", env=Paid)
    largest = again.statistics.returns.largest
    again.learn(1)
    assert again.statistics.returns.running[0] == 10
    again.learn(100)
    assert again.statistics.returns.largest == pytest.approx(largest)


def test_a_second_loop_does_not_join_two_episodes():
    """The step before it led to the end of its episode, not to the first observation of the next."""
    agent = SimbaV2(Paid, **TINY).learn(5)
    followed = agent.trainer.replay.head.copy()
    agent.trainer.begin()
    assert not np.array_equal(agent.trainer.replay.head, followed)
    np.testing.assert_array_equal(agent.trainer.replay._transitions(np.array([4])).next_observation, followed)


def trained(folder, steps=150):
    SimbaV2(env, **TINY, **{"env_steps": 500, "schedule.checkpoint_every": 100}).learn(steps).save(folder)
    return SimbaV2.load(folder, env)


def test_a_run_that_began_with_a_loaded_agent_is_resumed_to_the_same_bits(tmp_path):
    run.start(trained(tmp_path / "agent"), tmp_path / "whole")
    run.start(SimbaV2.load(tmp_path / "agent", env), tmp_path / "run", stop_after=230)
    saved, _ = rotation.load_run(tmp_path / "run")
    assert (saved.env_steps, saved.replay.added) == (230, 80)
    run.resume(tmp_path / "run", stop_after=500, env=env)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")


def test_a_loaded_agent_is_saved_before_its_first_step(tmp_path):
    """A kill before the next checkpoint must not let the run begin with a new agent."""
    agent = trained(tmp_path / "agent")
    run.start(agent, tmp_path / "run", stop_after=170)
    first = rotation.checkpoints(tmp_path / "run")[-1]
    assert int(first.name) == 150
    whole = digest(tmp_path / "run")
    for path in rotation.checkpoints(tmp_path / "run")[:-1]:
        shutil.rmtree(path)
    run.resume(tmp_path / "run", stop_after=170, env=env)
    assert digest(tmp_path / "run") == whole


def test_the_experience_of_a_run_that_began_with_a_loaded_agent(tmp_path):
    run.start(trained(tmp_path / "agent"), tmp_path / "run", stop_after=230)
    assert sum(len(episode.reward) for episode in experience(tmp_path / "run", 200)) == 50


def edit_checkpoint(folder, name, change):
    """Change a JSON file of the only checkpoint, under sums that are right."""
    (path,) = rotation.checkpoints(folder)
    data = json.loads((path / name).read_text())
    change(data)
    (path / name).write_text(json.dumps(data))
    resign(folder)


def test_checkpoints_that_do_not_say_what_the_replay_holds_are_still_loaded(tmp_path):
    folder = honest_run(tmp_path / "run")
    before = digest(folder)
    edit_checkpoint(folder, "state.json", lambda state: state.pop("replay_steps"))
    assert digest(folder) == before


def test_a_checkpoint_in_the_place_of_another_is_refused(tmp_path):
    folder = honest_run(tmp_path / "run")
    (path,) = rotation.checkpoints(folder)
    path.rename(path.with_name("000000000400"))
    with pytest.raises(CheckpointError, match="its steps are 500, the folder is of 400"):
        rotation.load_run(folder)


def test_resuming_builds_one_learner_and_draws_no_weights(tmp_path, monkeypatch):
    folder, made = honest_run(tmp_path / "run"), []

    class Counted(Learner):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self.init)
            self.init = self.shapes_only

        def shapes_only(self, key):
            assert isinstance(key, jax.core.Tracer)
            return made[-1](key)

    monkeypatch.setattr(actor_critic, "Learner", Counted)
    actor_critic._programs.cache_clear()
    try:
        trainer, _ = load_trainer(folder, env)
        assert (len(made), trainer.agent.env_steps) == (1, 500)
    finally:
        actor_critic._programs.cache_clear()


class Wide(Chain):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def _observation(self):
        return np.zeros(3, np.float32)


def test_an_environment_of_other_sizes_is_refused_when_it_is_given(tmp_path):
    agent = SimbaV2(Chain, **TINY)
    agent.save(tmp_path / "agent")
    vector = gym.vector.SyncVectorEnv([Wide], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    expected = "learned Chain, with 2 observations and 1 actions; .* has 3 and 1: give"
    for given in (Wide, Wide(), vector, "Pendulum-v1"):
        with pytest.raises(InputError, match=expected) as caught:
            SimbaV2.load(tmp_path / "agent", env=given)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("saved", [True, False], ids=["from a checkpoint", "from its beginning"])
def test_resume_refuses_an_environment_of_other_sizes(tmp_path, saved):
    folder = honest_run(tmp_path / "run")
    if not saved:
        (folder / "summary.json").unlink()
        shutil.rmtree(folder / "checkpoints")
    with pytest.raises(InputError, match="with 2 observations and 1 actions; Wide has 3 and 1"):
        run.resume(folder, env=Wide)


def test_a_policy_of_the_old_observation_order_is_not_shown_the_new_one(tmp_path):
    SimbaV2("dmc/walker-walk", **TINY).save(tmp_path / "checkpoints" / "0")
    assert SimbaV2.load(tmp_path).trainer.envs.observation_size == 24
    edit_checkpoint(tmp_path, "config.json", lambda config: config.pop("observation_order"))
    agent = SimbaV2.load(tmp_path)
    assert agent.predict(np.zeros(24, np.float32))[0].shape == (6,)  # its owner may know the order
    for attempt in (agent.trainer.make_evaluation_envs, lambda: SimbaV2.load(tmp_path, "dmc/walker-walk")):
        with pytest.raises(InputError, match="in dm_control's own order; now they are sorted by key"):
            attempt()
