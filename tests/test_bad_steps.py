"""Steps that fail, and numbers that run away: named, kept out, counted, and the last good state saved."""

import json
import logging
import os
from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import Failure, SimbaV2
from simbav2.checkpoint import rotation
from simbav2.checkpoint.checkpoint import params_sha256
from simbav2.cli import main
from simbav2.envs.dmc import ControlSuite
from simbav2.envs.vector import START_ATTEMPTS, check_dropped, make_vector_env
from simbav2.errors import BadStep, Diverged, SimulationDiverged
from simbav2.experiments.report.runs import read_run
from simbav2.training import make_dataset, run
from simbav2.training.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("empty_reports")

SETTINGS = {
    **TINY,
    "env_steps": 400,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 400,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 1_000,
}
REST = np.zeros((1, 1), np.float32)


class Faulty(Chain):
    """Five steps that pay 1 each; goes wrong `how` in the steps numbered `when`, over all episodes."""

    def __init__(self, how: str = "", when: tuple[int, ...] = ()) -> None:
        super().__init__(5)
        self.how, self.when, self.taken, self.resets = how, when, 0, 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.resets += 1
        bad = self.how == "reset" and self.resets in self.when
        return observation * np.nan if bad else observation, info

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        self.taken += 1
        reward = 1.0
        match self.how if self.taken in self.when else "":
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


class Unstable(Chain):
    """The same chain; a few episodes, known by their seed, diverge in their third step."""

    def __init__(self, limit: float = 0.92) -> None:  # of a number in [-1, 1]: one episode in 25
        super().__init__(5)
        self.limit = limit

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        if self.at == 3 and self.noise > self.limit:
            raise SimulationDiverged("qpos is NaN")
        return observation, 1.0, terminated, truncated, info


def only_second(how: str, step: int):
    """Of the environments made, the second goes wrong."""
    made = []

    def make() -> Faulty:
        made.append(Faulty(how, (step,) if len(made) == 1 else ()))
        return made[-1]

    return make


def dropped_messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if "dropped a failed step" in record.getMessage()]


# A step that may not be dropped. ---------------------------------------------------------------------------


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
def test_a_users_environment_loses_nothing_to_a_bad_step_and_drops_it_on_request(how, message):
    agent = SimbaV2(lambda: Faulty(how, (13,)), seed=4, **TINY)
    loop = agent.trainer
    loop.begin()
    for _ in range(12):
        loop.step()

    def kept():
        rows, random = loop.replay.export_rows(0, 12), loop.warmup_rng.bit_generator.state
        return agent.statistics, rows, random, loop.snapshot()

    before = kept()
    # Thirteen steps in episodes of five: the third step of the third episode, which is number two.
    with pytest.raises(BadStep, match=f"Faulty, seed 4, episode 2, step 3: {message}"):
        loop.step()
    jax.tree.map(np.testing.assert_array_equal, kept(), before)
    assert (agent.decisions, loop.replay.added) == (12, 12)

    agent = SimbaV2(lambda: Faulty(how, (13,)), drop_bad_steps="any", **TINY).learn(20)
    replay = agent.trainer.replay
    assert np.isfinite(replay.observation).all()
    assert np.isfinite(replay.reward).all()
    # Episodes of five, five and two steps, the dropped step, and seven more: five and two.
    rows = replay.export_rows(0, 20)
    assert (rows["dropped"].tolist(), rows["ended"].tolist()) == ([12], [4, 9, 17])
    assert agent.trainer.envs.episodes == [4]


def test_a_bad_first_observation_is_step_zero_of_the_episode_to_come():
    with pytest.raises(BadStep, match="Faulty, seed 0, episode 0, step 0: the first observation is not finite"):
        SimbaV2(lambda: Faulty("reset", (1,)), **TINY).trainer.begin()
    loop = SimbaV2(lambda: Faulty("reset", (2,)), **TINY).trainer
    loop.begin()
    for _ in range(4):
        loop.step()
    with pytest.raises(BadStep, match="seed 0, episode 1, step 0: the first observation is not finite"):
        loop.step()
    assert loop.snapshot()["episodes"] == [0]


def test_the_environment_and_the_action_at_fault_are_told():
    loop = SimbaV2(only_second("reward", 7), num_envs=2, **TINY).trainer
    loop.begin()
    for _ in range(6):
        loop.step()
    with pytest.raises(BadStep, match="seed 0, environment 1, episode 1, step 2: the reward"):
        loop.step()
    with make_vector_env(Faulty) as envs:
        envs.reset()
        with pytest.raises(BadStep, match="episode 0, step 1: the action is not finite"):
            envs.step(np.full((1, 1), np.nan, np.float32))


def test_a_worker_process_that_dies_is_noticed():
    vector = gym.vector.AsyncVectorEnv(
        [lambda: Faulty("exit", (9,)), Faulty],
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

    def make() -> Faulty:
        """Goes wrong in the first process only."""
        attempts.append(Faulty("raise", () if attempts else (333,)))
        return attempts[-1]

    with pytest.raises(Failure, match="episode 66, step 3: OSError"):
        run.start(SimbaV2(make, **SETTINGS), folder)
    assert [path.name for path in rotation.checkpoints(folder)] == ["000000000332"]
    assert "episode 66, step 3: OSError" in json.loads((folder / "failure.json").read_text())["error"]
    assert read_run(folder).status == "failed"
    summary = run.resume(folder, env=make)
    assert read_run(folder).status == "finished"
    whole = run.start(SimbaV2(Faulty, **SETTINGS), tmp_path / "whole")
    assert summary["params_sha256"] == whole["params_sha256"]
    for name in ("evaluations.csv", "metrics.jsonl"):
        assert (folder / name).read_text() == (tmp_path / "whole" / name).read_text()


# Numbers that run away. --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_every", "what", "message", "saved", "logged"),
    [
        (100, "target", r"not finite after 300 steps; saved .* in .*inspect.*lower learning", [250], [100, 200]),
        (400, "critic_loss", "critic_loss is not finite after 500 steps", [250], [400]),
    ],
)
def test_a_run_whose_numbers_run_away_is_stopped_and_kept_for_inspection(
    tmp_path, log_every, what, message, saved, logged
):
    """At the next log, or at the next checkpoint if that comes first."""
    settings = {**SETTINGS, "env_steps": 600, "schedule.checkpoint_every": 250, "schedule.log_every": log_every}
    agent, folder = SimbaV2(Faulty, **settings), tmp_path / "run"
    learn = agent.learner.learn

    def poisoned(state, normalizer, batches):
        state, metrics = learn(state, normalizer, batches)
        if what == "target" and agent.decisions == 299:
            state = state._replace(target=jax.tree.map(lambda leaf: leaf * jnp.nan, state.target))
        if what == "critic_loss" and agent.decisions > 450:
            metrics = {**metrics, "critic_loss": jnp.float32(jnp.inf)}
        return state, metrics

    agent.learner.learn = poisoned
    with pytest.raises(Diverged, match=message):
        run.start(agent, folder)
    assert [int(path.name) for path in rotation.checkpoints(folder)] == saved
    (inspect,) = (folder / "inspect").iterdir()
    kept = SimbaV2.load(inspect, env=Faulty)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.state.target)) == (what != "target")
    # No row of it was written: the records stay plain JSON and numbers.
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["env_step"] for row in rows if "evaluation/q" not in row] == logged


# A step that is dropped. -------------------------------------------------------------------------------------


def test_a_physics_error_of_dm_control_does_not_end_a_run(tmp_path, monkeypatch, caplog):
    """dm_control's cartpole; where stepped first, its velocities become NaN in simulator steps 37 and 402."""
    step, made = ControlSuite.step, []

    def diverging(self, action):
        made.append(self) if self not in made else None
        self.taken = getattr(self, "taken", 0) + 1
        if self is made[0] and self.taken in (37, 402):
            self.data.qvel[:] = np.nan
        return step(self, action)

    monkeypatch.setattr(ControlSuite, "step", diverging)
    # Evaluation comes first in a run and would be the first to step; training is what is looked at.
    monkeypatch.setattr("simbav2.training.trainer.evaluate", lambda agent, envs, *_: [])
    monkeypatch.setattr("simbav2.training.logger.RunLogger.evaluation", lambda *_: None)
    settings = {**SETTINGS, "env_steps": 600, "warmup_decisions": 100, "schedule.evaluate_every": 600}
    agent = SimbaV2("dmc/cartpole-swingup", **settings, updates_per_decision=0.1)
    with caplog.at_level(logging.WARNING, "simbav2"):
        summary = run.start(agent, tmp_path / "run")
    assert (summary["env_steps"], summary["dropped_steps"]) == (600, 2)
    # Two simulator steps a decision, of which the 19th takes only one: step 402 belongs to the 183rd after it.
    assert [message.split(": ", 2)[2] for message in dropped_messages(caplog)] == [
        "dmc/cartpole-swingup, seed 0, episode 0, step 19: "
        "SimulationDiverged: Physics state is invalid. Warning(s) raised: mjWARN_BADQVEL",
        "dmc/cartpole-swingup, seed 0, episode 1, step 183: "
        "SimulationDiverged: Physics state is invalid. Warning(s) raised: mjWARN_BADQVEL",
    ]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("dropped_steps") for line in lines] == [1, 1, 1, 1, 2, 2]
    assert [warning["name"] for warning in summary["warnings"]].count("steps dropped") == 1
    np.testing.assert_array_equal(agent.trainer.replay.export_rows(0, 300)["dropped"], [18, 201])


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


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_resumed_run_passes_the_fault_and_ends_with_the_same_bits(num_envs, tmp_path):
    settings = {**SETTINGS, "num_envs": num_envs}
    agent = SimbaV2(Unstable, **settings)
    summary = run.start(agent, tmp_path / "whole")
    rows = agent.trainer.replay.export_rows(0, agent.trainer.replay.added)["dropped"]
    decisions = ((rows // num_envs + 1) * num_envs).tolist()
    assert summary["dropped_steps"] == len(decisions) >= 2
    assert params_sha256(SimbaV2(Unstable, **settings).learn(400)) == summary["params_sha256"]
    # Right after a dropped step, which the checkpoint itself then holds, and in the middle of an episode after it.
    for stop in (decisions[0], decisions[-1], decisions[0] + 2 * num_envs):
        folder = tmp_path / str(stop)
        assert run.start(SimbaV2(Unstable, **settings), folder, stop_after=stop)["env_steps"] == stop
        again = run.resume(folder, env=Unstable, stop_after=400)
        for name in ("params_sha256", "dropped_steps", "final_return"):
            assert again[name] == summary[name], name


def test_a_run_whose_steps_fail_too_often_stops_with_its_state_saved(tmp_path, caplog):
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
    caplog.clear()
    with make_vector_env(lambda: Unstable(limit=-2)) as envs, caplog.at_level(logging.WARNING, "simbav2"):
        check_dropped(10, 10, envs)
        check_dropped(11, 1_100, envs)
        with pytest.raises(BadStep, match="11 of 1,099"):
            check_dropped(11, 1_099, envs)
        envs.reset()
        for _ in range(300):
            envs.step(REST)
    assert len(dropped_messages(caplog)) == 20  # the log is not flooded
    assert dropped_messages(caplog)[-1].endswith("not logged")


def test_the_other_environments_keep_their_transitions():
    agent = SimbaV2(only_second("raise", 3), num_envs=3, drop_bad_steps="any", **TINY)
    loop = agent.trainer
    loop.begin()
    for _ in range(3):
        loop.step()
    part = loop.replay.export_rows(0, 3)
    np.testing.assert_array_equal(part["dropped"], [7])  # the third step of environment 1
    np.testing.assert_array_equal(part["reward"], [1, 1, 1, 1, 1, 1, 1, 0, 1])
    assert (agent.decisions, len(loop.replay), loop.envs.episodes) == (9, 8, [0, 1, 0])
    # Eight returns are known, and the cut episode's is forgotten: gamma^2 + gamma + 1 or nothing.
    returns, gamma = agent.statistics.returns, agent.config.discount
    assert returns.moments.weight == pytest.approx(8 + 1e-4)
    np.testing.assert_allclose(returns.running, [gamma**2 + gamma + 1, 0, gamma**2 + gamma + 1])
    assert (loop.snapshot()["lengths"], loop.snapshot()["dropped_steps"]) == ([3, 0, 3], 1)
    ended = [episode for _ in range(3) for episode in loop.step()]
    assert [episode.length for episode in ended] == [5, 5]  # of environments 0 and 2
    assert [episode.length for episode in loop.step() + loop.step()] == [5]


def test_an_update_waits_for_the_first_transition():
    settings = {**TINY, "warmup_decisions": 0, "replay.batch_size": 4}
    agent = SimbaV2(lambda: Faulty("raise", (1,)), drop_bad_steps="any", **settings)
    assert agent.learn(1).updates == 0
    assert agent.learn(1).updates == 2


def test_first_and_last_steps_of_an_episode_may_fail():
    with make_vector_env(lambda: Faulty("reward", (5,)), drop_bad_steps="any") as envs:
        envs.reset()
        last = [envs.step(REST) for _ in range(5)][-1]
        assert (last.dropped[0], last.terminated[0], envs.episodes) == (True, False, [1])  # no episode is skipped
        assert envs.last_fault == "episode 0, step 5: the reward is not finite"
    with make_vector_env(lambda: Faulty("reset", (1, 3, 4)), drop_bad_steps="any") as envs:
        assert np.isfinite(envs.reset()).all()
        assert envs.episodes == [1]
        last = [envs.step(REST) for _ in range(5)][-1]
        assert envs.episodes == [4]  # of 2 and 3 the first observation is not finite
        assert (last.terminated[0], last.dropped[0]) == (True, False)
        assert np.isfinite(last.observation).all()
    with make_vector_env(lambda: Faulty("reset", tuple(range(1, 99))), drop_bad_steps="any") as envs:
        with pytest.raises(
            BadStep, match=f"episode 9, step 0: {START_ATTEMPTS} episodes in a row failed to start"
        ):
            envs.reset()
        assert envs.episodes == [0]


@pytest.mark.parametrize(
    "vector", [gym.vector.SyncVectorEnv, partial(gym.vector.AsyncVectorEnv, context="forkserver")]
)
def test_one_member_of_a_users_vector_environment(vector):
    def faulty():
        members = [lambda: Faulty("observation", (3,)), Faulty]
        return vector(members, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    action = np.zeros((2, 1), np.float32)
    with make_vector_env(faulty(), drop_bad_steps="any") as envs:
        envs.reset()
        steps = [envs.step(action) for _ in range(5)]
        assert [step.dropped.tolist() for step in steps].index([True, False]) == 2
        assert sum(step.dropped.sum() for step in steps) == 1
        np.testing.assert_array_equal(steps[2].observation[:, 0], np.float32([0, 0.6]))  # a new episode; 3 of 5
        np.testing.assert_array_equal(steps[4].observation[:, 0], np.float32([0.4, 0]))
        assert envs.episodes == [1, 1]
    with make_vector_env(faulty()) as envs:
        envs.reset()
        with pytest.raises(BadStep, match="environment 0, episode 0, step 3: the observation is not finite"):
            [envs.step(action) for _ in range(3)]


def test_evaluations_and_data_sets_leave_dropped_steps_out():
    agent = SimbaV2(lambda: Unstable(limit=-2), **TINY)
    with agent.trainer.make_evaluation_envs() as envs:
        played = evaluate(agent, envs, 2)
    assert [(episode.total, episode.length, episode.dropped) for episode in played] == [(2.0, 2, True)] * 2

    def failing(*when: int) -> SimbaV2:
        return SimbaV2(lambda: Faulty("raise", when), drop_bad_steps="any", **TINY)

    episodes = list(make_dataset._episodes(failing(3, 4, 10).learn(12).trainer.replay, 0, 12))
    # Steps 1 and 2; 3 and 4 fail; 5 to 9 are a whole episode; 10 fails; 11 and 12 are under way.
    assert [len(episode.reward) for episode in episodes] == [2, 5, 2]
    np.testing.assert_allclose([episode.observation[-1, 0] for episode in episodes], [0.4, 1.0, 0.4], rtol=1e-6)
    assert [episode.terminated for episode in episodes] == [False, True, False]
    fresh = make_dataset.fresh(failing(3, 4), seed=0)
    assert [len(next(fresh).reward) for _ in range(3)] == [2, 5, 5]
    with pytest.raises(BadStep, match="11 of 11"):
        next(make_dataset.fresh(failing(*range(99)), seed=0))


def test_settings_and_checkpoints_of_earlier_versions(capsys):
    assert main(["train", "mujoco/Hopper-v4", "--drop-bad-steps", "all"]) == 2
    assert "drop_bad_steps is 'all'; expected diverged or any or never" in capsys.readouterr().err
    old = {"episodes": [0], "totals": [0.0], "lengths": [0], "successes": [None], "ended": []}
    assert rotation._snapshot(old, 1, 0)["dropped_steps"] == 0
    with pytest.raises(ValueError, match="not a count"):
        rotation._snapshot({**old, "dropped_steps": -1}, 1, 0)
