"""Learning from recorded data: objectives, the run's folder, exact resuming, and acting afterwards."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learning import ROWS, TASK, write_chain
from short_runs import load_trainer, rows
from short_runs import results as all_results
from toys import TINY

from simbav2 import InputError, SimbaV2
from simbav2.cli import main
from simbav2.config import BehaviorCloning, Config, Data, MaximizeReturn, ReturnPlusBC, presets
from simbav2.datasets import hdf5
from simbav2.learner import Learner, bc_weight
from simbav2.losses import actor_loss
from simbav2.training import run
from simbav2.training.offline import make_agent
from simbav2.types import Transition

pytestmark = pytest.mark.usefixtures("empty_reports")

NAME = "d4rl/hopper-medium-v2"
SETTINGS = {
    **TINY,
    "warmup_decisions": 20,
    "data.passes": 32,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 100,
    "schedule.evaluation_episodes": 2,
    "schedule.checkpoint_every": 100,
}
# 600 rows * 32 / 64 = 300 updates


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "chain.hdf5"
    write_chain(path)
    return path


def agent_for(data, **settings) -> SimbaV2:
    return make_agent(str(data), settings={**SETTINGS, **settings})


def test_the_statistics_are_those_of_the_data_and_stay(data):
    agent = agent_for(data)
    agent.learn(100)
    rewards = agent.trainer.data.replay.reward[:ROWS].astype(np.float64)
    assert agent.statistics.returns.largest == np.abs(rewards).max()
    np.testing.assert_allclose(agent.statistics.returns.moments.variance, rewards.var(), rtol=1e-5)


@pytest.mark.numerics
def test_the_objectives():
    config = Config(**{"action_repeat": 1, "updates_per_decision": 1.0, "discount": 0.9})
    small = presets.override(config, {**TINY, "critic.num_critics": 2})
    learner = Learner(small, 2, 1)
    state = learner.init(jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    columns = (rng.normal(size=(64, 2)), rng.uniform(-1, 1, (64, 1)), np.zeros(64), np.ones(64))
    batch = Transition(*(jnp.asarray(c, jnp.float32) for c in (*columns, columns[0])))
    key = jax.random.PRNGKey(1)

    def loss(objective, share=1.0):
        given = (state.actor.params, None, state.critic.variables, state.temperature, batch, key, share)
        return float(actor_loss(dataclasses.replace(small, objective=objective), learner.networks, *given)[0])

    action = learner.networks.actions(state.actor.variables, batch.observation)[0].sample(key)
    q = learner.networks.q(state.critic.variables, batch.observation, action).min(axis=0)
    error = float(jnp.mean((action - batch.action) ** 2))
    plain = loss(MaximizeReturn())
    added = 0.25 * 0.1 * float(jnp.mean(jnp.abs(q))) * error
    assert loss(ReturnPlusBC(0.1), 0.25) == pytest.approx(plain + added, rel=1e-5)
    assert loss(BehaviorCloning()) == pytest.approx(error, rel=1e-5)


@pytest.mark.numerics
def test_the_cloning_term_falls_to_zero_over_the_decisions():
    data = Data(source="any", transitions=256, passes=20)  # 20 updates
    config = Config(
        data=data, env_steps=20 + 40, action_repeat=2, updates_per_decision=0.5, warmup_decisions=0, discount=0.9
    )
    assert (config.offline_updates, config.decisions, config.online_updates, config.updates) == (20, 20, 10, 20)
    shares = [float(bc_weight(config, jnp.asarray(u))) for u in (0, 19, 20, 25, 30, 99)]
    assert shares == pytest.approx([1, 1, 1, 0.5, 0, 0])


def test_an_online_preset_gets_what_data_demands():
    simba = presets.from_data(presets.preset("simba"))
    assert simba.objective == ReturnPlusBC(0.1)
    assert simba.critic == dataclasses.replace(presets.simba.critic, num_critics=2)
    assert simba.learning_rate == presets.simba.learning_rate
    designed = presets.from_data(presets.preset("paper", "e"))
    assert (designed.ablation, designed.objective) == ("e", ReturnPlusBC(0.1))
    assert presets.from_data(presets.cloning) == presets.cloning


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "offline"}, "of preset 'offline' needs recorded data; use `simbav2 offline`"),
        ({"preset": "cloning"}, "of preset 'cloning' needs recorded data; use `simbav2 offline`"),
        ({"data.source": "d4rl/hopper-medium-v2"}, "use `simbav2 offline`"),
    ],
)
def test_what_needs_data_is_refused_without(settings, message):
    with pytest.raises(InputError, match=message):
        SimbaV2(TASK, **settings)


# Runs. ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(data):
    """D4RL's name for our own file, to be scored as D4RL does."""
    settings = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return ["offline", NAME, "--data", str(data), "--task", TASK, "--then-online", "150", *settings]


@pytest.fixture(scope="module")
def finished(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert main([*words, "--out", str(folder)]) == 0
    return folder


def test_the_run_folder_is_that_of_any_run(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert (summary["task"], summary["dataset"], summary["preset"]) == (TASK, NAME, "offline")
    assert (summary["env_steps"], summary["decisions"], summary["updates"]) == (450, 150, 300 + 2 * 131)
    score = 100 * (summary["final_return"] + 20.272305) / (3234.3 + 20.272305)
    assert summary["normalized_score"] == pytest.approx(score, abs=1e-6)
    config = json.loads((finished / "config.json").read_text())
    assert config["data"]["transitions"] == ROWS
    assert config["settings"]["then_online"] == 150
    assert config["objective"]["kind"] == "ReturnPlusBC"
    steps = [row["env_step"] for row in rows(finished / "evaluations.csv")]
    assert steps == [str(step) for step in (0, 100, 200, 300, 400, 450) for _ in range(2)]
    progress = rows(finished / "progress.csv")
    assert [(row["env_step"], row["decisions"], row["updates"]) for row in progress] == [
        *(("100", "0", "100"), ("200", "0", "200"), ("300", "0", "300")),
        *(("400", "100", "462"), ("450", "150", "562")),
    ]
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert metrics[2]["learning_rate"] == pytest.approx(3e-3)
    assert f"simbav2 offline {NAME}" in (finished / "report" / "index.html").read_text()


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("stop", [160, 370], ids=["while learning from data", "while acting"])
def test_a_resumed_run_ends_with_the_same_bits(finished, words, tmp_path, stop, killed):
    folder = tmp_path / "stopped"
    assert main([*words, "--out", str(folder), "--stop-after", str(stop)]) == 0
    last = [{"env_step": str(stop)}] if not killed else []  # the look at the stop itself
    if killed:  # in the middle of an interval, what it wrote since the last checkpoint still there
        shutil.rmtree(folder / "checkpoints" / f"{stop:012}")
    run.resume(folder, 450)
    (resumed, evaluations), (whole, expected) = all_results(folder)[:2], all_results(finished)[:2]
    assert resumed == whole
    extra = [row for row in evaluations if row not in expected]
    assert [{"env_step": row["env_step"]} for row in extra] == last * 2
    assert [row for row in evaluations if row not in extra] == expected


def test_resuming_refuses_other_data(words, data, tmp_path):
    copy = tmp_path / "copy.hdf5"
    copy.write_bytes(data.read_bytes())
    folder = tmp_path / "run"
    words = [str(copy) if word == str(data) else word for word in words]
    assert main([*words, "--out", str(folder), "--stop-after", "100"]) == 0
    with hdf5._h5py(copy).File(copy, "r+") as file:
        file["rewards"][0] += 1
    with pytest.raises(InputError, match=r"hopper-medium-v2 holds other data than the run started with"):
        run.resume(folder)


def test_acting_learns_half_from_data_and_half_from_what_happens(finished):
    trainer, _ = load_trainer(finished)
    agent = trainer.agent
    assert (trainer.offline, len(trainer.replay)) == (False, 150)
    trainer.data.replay.reward[:], trainer.replay.reward[:] = -7.0, 7.0
    batch = trainer.sample(3, np.random.default_rng(0))
    assert batch.reward.shape == (3, 64)
    assert (batch.reward == -7).sum(axis=1).tolist() == [32, 32, 32]
    agent.decisions = 0  # before its first update online it acts by what it has learned
    observation = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(trainer.explore(observation), agent.act(observation, noise=1.0))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no data set given"),
        (["d4rl/hopper-hard-v2"], "unknown data set 'd4rl/hopper-hard-v2'"),
        (["nowhere.hdf5"], "nowhere.hdf5 does not exist"),
        (["DATA", "--env-steps", "7"], "env-steps follows from the data"),
        (["DATA", "--then-online", "-1"], "--then-online is -1"),
        (
            ["DATA", "--task", "mujoco/Hopper-v4"],
            "has 2 observations and 1 actions, mujoco/Hopper-v4 ",
        ),
        (["DATA", "--data.passes", "0"], "data.passes is 0.0; expected more than 0"),
        (
            ["DATA", "--objective", "Clone"],
            "objective is 'Clone'; expected MaximizeReturn or ReturnPlusBC or BehaviorCloning",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_line(data, capsys, words, message):
    assert main(["offline", *(str(data) if word == "DATA" else word for word in words)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_data_that_does_not_say_its_task_asks_for_it(tmp_path):
    path = tmp_path / "a.hdf5"
    zero = np.zeros((2, 2), np.float32)
    hdf5.write(path, TASK, [hdf5.Episode(zero, zero[:1, :1], zero[:1, 0], terminated=True)])
    with hdf5._h5py(path).File(path, "r+") as file:
        del file.attrs["task"]
    with pytest.raises(InputError, match="give --task"):
        make_agent(str(path))
