"""`agent.learn` and `agent.evaluate`: progress, schedules, evaluations and their environments."""

import logging
import subprocess
import sys

import gymnasium as gym
import jax
import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import Agent, Callback, InputError
from simbav2.checkpoint.checkpoint import params_sha256
from simbav2.envs.wrappers import episode_seed

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


def test_a_loaded_agent_keeps_its_schedule(tmp_path):
    Agent(lambda: Chain(3), **TINY).learn(40).save(tmp_path / "saved")
    assert Agent.load(tmp_path / "saved", env=lambda: Chain(3)).learn(5).config.env_steps == 40


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


def test_callbacks_are_told_of_dropped_steps():
    class Faulty(Chain):
        taken = 0

        def step(self, action):
            Faulty.taken += 1
            if Faulty.taken == 30:
                raise OSError("the simulator is gone")
            return super().step(action)

    diary = Diary()
    Agent(Faulty, **TINY, drop_bad_steps="any", **{"schedule.log_every": 20}).learn(60, [diary])
    assert [line.get("dropped_steps", 0) for line in diary.lines] == [0, 1, 1]


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
