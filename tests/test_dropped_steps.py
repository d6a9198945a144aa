"""A failed environment step is dropped: the run continues, nothing is learned from the step, and it is counted."""

import json
import logging
from functools import partial

import gymnasium as gym
import jax
import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import SimbaV2
from simbav2.checkpoint import checkpoint, rotation
from simbav2.cli import main
from simbav2.config import Config, override
from simbav2.envs.dmc import ControlSuite
from simbav2.envs.vector import START_ATTEMPTS, check_dropped, make_vector_env
from simbav2.errors import BadStep, SimulationDiverged
from simbav2.normalization import RunningStatistics
from simbav2.training import make_dataset, run
from simbav2.training.evaluate import evaluate

SETTINGS = {
    **TINY,
    "env_steps": 400,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 400,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 1_000,
}


class Unstable(Chain):
    """A chain of five steps that pays 1 for each; a few episodes, known by their seed, diverge in their third."""

    limit = 0.92  # of a number in [-1, 1]: one episode in 25

    def __init__(self, limit: float = limit) -> None:
        super().__init__(5)
        self.limit = limit

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        if self.at == 3 and self.noise > self.limit:
            raise SimulationDiverged("qpos is NaN")
        return observation, 1.0, terminated, truncated, info


class Faulty(Chain):
    """A chain of five steps that goes wrong `how` in the steps numbered `when`, counted over all episodes."""

    def __init__(self, how: str = "", when: tuple[int, ...] = ()) -> None:
        super().__init__(5)
        self.how, self.when, self.taken, self.resets = how, when, 0, 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.resets += 1
        if self.how == "reset" and self.resets in self.when:
            observation = observation * np.nan
        return observation, info

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        reward = 1.0
        self.taken += 1
        if self.taken in self.when:
            match self.how:
                case "observation":
                    observation = np.array([0, np.inf])
                case "shape":
                    observation = np.zeros(1)
                case "reward":
                    reward = float("nan")
                case "raise":
                    raise OSError("the simulator is gone")
        return observation, reward, terminated, truncated, info


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if "dropped a failed step" in record.getMessage()]


# The simulators. ------------------------------------------------------------------------------------------


@pytest.fixture
def diverging_cartpole(monkeypatch):
    """dm_control's cartpole; where stepped first, its velocities become NaN in simulator steps 37 and 402."""
    step, made = ControlSuite.step, []

    def diverging(self, action):
        made.append(self) if self not in made else None
        self.taken = getattr(self, "taken", 0) + 1
        if self is made[0] and self.taken in (37, 402):
            self.data.qvel[:] = np.nan
        return step(self, action)

    monkeypatch.setattr(ControlSuite, "step", diverging)


CARTPOLE = {
    **SETTINGS,
    "env_steps": 600,
    "warmup_decisions": 100,
    "schedule.evaluate_every": 600,
    "updates_per_decision": 0.1,
}


def test_a_physics_error_of_dm_control_does_not_end_a_run(diverging_cartpole, tmp_path, monkeypatch, caplog):
    # Evaluation comes first in a run and would be the first to step; training is what is looked at.
    monkeypatch.setattr("simbav2.training.trainer.evaluate", lambda agent, envs, *_: [])
    monkeypatch.setattr("simbav2.training.logger.RunLogger.evaluation", lambda *_: None)
    agent = SimbaV2("dmc/cartpole-swingup", **CARTPOLE)
    with caplog.at_level(logging.WARNING, "simbav2"):
        summary = run.start(agent, tmp_path / "run")
    assert (summary["env_steps"], summary["dropped_steps"]) == (600, 2)
    # Two simulator steps a decision, of which the 19th takes only one: step 402 belongs to the 183rd after it.
    assert [message.split(": ", 2)[2] for message in messages(caplog)] == [
        "dmc/cartpole-swingup, seed 0, episode 0, step 19: "
        "SimulationDiverged: Physics state is invalid. Warning(s) raised: mjWARN_BADQVEL",
        "dmc/cartpole-swingup, seed 0, episode 1, step 183: "
        "SimulationDiverged: Physics state is invalid. Warning(s) raised: mjWARN_BADQVEL",
    ]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("dropped_steps") for line in lines] == [1, 1, 1, 1, 2, 2]
    assert [warning["name"] for warning in summary["warnings"]].count("steps dropped") == 1
    np.testing.assert_array_equal(agent.trainer.replay.export_rows(0, 300)["dropped"], [18, 201])
    assert np.isfinite(agent.trainer.replay.observation).all()


def test_never_stops_at_the_first(diverging_cartpole):
    agent = SimbaV2("dmc/cartpole-swingup", **TINY, drop_bad_steps="never")
    with pytest.raises(BadStep, match=r"episode 0, step 19: SimulationDiverged: Physics state is invalid"):
        agent.learn(100)
    assert agent.decisions == 18


@pytest.mark.parametrize("which", ["diverged", "any", "never"])
def test_a_value_of_a_benchmark_task_that_is_not_finite_counts_as_diverged(which):
    """MuJoCo resets such a state by itself: Gymnasium's Hopper then has a finite observation, but no reward."""
    with make_vector_env("mujoco/Hopper-v4", drop_bad_steps=which) as envs:
        envs.reset()
        envs._members[0].unwrapped.data.qpos[:] = np.nan
        if which == "never":
            with pytest.raises(BadStep, match="episode 0, step 1: the reward is not finite"):
                envs.step(np.zeros((1, 3), np.float32))
            return
        step = envs.step(np.zeros((1, 3), np.float32))
        assert (step.dropped.tolist(), step.reward.tolist(), envs.episodes) == ([True], [0.0], [1])
        assert not (step.terminated | step.truncated).any()
        envs.episodes = [1]
        np.testing.assert_array_equal(step.observation, envs.reset())


# Whole runs. ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 2])
def whole(request, tmp_path_factory):
    """An uninterrupted run with dropped steps: its settings, summary, and the decisions with a dropped step."""
    settings = {**SETTINGS, "num_envs": request.param}
    agent = SimbaV2(Unstable, **settings)
    summary = run.start(agent, tmp_path_factory.mktemp("runs") / "whole")
    rows = agent.trainer.replay.export_rows(0, agent.trainer.replay.added)["dropped"]
    return settings, summary, (rows // request.param + 1) * request.param


def test_a_resumed_run_passes_the_fault_and_ends_with_the_same_bits(whole, tmp_path):
    settings, summary, decisions = whole
    assert summary["dropped_steps"] == len(decisions) >= 2
    # Right after a dropped step, which the checkpoint itself then holds, and in the middle of an episode after it.
    for stop in (int(decisions[0]), int(decisions[-1]), int(decisions[0]) + 2 * settings["num_envs"]):
        folder = tmp_path / str(stop)
        assert run.start(SimbaV2(Unstable, **settings), folder, stop_after=stop)["env_steps"] == stop
        again = run.resume(folder, env=Unstable, stop_after=400)
        for name in ("params_sha256", "dropped_steps", "final_return"):
            assert again[name] == summary[name], name


def test_learn_drops_the_same_steps(whole):
    settings, summary, _ = whole
    agent = SimbaV2(Unstable, **settings).learn(400)
    assert checkpoint.params_sha256(agent) == summary["params_sha256"]


def test_a_run_whose_steps_fail_too_often_stops_with_its_state_saved(tmp_path):
    folder = tmp_path / "run"
    message = (
        r"seed 0: 11 of 33 environment steps failed and were dropped, more than 1%; fix the environment, "
        r"then resume; the last: episode 10, step 3: SimulationDiverged: qpos is NaN"
    )
    with pytest.raises(BadStep, match=message):  # every third step fails
        run.start(SimbaV2(lambda: Unstable(limit=-2), **SETTINGS), folder)
    assert [path.name for path in rotation.checkpoints(folder)] == ["000000000033"]
    assert "11 of 33" in json.loads((folder / "failure.json").read_text())["error"]
    summary = run.resume(folder, env=lambda: Unstable(limit=2))  # now repaired
    assert (summary["env_steps"], summary["dropped_steps"]) == (400, 11)


def test_too_often_is_more_than_ten_and_more_than_one_in_a_hundred():
    with make_vector_env(Unstable) as envs:
        check_dropped(10, 10, envs)
        check_dropped(11, 1_100, envs)
        with pytest.raises(BadStep, match="11 of 1,099"):
            check_dropped(11, 1_099, envs)


def test_logs_are_not_flooded(caplog):
    with make_vector_env(lambda: Unstable(limit=-2)) as envs, caplog.at_level(logging.WARNING, "simbav2"):
        envs.reset()
        for _ in range(300):
            envs.step(np.zeros((1, 1), np.float32))
    assert len(messages(caplog)) == 20
    assert messages(caplog)[-1].endswith("not logged")


# What becomes of the step. --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["observation", "shape", "reward", "raise"])
def test_faults_of_a_users_environment_are_dropped_only_on_request(how):
    with pytest.raises(BadStep, match="episode 2, step 3"):
        SimbaV2(lambda: Faulty(how, (13,)), **TINY).learn(20)
    agent = SimbaV2(lambda: Faulty(how, (13,)), drop_bad_steps="any", **TINY).learn(20)
    np.testing.assert_array_equal(agent.trainer.replay.export_rows(0, 20)["dropped"], [12])
    assert np.isfinite(agent.trainer.replay.observation).all()
    assert np.isfinite(agent.trainer.replay.reward).all()
    # Episodes of five, five and two steps, the dropped step, and seven more: five and two.
    np.testing.assert_array_equal(agent.trainer.replay.export_rows(0, 20)["ended"], [4, 9, 17])
    assert agent.trainer.envs.episodes == [4]


def test_the_other_environments_keep_their_transitions():
    made = []

    def make() -> Faulty:
        made.append(Faulty("raise", (3,) if len(made) == 1 else ()))
        return made[-1]

    agent = SimbaV2(make, num_envs=3, drop_bad_steps="any", **TINY)
    loop = agent.trainer
    loop.begin()
    for _ in range(3):
        loop.step()
    part = agent.trainer.replay.export_rows(0, 3)
    np.testing.assert_array_equal(part["dropped"], [7])  # the third step of environment 1
    np.testing.assert_array_equal(part["reward"], [1, 1, 1, 1, 1, 1, 1, 0, 1])
    assert (agent.decisions, len(agent.trainer.replay), agent.trainer.envs.episodes) == (9, 8, [0, 1, 0])
    # Eight returns are known, and the cut episode's is forgotten: gamma^2 + gamma + 1 or nothing.
    returns, gamma = agent.statistics.returns, agent.config.discount
    assert returns.moments.weight == pytest.approx(8 + 1e-4)
    np.testing.assert_allclose(returns.running, [gamma**2 + gamma + 1, 0, gamma**2 + gamma + 1])
    assert loop.snapshot()["lengths"] == [3, 0, 3]
    assert loop.snapshot()["dropped_steps"] == 1
    ended = [episode for _ in range(3) for episode in loop.step()]
    assert [episode.length for episode in ended] == [5, 5]  # of environments 0 and 2
    assert [episode.length for episode in loop.step() + loop.step()] == [5]


def test_returns_of_a_step_that_failed_everywhere():
    statistics = RunningStatistics.start(1, 2)
    one, nobody, everybody = np.ones(2), np.zeros(2, bool), np.ones(2, bool)
    before = statistics.with_reward(one, nobody, 0.5, nobody)
    after = before.with_reward(one, nobody, 0.5, everybody)
    jax.tree.map(np.testing.assert_array_equal, after.returns.moments, before.returns.moments)
    np.testing.assert_array_equal(after.returns.running, [0, 0])


def test_an_update_waits_for_the_first_transition():
    settings = {**TINY, "warmup_decisions": 0, "replay.batch_size": 4}
    agent = SimbaV2(lambda: Faulty("raise", (1,)), drop_bad_steps="any", **settings)
    assert agent.learn(1).updates == 0
    assert agent.learn(1).updates == 2


def test_a_last_step_with_a_bad_reward_does_not_skip_an_episode():
    with make_vector_env(lambda: Faulty("reward", (5,)), drop_bad_steps="any") as envs:
        envs.reset()
        steps = [envs.step(np.zeros((1, 1), np.float32)) for _ in range(5)]
        assert (steps[-1].dropped[0], steps[-1].terminated[0], envs.episodes) == (True, False, [1])
        assert envs.last_fault == "episode 0, step 5: the reward is not finite"


def test_an_episode_that_cannot_be_started_is_skipped():
    with make_vector_env(lambda: Faulty("reset", (1, 3, 4)), drop_bad_steps="any") as envs:
        assert np.isfinite(envs.reset()).all()
        assert envs.episodes == [1]
        steps = [envs.step(np.zeros((1, 1), np.float32)) for _ in range(5)]
        assert envs.episodes == [4]  # of 2 and 3 the first observation is not finite
        assert (steps[-1].terminated[0], steps[-1].dropped[0]) == (True, False)
        assert np.isfinite(steps[-1].observation).all()


def test_an_environment_of_which_no_episode_can_be_started_is_broken():
    with make_vector_env(lambda: Faulty("reset", tuple(range(1, 99))), drop_bad_steps="any") as envs:
        with pytest.raises(
            BadStep, match=f"episode 9, step 0: {START_ATTEMPTS} episodes in a row failed to start"
        ):
            envs.reset()
        assert envs.episodes == [0]


def faulty_vector(vector) -> gym.vector.VectorEnv:
    same_step = gym.vector.AutoresetMode.SAME_STEP
    return vector([lambda: Faulty("observation", (3,)), Faulty], autoreset_mode=same_step)


@pytest.mark.parametrize(
    "vector", [gym.vector.SyncVectorEnv, partial(gym.vector.AsyncVectorEnv, context="forkserver")]
)
def test_one_member_of_a_users_vector_environment(vector):
    action = np.zeros((2, 1), np.float32)
    with make_vector_env(faulty_vector(vector), drop_bad_steps="any") as envs:
        envs.reset()
        steps = [envs.step(action) for _ in range(5)]
        assert [step.dropped.tolist() for step in steps].index([True, False]) == 2
        assert sum(step.dropped.sum() for step in steps) == 1
        np.testing.assert_array_equal(
            steps[2].observation[:, 0], np.float32([0, 0.6])
        )  # a new episode, and 3 of 5
        np.testing.assert_array_equal(steps[4].observation[:, 0], np.float32([0.4, 0]))
        assert envs.episodes == [1, 1]


def test_of_a_users_vector_environment_nothing_is_dropped_by_default():
    action = np.zeros((2, 1), np.float32)
    with make_vector_env(faulty_vector(gym.vector.SyncVectorEnv)) as envs:
        envs.reset()
        with pytest.raises(BadStep, match="environment 0, episode 0, step 3: the observation is not finite"):
            [envs.step(action) for _ in range(3)]


def test_an_evaluation_episode_ends_where_its_step_failed():
    agent = SimbaV2(lambda: Unstable(limit=-2), **TINY)
    with agent.trainer.make_evaluation_envs() as envs:
        played = evaluate(agent, envs, 2)
    assert [(episode.total, episode.length, episode.dropped) for episode in played] == [(2.0, 2, True)] * 2


def test_data_sets_leave_dropped_steps_out():
    def agent(*when: int) -> SimbaV2:
        return SimbaV2(lambda: Faulty("raise", when), drop_bad_steps="any", **TINY)

    episodes = list(make_dataset._episodes(agent(3, 4, 10).learn(12).trainer.replay, 0, 12))
    # Steps 1 and 2; 3 and 4 fail; 5 to 9 are a whole episode; 10 fails; 11 and 12 are under way.
    assert [len(episode.reward) for episode in episodes] == [2, 5, 2]
    np.testing.assert_allclose([episode.observation[-1, 0] for episode in episodes], [0.4, 1.0, 0.4], rtol=1e-6)
    assert [episode.terminated for episode in episodes] == [False, True, False]
    fresh = make_dataset.fresh(agent(3, 4), seed=0)
    assert [len(next(fresh).reward) for _ in range(3)] == [2, 5, 5]
    with pytest.raises(BadStep, match="11 of 11"):
        next(make_dataset.fresh(agent(*range(99)), seed=0))


# Settings and files. --------------------------------------------------------------------------------------


def test_the_setting_takes_three_names(capsys):
    assert override(Config(), {"drop-bad-steps": "any"}).drop_bad_steps == "any"
    assert main(["train", "mujoco/Hopper-v4", "--drop-bad-steps", "all"]) == 2
    assert "drop-bad-steps is 'all'; expected diverged or any or never" in capsys.readouterr().err


def test_checkpoints_from_before_have_dropped_nothing():
    old = {"episodes": [0], "totals": [0.0], "lengths": [0], "successes": [None], "ended": []}
    assert checkpoint._snapshot(old, 1, 0)["dropped_steps"] == 0
    with pytest.raises(ValueError, match="not a count"):
        checkpoint._snapshot({**old, "dropped_steps": -1}, 1, 0)
