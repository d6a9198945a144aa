"""A checkpoint in the authors' format, forged: on walker-walk its policy sees the coordinate it learned from."""

from types import SimpleNamespace

import jax
import msgpack
import numpy as np
import pytest
from toys import TINY

from simbav2 import SimbaV2
from simbav2.envs.make import make_env
from simbav2.interop import from_release
from simbav2.interop.release_networks import actor_names, critic_names

TASK, SIZES = "dmc/walker-walk", (24, 6)


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


def packed(tree) -> bytes:
    def array(value):
        value = np.asarray(value)
        return msgpack.ExtType(1, msgpack.packb((list(value.shape), value.dtype.name, value.tobytes())))

    return msgpack.packb(tree, default=array)


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
    flat = {"mean": np.zeros((1, SIZES[0]), np.float32), "var": np.ones((1, SIZES[0]), np.float32), "count": 1.0}
    parts["obs_norm"] = {f"obs_rms_{name}": value for name, value in flat.items()}
    returns = {"mean": np.zeros(1, np.float32), "var": np.ones(1, np.float32), "count": 1.0}
    parts["rew_norm"] = {f"G_rms_{name}": value for name, value in returns.items()} | {
        "G": np.array([11.0]),
        "G_r_max": np.array(11.0),
    }
    for name, tree in parts.items():
        (folder / name / "checkpoint_0").mkdir(parents=True)
        (folder / name / "checkpoint_0" / "checkpoint").write_bytes(packed(tree))


def test_a_policy_that_reads_the_first_coordinate_sees_the_height(tmp_path):
    """Sorted, the keys of walker are height, orientations, velocity; dm_control gives orientations first."""
    forge(tmp_path)
    agent = from_release(tmp_path, *SIZES, env=TASK)
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
    agent = from_release(tmp_path, *SIZES, env=TASK)
    assert agent.statistics.returns.running[0] == 11
    agent.learn(2)
    assert agent.statistics.returns.running[0] == pytest.approx(agent.trainer.replay.reward[0])
    assert agent.statistics.returns.largest == 11
