"""Learning, evaluating, and learning on after a load: schedules, progress, episodes, unfit environments."""

import logging
import shutil
import subprocess
import sys

import gymnasium as gym
import jax
import numpy as np
import pytest
from mutations import digest, env, honest_run
from short_runs import edit, load_trainer
from toys import TINY, Chain

from simbav2 import Agent, Callback, CheckpointError, InputError, SimbaV2, actor_critic
from simbav2.checkpoint import rotation
from simbav2.checkpoint.checkpoint import params_sha256
from simbav2.envs.wrappers import episode_seed
from simbav2.learner import Learner
from simbav2.training import run
from simbav2.training.make_dataset import experience

DECAY = {
    **{name: value for name, value in TINY.items() if not name.startswith("learning_rate")},
    "warmup_decisions": 20,
    "updates_per_decision": 1,
    "learning_rate": "LinearDecay",
    "learning_rate.initial": 1e-3,
    "learning_rate.final": 1e-5,
}


class Diary(Callback):
    def __init__(self) -> None:
        self.lines: list[dict[str, float]] = []
        self.evaluations: list[tuple[int, list]] = []

    def on_metrics(self, agent, metrics):
        self.lines.append(dict(metrics))

    def on_evaluation(self, agent, episodes):
        self.evaluations.append((agent.env_steps, list(episodes)))


def rates(diary: Diary) -> list[float]:
    return [line["learning_rate"] for line in diary.lines if "learning_rate" in line]


# Schedules. --------------------------------------------------------------------------------------------------


def test_the_first_call_makes_the_schedule_unless_env_steps_was_given():
    free, diary = Agent(lambda: Chain(3), **DECAY), Diary()
    free.learn(120, [diary])
    assert free.config.env_steps == 120
    # 101 updates (that after the last random action counts), on a schedule of 100.
    assert rates(diary)[-1] == pytest.approx(1e-5, rel=1e-3)
    free.learn(50)
    assert free.config.env_steps == 120

    bound, diary = Agent(lambda: Chain(3), **DECAY, env_steps=1_020), Diary()
    bound.learn(120, [diary])
    assert bound.config.env_steps == 1_020
    assert rates(diary)[-1] == pytest.approx(1e-3 - 0.1 * (1e-3 - 1e-5), rel=1e-3)
    assert Agent(lambda: Chain(3), **DECAY, **{"env-steps": 77}).learn(5).config.env_steps == 77


def test_a_first_call_too_short_for_an_update_is_refused(tmp_path):
    """Otherwise the saved agent would have a config that no load accepts."""
    agent = Agent(lambda: Chain(3), **TINY, updates_per_decision=0.01)
    with pytest.raises(InputError, match="the first update comes after 100 decisions, and the run has 5"):
        agent.learn(5)
    agent.learn(100).save(tmp_path / "saved")
    assert Agent.load(tmp_path / "saved").config.env_steps == 100
    assert Agent.load(tmp_path / "saved", env=lambda: Chain(3)).learn(5).config.env_steps == 100
    with pytest.raises(InputError, match="env_steps is 0; expected at least 1"):
        agent.learn(0)


# Progress. ---------------------------------------------------------------------------------------------------


def test_progress_is_logged_and_the_first_line_tells_the_schedule(caplog):
    agent = Agent(lambda: Chain(3), **DECAY, **{"schedule.log_every": 50})
    agent.learn(120)
    first, *lines = [record.getMessage() for record in caplog.records if record.name == "simbav2"]
    assert "learning for 120 steps; schedules are made for 120 steps (learning rate 0.001 to 1e-05)" in first
    assert "after 20 random actions" in first
    assert [line.split()[2] for line in lines] == ["50/120", "100/120", "120/120"]
    assert "updates/s" in lines[0]
    caplog.clear()
    agent.learn(30, progress=False)
    assert not caplog.records
    agent.learn(1)
    assert "schedules are made for 120 steps" in caplog.records[0].getMessage()
    assert logging.getLogger("simbav2").level == logging.NOTSET


def test_progress_is_seen_in_a_program_that_sets_up_no_logging():
    code = (
        "import simbav2, logging\n"
        "agent = simbav2.Agent('Pendulum-v1', **{'actor.width': 8, 'critic.width': 8}).learn(5)\n"
        "assert not logging.getLogger('simbav2').handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.strip().splitlines()[-2:]
    assert "Pendulum-v1: learning for 5 steps; schedules are made for 5 steps" in first
    assert "step 5/5" in second


# Evaluations while learning. -----------------------------------------------------------------------------------


def test_callbacks_are_told_of_metrics_and_evaluations_and_nothing_is_disturbed():
    settings = {**TINY, "schedule.log_every": 100, "schedule.evaluation_episodes": 3}
    diary = Diary()
    watched = Agent(lambda: Chain(3), **settings).learn(450, [diary], evaluate_every=200)
    assert [step for step, _ in diary.evaluations] == [200, 400, 450]
    assert all(len(episodes) == 3 and episodes[0].length == 3 for _, episodes in diary.evaluations)
    trained = [line["env_step"] for line in diary.lines if "critic_loss" in line]
    assert trained == [200, 300, 400, 450]
    assert [line["env_step"] for line in diary.lines if "evaluation/q" in line] == [200, 400, 450]
    silent, diary = Agent(lambda: Chain(3), **settings), Diary()
    assert params_sha256(silent.learn(450, [diary])) == params_sha256(watched)
    assert not diary.evaluations


def test_the_evaluation_environment_may_be_another():
    diary, made = Diary(), []

    def longer() -> Chain:
        made.append(Chain(7))
        return made[-1]

    agent = Agent(Chain(3), **TINY, **{"schedule.evaluation_episodes": 1, "schedule.evaluate_every": 10})
    agent.learn(20, [diary], evaluation_env=longer)
    assert [(step, episode.length) for step, (episode,) in diary.evaluations] == [(10, 7), (20, 7)]
    assert len(made) == 1
    with pytest.raises(InputError, match="is trained on; give another environment"):
        agent.learn(20, evaluation_env=agent.source)
    with pytest.raises(InputError, match="evaluate_every is 0"):
        agent.learn(20, evaluate_every=0)
    with pytest.raises(InputError, match="with 2 observations and 1 actions; Pendulum-v1 has 3 and 1: give"):
        agent.learn(20, evaluation_env="Pendulum-v1", evaluate_every=10)


# agent.evaluate. -----------------------------------------------------------------------------------------------


class Countdown(gym.Env):
    """The return is the first random number of the episode; success where it is above a half."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.worth, self.left = self.np_random.uniform(), 2
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        reward = 0.0 if self.left else self.worth
        return np.zeros(1, np.float32), reward, False, not self.left, {"success": self.worth > 0.5}

    def close(self):
        self.closed = True


def test_evaluate_tells_mean_deviation_lengths_and_success():
    agent = Agent(Countdown, **TINY)
    found = agent.evaluate(episodes=6)
    seeds = [episode_seed(agent.evaluation_seed, 0, number) for number in range(6)]
    worth = [np.random.Generator(np.random.PCG64(seed)).uniform() for seed in seeds]
    assert found.mean_return == pytest.approx(np.mean(worth))
    assert found.std_return == pytest.approx(np.std(worth))
    assert found.success == np.mean(np.array(worth) > 0.5)
    assert found.lengths == (2,) * 6
    assert [episode.total for episode in found.episodes] == pytest.approx(worth)
    assert agent.evaluate(6) == found
    assert agent.evaluate(6, seed=5).mean_return != found.mean_return
    with pytest.raises(InputError, match="episodes is 0"):
        agent.evaluate(0)


def test_one_environment_is_made_again_from_its_spec_or_asked_for():
    trained_on = gym.make("Pendulum-v1")
    agent = Agent(trained_on, **TINY)
    agent.learn(3)
    agent.evaluate(1)
    assert trained_on.get_wrapper_attr("_elapsed_steps") == 3  # nobody else stepped it

    nameless = Countdown()
    agent = Agent(nameless, **TINY)
    with pytest.raises(InputError, match=r"no spec to make it from; give one \(`env=` of evaluate") as caught:
        agent.evaluate(2)
    assert "\n" not in str(caught.value)
    other = Countdown()
    assert len(agent.evaluate(2, env=other).episodes) == 2
    assert not other.closed

    class Unrecorded(gym.Wrapper):
        pass

    with pytest.raises(InputError, match="no spec to make it from"):
        Agent(Unrecorded(gym.make("Pendulum-v1")), **TINY).evaluate(1)


def test_the_environment_trained_on_may_be_evaluated_in_and_training_starts_a_new_episode():
    env = Chain(5)
    agent = Agent(env, **TINY).learn(12)
    assert agent.evaluate(2, env=env).lengths == (5, 5)
    assert agent.evaluate(1, env=lambda: Chain(5)).lengths == (5,)  # this one has nothing to do with training
    agent.learn(5)
    # 12 = 2 * 5 + 2: the third episode ended with the evaluation, the fourth took five steps.
    assert env.at == 0
    assert agent.trainer.replay.added == 17
    assert agent.trainer.envs.episodes == [4]
    assert np.isfinite(jax.tree.leaves(agent.trainer.replay.sample(1, 8, np.random.default_rng(0)))[0]).all()


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


def test_checkpoints_that_do_not_say_what_the_replay_holds_are_still_loaded(tmp_path):
    folder = honest_run(tmp_path / "run")
    before = digest(folder)
    edit(rotation.checkpoints(folder)[0], "state.json", lambda state: state.pop("replay_steps"))
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
    edit(tmp_path / "checkpoints" / "0", "config.json", lambda config: config.pop("observation_order"))
    agent = SimbaV2.load(tmp_path)
    assert agent.predict(np.zeros(24, np.float32))[0].shape == (6,)  # its owner may know the order
    for attempt in (agent.trainer.make_evaluation_envs, lambda: SimbaV2.load(tmp_path, "dmc/walker-walk")):
        with pytest.raises(InputError, match="in dm_control's own order; now they are sorted by key"):
            attempt()
