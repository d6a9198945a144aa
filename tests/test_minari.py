"""Minari data sets, where Minari is installed: made here, never fetched."""

import gymnasium as gym
import numpy as np
import pytest
from toys import TINY

from simbav2 import InputError
from simbav2.config import Data
from simbav2.datasets import dataset
from simbav2.training.offline import make_agent

minari = pytest.importorskip("minari", reason="Minari is not installed: pip install 'simbav2[offline]'")

# Minari asks for an author, an address and the like.
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("_installed_here")]


@pytest.fixture
def _installed_here(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def episode(observations, actions, terminates=False):
    last = np.arange(len(actions)) == len(actions) - 1
    return minari.data_collector.EpisodeBuffer(
        observations=np.asarray(observations, np.float32),
        actions=np.asarray(actions, np.float32),
        rewards=np.arange(len(actions), dtype=np.float64),
        terminations=last & terminates,
        truncations=last & (not terminates),
        infos={},
    )


def test_a_minari_data_set_becomes_its_transitions():
    """Two episodes of Pendulum-v1, whose torques reach from -2 to 2; only the first terminates."""
    observations, torques = np.arange(12).reshape(4, 3), [[-2.0], [0.0], [1.0]]
    buffers = [episode(observations, torques, terminates=True), episode(observations + 100, torques)]
    minari.create_dataset_from_buffers(dataset_id="test/pendulum-v0", env=gym.make("Pendulum-v1"), buffer=buffers)
    pendulum = "minari/test/pendulum-v0"
    with dataset.opened(Data(source=pendulum, transitions=1)) as source:
        data = dataset.read(source, 0.5)
        assert source.task == "Pendulum-v1"
    batch = data.replay.sample(1, 200, np.random.default_rng(0))
    columns = (
        batch.observation[0, :, 0],
        batch.action[0, :, 0],
        batch.discount[0],
        batch.next_observation[0, :, 0],
    )
    assert set(zip(*(column.tolist() for column in columns), strict=True)) == {
        *((0, -1, 0.5, 3), (3, 0, 0.5, 6), (6, 0.5, 0, 9)),
        *((100, -1, 0.5, 103), (103, 0, 0.5, 106), (106, 0.5, 0.5, 109)),
    }
    assert make_agent(pendulum, settings=TINY).config.task == "Pendulum-v1"


def test_actions_on_asymmetric_bounds_are_taken():
    low, high = np.float32([-1.0, -0.8]), np.float32([-0.3, -0.6])

    def write(name, actions):
        buffer = episode(np.zeros((len(actions) + 1, 3)), actions)
        box = gym.spaces.Box(-1, 1, (3,), np.float32)
        spaces = {"action_space": gym.spaces.Box(low, high), "observation_space": box}
        minari.create_dataset_from_buffers(dataset_id=f"test/{name}-v0", buffer=[buffer], **spaces)
        with dataset.opened(Data(source=f"minari/test/{name}-v0", transitions=1)) as source:
            return dataset.read(source, 0.5).replay.action[: len(actions)]

    np.testing.assert_array_equal(write("bounds", np.stack([low, high])), [[-1, -1], [1, 1]])
    with pytest.raises(InputError, match=r"row 1 is outside \[-1, 1\]"):
        write("outside", np.stack([low, high * np.float32(0.99)]))


def test_one_that_is_not_here_says_how_to_get_it():
    with pytest.raises(InputError, match="simbav2 offline minari/none/such-v0 --download"):
        make_agent("minari/none/such-v0")
