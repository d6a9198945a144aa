"""Data sets: exactly the expected transitions, one clear line for every fault, and files that are fetched."""

import tracemalloc

import h5py
import numpy as np
import pytest
from offline_files import EPISODES, columns, mirrored, write_columns
from servers import NOBODY

from simbav2 import InputError, datasets
from simbav2.cli import main
from simbav2.config import Data
from simbav2.datasets import dataset, hdf5
from simbav2.normalization import RunningStatistics

DISCOUNT = 0.5


def read(path, n_step=1) -> dataset.Dataset:
    with hdf5.opened(path) as source:
        return dataset.read(source, DISCOUNT, n_step)


def transitions(data: dataset.Dataset) -> set[tuple[float, ...]]:
    """(observation, action, reward, discount, next observation) of every row; after a true end, none."""
    batch = data.replay.sample(1, 2_000, np.random.default_rng(0))
    rows = zip(*(np.reshape(column, (2_000, -1))[:, 0].tolist() for column in batch), strict=True)
    return {(*row[:4], row[4] if row[3] else None) for row in rows}


# observation, action, reward, discount, next observation; the first terminates, the second is cut by time.
FIRST = {(0, 0, 1, 0.5, 1), (1, 0.125, 2, 0.5, 2), (2, 0.25, 4, 0, None)}
SECOND = {(10, 0.5, 8, 0.5, 11), (11, 0.625, 16, 0.5, 12)}
LAST_OF_SECOND = {(12, 0.75, 32, 0.5, 13)}
THIRD = {(20, 0, 64, 0.5, 21)}  # the file ends in its middle


@pytest.mark.parametrize("block", [2, 3, 1 << 16], ids=["blocks of 2", "blocks of 3", "one block"])
def test_successors_are_stored_or_derived_up_to_the_ends_of_episodes(tmp_path, monkeypatch, block):
    monkeypatch.setattr(hdf5, "BLOCK", block)
    data = read(write_columns(tmp_path / "a.hdf5"))
    assert transitions(data) == FIRST | SECOND | LAST_OF_SECOND | THIRD
    assert data.episode_end.tolist() == [False, False, True, False, False, True, True]
    # Without stored ones, nothing tells what followed the last row of a truncated episode: it is left out.
    data = read(write_columns(tmp_path / "b.hdf5", next_observations=None))
    assert transitions(data) == FIRST | SECOND
    assert data.episode_end.tolist() == [False, False, True, False, True]


def test_a_successor_that_is_not_the_next_row_is_kept(tmp_path):
    stored = columns()["next_observations"]
    stored[3] = 99.0
    data = read(write_columns(tmp_path / "a.hdf5", next_observations=stored))
    assert (10, 0.5, 8, 0.5, 99) in transitions(data)
    assert data.episode_end.tolist() == [False, False, True, False, False, True, True]


def test_n_step_returns_stay_in_their_episode(tmp_path):
    rows = transitions(read(write_columns(tmp_path / "a.hdf5"), n_step=3))
    assert (0, 0, 1 + 2 / 2 + 4 / 4, 0, None) in rows
    assert (11, 0.625, 16 + 32 / 2, 0.25, 13) in rows


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "deep" / "b.hdf5"
    assert hdf5.write(path, "mujoco/Hopper-v4", EPISODES) == 7
    assert transitions(read(path)) == transitions(read(write_columns(tmp_path / "a.hdf5")))
    with h5py.File(path) as file:
        assert set(file) == {"observations", "next_observations", "actions", "rewards", "terminals", "timeouts"}
        assert {str(file[key].dtype) for key in file} == {"float32", "bool"}
        assert file["timeouts"][:].tolist() == [False] * 5 + [True, True]


def test_the_digest_is_of_the_transitions(tmp_path):
    plain = read(write_columns(tmp_path / "a.hdf5")).sha256()
    assert read(write_columns(tmp_path / "b.hdf5", compression="gzip")).sha256() == plain
    altered = columns()["next_observations"]
    altered[5] = 14.0  # what the last step of an episode led to
    assert read(write_columns(tmp_path / "c.hdf5", next_observations=altered)).sha256() != plain
    moved = Data(source=str(tmp_path / "c.hdf5"), transitions=7, sha256=plain)
    with pytest.raises(InputError, match="other data than the run started with"):
        dataset.load(moved, DISCOUNT)


def test_statistics_are_those_of_one_ordered_pass(tmp_path):
    rng = np.random.default_rng(0)
    episodes = [
        hdf5.Episode(
            rng.normal(3, 2, (length + 1, 4)).astype(np.float32),
            rng.uniform(-1, 1, (length, 2)).astype(np.float32),
            rng.normal(1, 1, length).astype(np.float32),
            terminated=bool(length % 2),
        )
        for length in rng.integers(1, 40, 30)
    ]
    hdf5.write(tmp_path / "a.hdf5", "any", episodes)
    with hdf5.opened(tmp_path / "a.hdf5") as source:
        found = dataset.read(source, 0.97).statistics(num_envs=1)
    expected = RunningStatistics.start(4, 1)
    for episode in episodes:
        for row, reward in enumerate(episode.reward):
            over = np.array([row == len(episode.reward) - 1])
            expected = expected.with_observation(episode.observation[row][None])
            expected = expected.with_reward(np.array([reward]), over, 0.97)
    np.testing.assert_allclose(found.observation.mean, expected.observation.mean, rtol=1e-12)
    np.testing.assert_allclose(found.observation.variance, expected.observation.variance, rtol=1e-12)
    np.testing.assert_allclose(found.returns.moments.variance, expected.returns.moments.variance, rtol=1e-12)
    assert found.returns.largest == expected.returns.largest
    assert found.returns.running.tolist() == [0.0]


@pytest.mark.full
@pytest.mark.parametrize("compression", [None, "gzip"], ids=["plain", "compressed"])
def test_a_million_transitions_take_little_more_memory_than_their_arrays(tmp_path, compression):
    rng, rows = np.random.default_rng(0), 1_000_000
    observations = rng.standard_normal((rows + 1, 17), np.float32)
    ends = np.arange(rows) % 1000 == 999
    content = {
        "observations": observations[:-1],
        "next_observations": observations[1:],
        "actions": rng.uniform(-1, 1, (rows, 6)).astype(np.float32),
        "rewards": rng.standard_normal(rows, np.float32),
        "terminals": np.zeros(rows, np.bool_),
        "timeouts": ends,
    }
    path = write_columns(tmp_path / "big.hdf5", compression=compression, **content)
    size = sum(column.nbytes for key, column in content.items() if key != "next_observations")
    tracemalloc.start()
    with hdf5.opened(path) as source:
        data = dataset.read(source, 0.99)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) == rows
    assert peak < 1.5 * size


# Faults. --------------------------------------------------------------------------------------------------


def spoiled(key: str, row: int, value: float) -> np.ndarray:
    column = columns()[key]
    column[row] = value
    return column


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": None}, "a.hdf5 lacks rewards; it has actions, "),
        ({"timeouts": None}, "a.hdf5 lacks timeouts"),
        ({"rewards": np.zeros(6, np.float32)}, "a.hdf5 rewards has 6 rows, observations have 7"),
        ({"next_observations": np.zeros((7, 3), np.float32)}, r"a.hdf5 next_observations has shape \(7, 3\)"),
        ({"actions": np.zeros(7, np.float32)}, r"a.hdf5 actions has shape \(7,\); expected 2 dimensions"),
        ({"observations": spoiled("observations", 4, np.nan)}, "a.hdf5 observations row 4 is not finite"),
        ({"rewards": spoiled("rewards", 6, np.inf)}, "a.hdf5 rewards row 6 is not finite"),
        ({"next_observations": spoiled("next_observations", 2, np.nan)}, "next_observations row 2 is not finite"),
        ({"actions": spoiled("actions", 5, -1.5)}, r"a.hdf5 actions row 5 is outside \[-1, 1\]"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_faults_are_told_in_one_line(tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as error:
        read(write_columns(tmp_path / "a.hdf5", **changes))
    assert "\n" not in str(error.value)


def test_a_truncated_file_and_one_without_transitions_are_refused(tmp_path):
    path = write_columns(tmp_path / "a.hdf5")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"a.hdf5 cannot be read .*truncated"):
        read(path)
    one = {key: column[-1:] for key, column in columns().items()} | {"next_observations": None}
    with pytest.raises(InputError, match="holds no transition"):
        read(write_columns(tmp_path / "b.hdf5", **one))


# D4RL. ----------------------------------------------------------------------------------------------------

NAME = "d4rl/walker2d-medium-v2"


@pytest.fixture
def server(tmp_path, monkeypatch):
    with mirrored(write_columns(tmp_path / "source.hdf5"), monkeypatch, tmp_path / "cache") as server:
        yield server


def test_a_file_is_fetched_once_and_checked_at_every_use(server):
    with pytest.raises(InputError, match=f"simbav2 offline {NAME} --download"):
        dataset.locate(NAME)
    path = dataset.fetch(NAME)
    assert dataset.fetch(NAME) == path == str(dataset.locate(NAME))
    assert server.asked == ["/d4rl/walker2d_medium-v2.hdf5 bytes=0-"]
    dataset.locate(NAME).write_bytes(b"x")
    with pytest.raises(InputError, match=r"walker2d_medium-v2.hdf5 is damaged"):
        dataset.locate(NAME)
    with pytest.raises(InputError, match=r"did you mean 'd4rl/hopper-medium-replay-v2'"):
        dataset.locate("d4rl/hopper-medium-reply-v2")


def test_the_command_fetches_all_nine_and_fails_in_one_line(server, monkeypatch, capsys):
    assert main(["offline", "--download"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(set(server.asked)) == 9
    dataset.locate(NAME).unlink()
    monkeypatch.setattr(datasets, "MIRRORS", (NOBODY,))
    assert main(["offline", NAME, "--download"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "could not be downloaded" in line
    assert "walker2d_medium-v2.hdf5" in line


def test_the_checker_reports_facts_and_problems(tmp_path):
    facts = dataset.examine(write_columns(tmp_path / "a.hdf5"))
    assert (facts["rows"], facts["transitions"], facts["episodes"], facts["terminated"]) == (7, 7, 3, 1)
    assert facts["return"] == {"mean": (7 + 56 + 64) / 3, "lowest": 7.0, "highest": 64.0}
    assert facts["length"] == {"mean": 7 / 3, "lowest": 1.0, "highest": 3.0}
    assert facts["ranges"]["observations"] == [0.0, 20.0]
    assert facts["shapes"]["actions"] == [7, 1, "float32"]
    assert (facts["duplicates"], facts["problems"]) == (0, [])
    bad = columns()
    bad["observations"][1], bad["actions"][1] = bad["observations"][0], bad["actions"][0]
    bad["rewards"][2], bad["actions"][6] = np.nan, 2.0
    facts = dataset.examine(write_columns(tmp_path / "b.hdf5", **bad))
    assert facts["duplicates"] == 1
    assert facts["problems"] == [
        "actions: 1 rows are outside [-1, 1], the first is row 6",
        "rewards: 1 rows are not finite, the first is row 2",
    ]
