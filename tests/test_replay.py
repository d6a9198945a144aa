"""The replay: every observation stored once, successors right across episode ends, ring and environments."""

import resource

import numpy as np
import pytest

from simbav2.envs.vector import Step
from simbav2.replay import Replay


def step(next_observation, reward, terminated=False, truncated=False, observation=None, dropped=False) -> Step:
    """One environment; `observation` is what is acted on next, other than the successor where an episode ended."""
    successor = np.array([[next_observation]], np.float32)
    return Step(
        observation=successor if observation is None else np.array([[observation]], np.float32),
        next_observation=successor,
        reward=np.array([reward], np.float64),
        terminated=np.array([terminated]),
        truncated=np.array([truncated]),
        success=np.array([np.nan]),
        dropped=np.array([dropped]),
    )


def replay_of(path, capacity, n_step) -> Replay:
    replay = Replay(capacity, 1, 1, n_step=n_step, discount=0.5)
    for observation, outcome in path:
        replay.add(np.array([[observation]], np.float32), np.array([[observation / 100]], np.float32), outcome)
    return replay


def filled(capacity=100, n_step=1) -> Replay:
    """Observations 0 1 2 | 10 11 12: the first episode terminates at 3, the second is cut at 13; then 20, 21."""
    path = [
        (0, step(1, 1.0)),
        (1, step(2, 2.0)),
        (2, step(3, 4.0, terminated=True, observation=10)),
        (10, step(11, 8.0)),
        (11, step(12, 16.0)),
        (12, step(13, 32.0, truncated=True, observation=20)),
        (20, step(21, 64.0)),
    ]
    return replay_of(path, capacity, n_step)


def with_dropped_steps(capacity=100, n_step=1) -> Replay:
    """0 1 2 | 10 | 20 21: acting on 2 and on 10 failed, and new episodes began at 10 and 20."""
    path = [
        (0, step(1, 1.0)),
        (1, step(2, 2.0)),
        (2, step(0, 0.0, observation=10, dropped=True)),
        (10, step(0, 0.0, observation=20, dropped=True)),
        (20, step(21, 4.0)),
        (21, step(22, 8.0)),
    ]
    return replay_of(path, capacity, n_step)


def table(replay: Replay) -> dict[int, tuple[float, float, int]]:
    """observation -> (reward, discount, next observation), from many samples."""
    batch = replay.sample(4, 500, np.random.default_rng(0))
    columns = batch.observation, batch.reward, batch.discount, batch.next_observation
    rows = zip(*(column.ravel() for column in columns), strict=True)
    return {int(o): (float(r), float(d), int(n)) for o, r, d, n in rows}


def test_one_step():
    assert table(filled()) == {
        0: (1.0, 0.5, 1),
        1: (2.0, 0.5, 2),
        2: (4.0, 0.0, 3),  # terminated: no future
        10: (8.0, 0.5, 11),
        11: (16.0, 0.5, 12),
        12: (32.0, 0.5, 13),  # truncated: the future is that of the final observation
        20: (64.0, 0.5, 21),  # the newest: its successor is what will be acted on next
    }


def test_three_steps_stop_at_the_end_of_an_episode():
    assert table(filled(n_step=3)) == {
        0: (1.0 + 0.5 * 2.0 + 0.25 * 4.0, 0.0, 3),
        1: (2.0 + 0.5 * 4.0, 0.0, 3),
        2: (4.0, 0.0, 3),
        10: (8.0 + 0.5 * 16.0 + 0.25 * 32.0, 0.125, 13),
        11: (16.0 + 0.5 * 32.0, 0.25, 13),
        12: (32.0, 0.5, 13),
        20: (64.0, 0.5, 21),
    }


def test_the_ring_forgets_the_oldest_and_reuses_its_slots():
    replay = filled(capacity=3)
    assert len(replay) == 3
    assert table(replay) == {11: (16.0, 0.5, 12), 12: (32.0, 0.5, 13), 20: (64.0, 0.5, 21)}
    assert (
        len(replay.terminal_observations.rows) - len(replay.terminal_observations.free) == 2
    )  # nobody's, and the final observation 13


@pytest.mark.parametrize("n_step", [1, 3])
def test_environments_do_not_mix(n_step):
    # Environment e counts up from 100 e; its episodes end at different steps.
    num_envs, capacity = 3, 60
    replay = Replay(capacity, 1, 1, num_envs, n_step, discount=1.0)
    at = np.array([0, 1000, 2000], np.float32)
    for t in range(1, 200):
        ended = np.array([t % 5 == 0, t % 7 == 0, t % 11 == 0])
        after = at + 1
        start_of_next = np.where(ended, after + 3, after)
        none = np.zeros(num_envs, bool)
        outcome = Step(
            start_of_next[:, None], after[:, None], np.ones(num_envs), none, ended, np.full(num_envs, np.nan), none
        )
        replay.add(at[:, None], at[:, None], outcome)
        at = start_of_next
        batch = replay.sample(1, 64, np.random.default_rng(t))
        # Every step adds 1 and pays 1; an episode's end is never crossed.
        np.testing.assert_array_equal(batch.next_observation[..., 0] - batch.observation[..., 0], batch.reward)
        np.testing.assert_array_equal(batch.action, batch.observation)
    assert len(replay) == capacity
    assert batch.reward.max() == n_step


def test_sampling_is_uniform_and_seeded():
    replay = filled()
    first = replay.sample(2, 32, np.random.default_rng(5))
    again = replay.sample(2, 32, np.random.default_rng(5))
    assert first.observation.shape == (2, 32, 1)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    counts = np.unique(replay.sample(70, 1000, np.random.default_rng(0)).observation, return_counts=True)[1]
    np.testing.assert_allclose(counts, 10_000, rtol=0.05)


def test_samples_are_the_callers_to_keep():
    replay = filled()
    batch = replay.sample(1, 32, np.random.default_rng(0))
    before = batch.next_observation.copy()
    replay.observation[:] = -1
    np.testing.assert_array_equal(batch.next_observation, before)


def test_a_million_transitions_of_humanoid_fit_and_grow_only_as_they_come():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replay = Replay(1_000_000, 376, 17)
    observation, action = np.zeros((1, 376), np.float32), np.zeros((1, 17), np.float32)
    outcome = Step(observation, observation, np.zeros(1), *np.zeros((2, 1), bool), np.zeros(1), np.zeros(1, bool))
    for _ in range(1_000):
        replay.add(observation, action, outcome)
    assert replay.nbytes <= 1.7e9
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 0.05 * replay.nbytes


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("steps", [7, 40, 95])
def test_parts_there_and_back(num_envs, steps):
    """Taken back from parts of any size, with more in them than the ring still holds, it samples the same bits."""
    rng = np.random.default_rng(steps)
    replay, again = (Replay(40 * num_envs, 2, 1, num_envs, n_step=2) for _ in range(2))
    parts = []

    def add(replay: Replay, rng: np.random.Generator) -> None:
        after, first = rng.normal(size=(2, num_envs, 2)).astype(np.float32)
        terminated, truncated = rng.random((2, num_envs)) < 0.1
        dropped = (rng.random(num_envs) < 0.2) & ~terminated & ~truncated
        first_next = (terminated | truncated | dropped)[:, None]
        reward = rng.normal(size=num_envs)
        outcome = Step(np.where(first_next, first, after), after, reward, terminated, truncated, after, dropped)
        replay.add(replay.head.copy(), rng.normal(size=(num_envs, 1)).astype(np.float32), outcome)

    for count in range(1, steps + 1):
        add(replay, rng)
        if count % 9 == 0 or count == steps:
            done = parts[-1][1] if parts else 0
            parts.append((done, count, replay.export_rows(done, count)))
    again.added = replay.added
    for first, last, part in parts:
        if last > again.oldest:
            again.import_rows(first, part)
    again.head[:] = replay.head
    for later in range(60):
        for one, two in zip(
            *(r.sample(2, 50, np.random.default_rng(later)) for r in (replay, again)), strict=True
        ):
            np.testing.assert_array_equal(one, two)
        for each in (replay, again):
            add(each, np.random.default_rng(later))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"ended": ended}, "out of order") for ended in ([5, 2], [-1, 2], [2, 7], [2, 2])),
        *(({"dropped": dropped}, "out of order") for dropped in ([4, 3], [7])),
        ({"dropped": [3, 5]}, "ends an episode"),  # episodes end in rows 2 and 5
    ],
)
def test_rows_out_of_order_are_refused(change, message):
    replay = Replay(100, 1, 1)
    replay.added = 7
    with pytest.raises(ValueError, match=message):
        replay.import_rows(0, filled().export_rows(0, 7) | {name: np.array(rows) for name, rows in change.items()})


def test_a_dropped_step_is_never_sampled():
    replay = with_dropped_steps()
    assert (len(replay), replay.held) == (4, 6)
    assert table(replay) == {
        0: (1.0, 0.5, 1),
        1: (2.0, 0.5, 2),  # the observation that was acted on in vain is still what it led to
        20: (4.0, 0.5, 21),
        21: (8.0, 0.5, 22),
    }
    counts = np.unique(replay.sample(40, 1000, np.random.default_rng(0)).observation, return_counts=True)[1]
    np.testing.assert_allclose(counts, 10_000, rtol=0.05)


def test_three_steps_stop_before_a_dropped_one():
    assert table(with_dropped_steps(n_step=3)) == {
        0: (1.0 + 0.5 * 2.0, 0.25, 2),
        1: (2.0, 0.5, 2),
        20: (4.0 + 0.5 * 8.0, 0.25, 22),
        21: (8.0, 0.5, 22),
    }


def test_dropped_steps_leave_the_ring_and_only_they_change_what_is_drawn():
    replay = with_dropped_steps(capacity=3)  # holds 10 (dropped), 20 and 21
    assert (len(replay), replay.dropped) == (2, 1)
    assert table(replay) == {20: (4.0, 0.5, 21), 21: (8.0, 0.5, 22)}
    observation = np.array([[22]], np.float32)
    replay.add(observation, observation, step(23, 16.0))
    assert (len(replay), replay.dropped) == (3, 0)
    drawn, rng = replay.sample(1, 100, np.random.default_rng(3)), np.random.default_rng(3)
    np.testing.assert_array_equal(drawn.observation[0, :, 0], 20 + rng.integers(3, size=(1, 100))[0])


def test_a_replay_of_dropped_steps_alone_has_nothing_to_sample():
    replay = Replay(5, 1, 1)
    replay.add(np.zeros((1, 1)), np.zeros((1, 1)), step(0, 0.0, dropped=True))
    with pytest.raises(ValueError, match="no transition to sample"):
        replay.sample(1, 4, np.random.default_rng(0))


def test_parts_without_dropped_steps_are_written_as_before():
    assert "dropped" not in filled().export_rows(0, 7)
    np.testing.assert_array_equal(with_dropped_steps().export_rows(1, 6)["dropped"], [1, 2])


def test_recent_actions_in_order():
    actions = filled().recent_actions([3])[0]
    np.testing.assert_allclose(actions[:, 0], [0.11, 0.12, 0.20])
    assert filled().recent_actions([0])[0].shape == (0, 1)
