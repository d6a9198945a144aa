"""Checkpoints of the authors' code: the same numbers as that code computes, and no trust in the files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import msgpack
import numpy as np
import pytest
from toys import TINY

import simbav2
from simbav2 import CheckpointError, InputError, SimbaV2, make_env
from simbav2.cli import main
from simbav2.interop import from_release
from simbav2.interop.release import actor_names, critic_names, read_msgpack
from simbav2.normalization import RunningStatistics
from simbav2.types import Variables

SAMPLE = Path(__file__).parents[2] / "shared" / "release_checkpoint"
SIZES = (5, 1)

pytestmark = pytest.mark.numerics
near = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def sample():
    if not SAMPLE.exists():
        pytest.skip(f"{SAMPLE} does not exist")
    return SAMPLE / "ckpt"


@pytest.fixture(scope="module")
def golden(sample):
    with np.load(SAMPLE / "golden.npz") as data:
        return dict(data)


@pytest.fixture(scope="module")
def agent(sample):
    return from_release(sample, *SIZES, env="dmc/cartpole-swingup")


def test_actions_values_and_statistics_are_the_authors(agent, golden):
    observation, action = golden["obs"], golden["act"]
    networks, state = agent.learner.networks, agent.state
    np.testing.assert_allclose(agent.normalizer.observation(observation), golden["norm_obs"], **near)
    np.testing.assert_allclose(agent.predict(observation)[0], golden["det_action"], **near)
    np.testing.assert_allclose(agent.q_values(observation, action), golden["q"][None], **near)
    logits, _ = networks.critic.apply(state.critic.variables, golden["norm_obs"], action)
    np.testing.assert_allclose(jax.nn.log_softmax(logits)[0], golden["log_prob"], **near)
    np.testing.assert_allclose(
        networks.q(Variables(state.target, None), golden["norm_obs"], action)[0], golden["target_q"], **near
    )
    np.testing.assert_allclose(state.temperature, golden["temperature"], **near)
    np.testing.assert_allclose(agent.statistics.observation.mean, golden["obs_mean"][0], **near)
    np.testing.assert_allclose(agent.statistics.observation.variance, golden["obs_var"][0], **near)


def test_the_statistics_follow_the_authors_trace(agent, golden):
    """Step by step, with that code's early reset of the running return put in."""
    statistics, discount = RunningStatistics.start(SIZES[0], 1), float(golden["gamma"])
    for step, reward in enumerate(golden["trace_r"]):
        ended = golden["trace_te"][step] | golden["trace_tr"][step]
        returns = statistics.returns._replace(running=statistics.returns.running * ~ended)
        statistics = statistics._replace(returns=returns)
        observation = golden["trace_obs"][step][None]
        statistics = statistics.with_observation(observation)
        statistics = statistics.with_reward(np.array([reward]), np.array([False]), discount)
        scale = statistics.returns.scale(agent.config.rewards)
        np.testing.assert_allclose(scale, golden["trace_den"][step], **near)
    np.testing.assert_allclose(statistics.observation.mean, agent.statistics.observation.mean, **near)
    np.testing.assert_allclose(statistics.observation.variance, agent.statistics.observation.variance, **near)
    np.testing.assert_allclose(statistics.observation.weight, agent.statistics.observation.weight, **near)
    found, expected = agent.statistics.returns, statistics.returns
    np.testing.assert_allclose(found.running, expected.running, **near)
    np.testing.assert_allclose(found.moments.variance, expected.moments.variance, **near)
    assert found.largest == pytest.approx(expected.largest)


def test_sizes_and_counts_are_read_from_the_arrays(agent):
    assert simbav2.interop.from_release is from_release
    config = agent.config
    assert (config.actor.width, config.actor.depth) == (16, 1)
    assert (config.critic.width, config.critic.depth, config.critic.num_critics) == (32, 2, 1)
    assert config.value.atoms == 101
    assert (agent.updates, agent.decisions) == (25, 300)
    assert int(agent.state.actor.optimizer.count) == int(agent.state.log_temperature.optimizer.count) == 25


def raw(part: str) -> dict:
    return read_msgpack(SAMPLE / "ckpt" / part / "checkpoint_0" / "checkpoint")


def packed(tree) -> bytes:
    """The tree in Flax's way of writing arrays."""

    def array(value):
        value = np.asarray(value)
        return msgpack.ExtType(1, msgpack.packb((list(value.shape), value.dtype.name, value.tobytes())))

    return msgpack.packb(tree, default=array)


@pytest.fixture
def copy(sample, tmp_path):
    shutil.copytree(sample, tmp_path / "ckpt")
    for path in (tmp_path / "ckpt").rglob("*"):
        path.chmod(0o755)
    return tmp_path / "ckpt"


def put(folder: Path, part: str, data: bytes) -> None:
    (folder / part / "checkpoint_0" / "checkpoint").write_bytes(data)


def stacked(one, other, merge=lambda a, b: np.stack([a, b])):
    if isinstance(one, dict):
        return {name: stacked(one[name], other and other[name], merge) for name in one}
    return merge(one, other)


def test_two_critics(copy, agent, golden):
    """The critic and its target as a pair, since the sample has one critic only."""
    critic, target = raw("critic"), raw("target_critic")
    pair = {"VmapSimbaV2Critic_0": stacked(critic["params"], target["params"])}
    adam, *rest = critic["opt_state"]
    moments = {name: {"VmapSimbaV2Critic_0": stacked(adam[name], adam[name])} for name in ("mu", "nu")}
    put(copy, "critic", packed({**critic, "params": pair, "opt_state": [{**adam, **moments}, *rest]}))
    put(copy, "target_critic", packed({**target, "params": pair}))
    two = from_release(copy, *SIZES)
    assert two.config.critic.num_critics == 2
    expected = np.stack([golden["q"], golden["target_q"]])
    np.testing.assert_allclose(two.q_values(golden["obs"], golden["act"]), expected, **near)


def test_it_can_be_saved_and_acts_before_it_goes_on_learning(copy, golden, tmp_path):
    """The checkpoint brings no replay: as much as a warm-up gives is collected first, by its own policy."""
    saved = from_release(copy, *SIZES, env="dmc/cartpole-swingup")
    saved.save(tmp_path / "run")
    again = SimbaV2.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(golden["obs"])[0], saved.predict(golden["obs"])[0])
    assert again.updates == 25
    small = replace(saved.config.replay, batch_size=32)
    config = replace(saved.config, warmup_decisions=40, replay=small)
    agent = SimbaV2.from_config(config, saved.task, saved.source)
    agent.state, agent.statistics = saved.state, saved.statistics
    agent.decisions, agent.updates = saved.decisions, saved.updates
    agent.learn(2 * 39)
    assert not agent.trainer.warming_up
    assert agent.updates == 25
    agent.learn(2)
    assert agent.updates == int(agent.state.updates) == 25 + 2


@pytest.mark.parametrize("part", ["actor", "critic", "target_critic", "temperature", "obs_norm", "rew_norm"])
def test_damaged_files_get_one_line_that_names_them(copy, part):
    file = copy / part / "checkpoint_0" / "checkpoint"
    whole = file.read_bytes()
    content = raw(part)
    attacks = [whole[:40], whole[: len(whole) // 2], b"", b"\xc1", b"\x91" * 5_000, whole + b"\0", packed([1])]
    attacks += [packed({}), packed({"params": 3})]
    attacks += [packed({**content, "params": {}, "G": np.zeros(0), "obs_rms_var": 3})]
    attacks += [packed({**content, "params": {"encoder": 1}, "obs_rms_count": 1e30, "G_rms_count": -1.0})]
    if "opt_state" in content and part != "target_critic":
        attacks += [packed({**content, "opt_state": state}) for state in ("PLACEHOLDER", 7)]
    for data in attacks:
        file.write_bytes(data)
        with pytest.raises(CheckpointError, match=part) as caught:
            from_release(copy, *SIZES)
        assert "\n" not in str(caught.value)


def forged_array(shape, kind, size) -> bytes:
    return msgpack.packb({"params": msgpack.ExtType(1, msgpack.packb((shape, kind, b"\0" * size)))})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (forged_array([2, 2], "float32", 12), "12 bytes"),
        (forged_array([1 << 60], "float32", 4), "4 bytes"),
        (forged_array([-1, -1], "float32", 4), "shape"),
        (forged_array([1], "object", 8), "object"),
        (forged_array([1], "O", 8), "'O'"),
        (forged_array([True], "float32", 4), "shape"),
        (msgpack.packb({"params": msgpack.ExtType(5, b"x")}), "unknown kind 5"),
    ],
)
def test_forged_arrays_are_refused(copy, data, message):
    put(copy, "actor", data)
    with pytest.raises(CheckpointError, match=message):
        from_release(copy, *SIZES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["predictor"].pop("mean_bias"), "lacks 'mean_bias'"),
        (lambda p: p.update(more=np.zeros(3, np.float32)), "more is unknown"),
        (lambda p: p["predictor"].update(mean_bias=np.zeros(2, np.float32)), r"expected float32\(1,\)"),
        (lambda p: p["predictor"].update(mean_bias=np.zeros(1)), "float64"),
        (lambda p: p["predictor"].update(mean_bias=np.full(1, np.nan, np.float32)), "not finite"),
        (lambda p: p["encoder"].update({f"layers_{n}": p["encoder"]["layers_0"] for n in range(70)}), "70 layers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(copy, change, message):
    tree = raw("actor")
    change(tree["params"])
    put(copy, "actor", packed(tree))
    with pytest.raises(CheckpointError, match=message):
        from_release(copy, *SIZES)


def test_too_many_critics_are_refused(copy):
    tree = raw("critic")
    many = stacked(tree["params"], None, lambda a, _: np.zeros((99, *a.shape), np.float32))
    put(copy, "critic", packed({**tree, "params": {"VmapSimbaV2Critic_0": many}}))
    with pytest.raises(CheckpointError, match="99 critics"):
        from_release(copy, *SIZES)


def test_wrong_sizes_and_folders_are_refused(copy, tmp_path):
    with pytest.raises(InputError, match="is for 5 inputs, but 7 observations were given"):
        from_release(copy, 7, 1)
    put(copy, "obs_norm", packed(raw("rew_norm")))
    with pytest.raises(InputError, match="obs_rms_mean"):
        from_release(copy, *SIZES)
    with pytest.raises(InputError, match="is for 6 inputs, but 5 observations and 2 actions were given"):
        from_release(copy, 5, 2)
    with pytest.raises(InputError, match="at least 1"):
        from_release(copy, 0, 1)
    with pytest.raises(InputError, match="holds no checkpoint of the authors' code"):
        from_release(tmp_path, *SIZES)
    with pytest.raises(InputError, match="dmc/walker-walk has 24 observations"):
        from_release(SAMPLE / "ckpt", *SIZES, env=TASK)


def test_the_command_leaves_an_agent_to_evaluate_and_export(sample, tmp_path, capsys):
    out = str(tmp_path / "agent")
    sizes = ["--observation-size", "5", "--action-size", "1", "--task", "dmc/cartpole-swingup"]
    assert main(["import-release", str(sample), *sizes, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["critic"] == {"width": 32, "depth": 2, "num_critics": 1}
    assert main(["evaluate", out, "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"][0]["length"] == 500
    assert main(["export", out, "--format", "numpy", "--out", str(tmp_path / "policy.npz")]) == 0
    assert (tmp_path / "policy.npz").exists()


# A forged checkpoint: on walker-walk its policy sees the coordinate it learned from. ---------------------------

TASK = "dmc/walker-walk"


def tree_of(params, names) -> dict:
    """Our parameters under the authors' names; of one critic, whose place begins with a number."""
    tree: dict = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        place = jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value").removeprefix("0/")
        *folders, last = names[place].split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[last] = np.array(leaf)
    return tree


def forge(folder) -> None:
    """A policy that reads coordinate 0: every other row of its embedding but the constant's is zero.

    What the embedding makes of the input is normalised, so the length of the observation does not matter either.
    """
    state = SimbaV2(TASK, preset="release", **TINY).state
    depth = lambda number: SimpleNamespace(sizes=lambda: SimpleNamespace(depth=number))  # noqa: E731
    actor = tree_of(state.actor.params, actor_names(depth(1)))
    critic = tree_of(state.critic.params, critic_names(depth(1)))
    actor["embedder"]["w"]["hyper_dense"]["kernel"][1:-1] = 0
    temperature = {"log_temp": np.zeros((), np.float32)}
    networks = {"actor": actor, "critic": critic, "target_critic": critic, "temperature": temperature}
    count = np.zeros((), np.int32)
    parts = {}
    for name, params in networks.items():
        zeros = jax.tree.map(np.zeros_like, params)
        adam = [{"count": count, "mu": zeros, "nu": zeros}]
        parts[name] = {"params": params, "opt_state": adam, "update_step": count}
    zeros, ones = np.zeros((1, 24), np.float32), np.ones((1, 24), np.float32)
    parts["obs_norm"] = {"obs_rms_mean": zeros, "obs_rms_var": ones, "obs_rms_count": 1.0}
    parts["rew_norm"] = {"G_rms_mean": zeros[0, :1], "G_rms_var": ones[0, :1], "G_rms_count": 1.0}
    parts["rew_norm"] |= {"G": np.array([11.0]), "G_r_max": np.array(11.0)}
    for name, tree in parts.items():
        (folder / name / "checkpoint_0").mkdir(parents=True)
        (folder / name / "checkpoint_0" / "checkpoint").write_bytes(packed(tree))


def test_a_policy_that_reads_the_first_coordinate_sees_the_height(tmp_path):
    """Sorted, the keys of walker are height, orientations, velocity; dm_control gives orientations first."""
    forge(tmp_path)
    agent = from_release(tmp_path, 24, 6, env=TASK)
    with make_env(TASK, seed=1) as env:
        observation, _ = env.reset()
        heights, actions, expected = [], [], []
        for _ in range(20):
            action, _ = agent.predict(observation)
            height = env.unwrapped._control.physics.torso_height()
            heights.append(height)
            actions.append(action)
            expected.append(agent.predict(np.array([height] + 23 * [0.5], np.float32))[0])
            observation, *_ = env.step(np.ones(6, np.float32))
    assert np.ptp(heights) > 0.1
    assert np.ptp(actions, axis=0).max() > 0.01  # it does respond
    np.testing.assert_allclose(actions, expected, atol=1e-5)


def test_an_imported_agent_begins_its_episodes_with_a_running_return_of_zero(tmp_path):
    forge(tmp_path)
    agent = from_release(tmp_path, 24, 6, env=TASK)
    assert agent.statistics.returns.running[0] == 11
    agent.learn(2)
    assert agent.statistics.returns.running[0] == pytest.approx(agent.trainer.replay.reward[0])
    assert agent.statistics.returns.largest == 11
