"""Environments in worker processes: the bits of one process, and what happens to a worker is told."""

import mmap
import os
import re
import signal
import sys
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from simbav2 import Failure, InputError
from simbav2.config import Config, override
from simbav2.envs import workers
from simbav2.envs.vector import make_vector_env
from simbav2.envs.workers import EnvWorkers, ProcessWorker, Share
from simbav2.errors import BadStep

RAISE, EXIT = 0.95, 0.85  # actions


class Obedient(gym.Env):
    """Observes [a number of the episode, step, last action]; terminates or is truncated after 2 to 5 steps."""

    action_space = Box(-1, 1, (1,), np.float32)
    observation_space = Box(-np.inf, np.inf, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start, self.time = self.np_random.integers(1000), 0
        return np.array([self.start, 0, 0], np.float64), {}

    def step(self, action):
        print("what a simulator prints is no answer")
        if action[0] > 0.9:
            raise OSError("the simulator is gone")
        if action[0] > 0.8:
            os._exit(7)
        self.time += 1
        over, odd = self.time == 2 + self.start % 4, bool(self.start % 2)
        observation = np.array([self.start, self.time, action[0]], np.float64)
        return observation, float(action[0]), over and odd, over and not odd, {"success": over and odd}


class WithoutJax(Obedient):
    def __init__(self):
        assert "jax" not in sys.modules


def broken():
    raise RuntimeError("no licence")


def vector():
    return gym.vector.SyncVectorEnv([Obedient], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)


def chosen(*special):
    """Actions of five environments: (environment, action), the others rest."""
    actions = np.zeros((5, 1), np.float32)
    for env, action in special:
        actions[env] = action
    return actions


def assert_same(one, two):
    for name, a, b in zip(one._fields, one, two, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
        assert (a.dtype, a.flags.writeable) == (b.dtype, b.flags.writeable)


@pytest.mark.parametrize("source", [Obedient, "mujoco/Hopper-v4"])
def test_workers_give_the_bits_of_one_process(source):
    settings = {"seed": 3, "num_envs": 5}
    with make_vector_env(source, **settings) as one, make_vector_env(source, **settings, workers=2) as two:
        assert (two.task, two.num_envs, two.spaces.actions.size) == (one.task, 5, one.action_size)
        both = one, two
        np.testing.assert_array_equal(one.reset(), two.reset())
        np.testing.assert_array_equal(one.reset(), two.reset())  # the next episodes
        actions = np.random.default_rng(0).uniform(-0.8, 0.8, (60, 5, one.action_size)).astype(np.float32)
        ends = 0
        for action in actions:
            step = one.step(action)
            assert_same(step, two.step(action))
            assert one.episodes == two.episodes
            ends += (step.terminated | step.truncated).sum()
        assert ends >= 4
        for envs in both:
            envs.episodes = [4, 0, 2, 2, 0]
        np.testing.assert_array_equal(one.reset(), two.reset())
        # The middle of episodes: one decision of each, two of the fourth.
        played = [actions[: 1 + (env == 3), env] for env in range(5)]
        episodes = [7, 1, 0, 2, 3]
        np.testing.assert_array_equal(*(envs.restore(episodes, played) for envs in both))
        assert one.episodes == two.episodes == episodes
        assert_same(one.step(actions[5]), two.step(actions[5]))
        # An episode that ends before its actions do cannot be restored.
        assert [envs.restore([0] * 5, list(actions[:, :5].swapaxes(0, 1))) for envs in both] == [None, None]


def test_faults_of_environments_are_dropped_or_raised_as_in_one_process(caplog):
    told = []
    for count in (0, 2):
        caplog.clear()
        with make_vector_env(Obedient, num_envs=5, drop_bad_steps="any", workers=count) as envs:
            envs.reset()
            envs.step(chosen())
            step = envs.step(chosen((3, RAISE)))
            assert step.dropped.tolist() == [False, False, False, True, False]
            told.append((caplog.messages, envs.last_fault, envs.episodes, *map(np.ndarray.tolist, step[:5])))
    assert told[0] == told[1]
    assert "environment 3, episode 0, step 2: OSError: the simulator is gone" in told[1][0][0]

    with make_vector_env(Obedient, num_envs=5, workers=2) as envs:
        first = envs.reset()
        with pytest.raises(BadStep, match="Obedient, seed 0, environment 3, episode 0, step 1: OSError"):
            envs.step(chosen((3, RAISE)))
        assert envs.episodes == [0] * 5
        np.testing.assert_array_equal(envs.reset(), first)  # none was skipped


def test_a_worker_that_dies_is_named_and_all_end():
    with make_vector_env(Obedient, num_envs=5, workers=2) as envs:
        envs.reset()
        processes = [worker.process for worker in envs._workers]
        with pytest.raises(BadStep, match=r"environments 2 to 4: worker process \d+ ended with exit code 7"):
            envs.step(chosen((3, EXIT)))
        assert envs.episodes == [0] * 5
        with pytest.raises(BadStep, match="exit code 7"):
            envs.reset()
        assert all(process.poll() is not None for process in processes)
    with make_vector_env(Obedient, workers=1) as envs:
        envs._workers[0].process.send_signal(signal.SIGKILL)
        with pytest.raises(BadStep, match=r"environment 0: .* killed by SIGKILL \(out of memory\?\)"):
            envs.reset()


def test_a_lost_worker_that_may_be_replaced_costs_its_episodes(caplog):
    shares = [Share(Obedient, 0, first, size, 5, None, "diverged") for first, size in ((0, 2), (2, 3))]
    with (
        EnvWorkers(shares, ProcessWorker, ProcessWorker) as envs,
        make_vector_env(Obedient, num_envs=5) as whole,
    ):
        whole.reset()
        envs.reset()
        envs._workers[1].process.kill()
        expected, step = whole.step(chosen()), envs.step(chosen())
        assert step.dropped.tolist() == [False, False, True, True, True]
        assert envs.lost == 3
        assert envs.episodes == [0, 0, 1, 1, 1]
        (message,) = caplog.messages
        assert re.search("environments 2 to 4: .* SIGKILL .*; replaced, and cut: episode 0, 0, 0$", message)
        for ours, theirs in zip(step, expected, strict=True):
            np.testing.assert_array_equal(ours[:2], theirs[:2])
        whole.episodes = [1] * 5
        np.testing.assert_array_equal(step.observation[2:], whole.reset()[2:])
        assert not step.reward[2:].any()
        assert not step.next_observation[2:].any()
        assert not (step.terminated | step.truncated).any()
        assert not envs.step(chosen()).dropped.any()
        assert envs.lost == 0
        # Between steps nothing is lost.
        envs._workers[0].process.kill()
        played = [chosen()[:1]] * 5
        np.testing.assert_array_equal(*(each.restore([2] * 5, played) for each in (envs, whole)))
        assert envs.episodes == [2] * 5


def test_workers_need_no_jax_and_end_when_nobody_holds_them():
    envs = make_vector_env(WithoutJax, num_envs=2, workers=1)
    process = envs._workers[0].process
    del envs
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (broken, Failure, "RuntimeError: no licence"),
        (vector, InputError, "expected a single environment"),
        (Obedient(), InputError, "env_workers is 1, but .* came; give an id or a callable"),
        (lambda lock=threading.Lock(): lock, InputError, "cannot be sent to workers: .*lock"),  # noqa: B008
        ("dmc/cartpole-balanse", InputError, "dmc/cartpole-balance"),
    ],
)
def test_what_cannot_be_made_in_a_worker_is_told_in_one_line(source, error, message):
    with pytest.raises(error, match=message) as caught:
        make_vector_env(source, workers=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_workers": 5}, "env_workers is 5, but num_envs is 4; expected at most one"),
        ({"evaluation_workers": 5}, "evaluation_workers is 5, but num_envs is 4"),
        ({"env_backend": "ray"}, "env_backend is ray, but env_workers is 0; expected at least 1"),
        (
            {"env_workers": 2, "address": "head:6379"},
            "address is head:6379, but env_backend is local; expected ray",
        ),
    ],
)
def test_workers_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        override(Config(), {"num_envs": 4, **settings})


def test_workers_do_not_change_the_name_of_a_run():
    plain = override(Config(), {"num_envs": 4})
    assert override(plain, {"env_workers": 2, "evaluation_workers": 4}).name == plain.name


def test_arrays_that_exceed_the_shared_memory_go_through_the_pipe(monkeypatch):
    monkeypatch.setattr(workers, "MEMORY", mmap.PAGESIZE)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as incoming, os.fdopen(writing, "wb") as outgoing:
        channel = workers.Channel(incoming, outgoing, mmap.mmap(-1, mmap.PAGESIZE))
        sent = [np.arange(100), np.arange(2_000.0), np.arange(50)]
        channel.send(sent)
        received = channel.receive()
        channel.send(received[:1])  # the memory is used again, what was received is not touched
    for one, two in zip(sent, received, strict=True):
        np.testing.assert_array_equal(one, two)
        assert two.flags.writeable


def test_a_cluster_that_is_not_there_is_told_in_one_line():
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"^no Ray cluster at 127.0.0.1:1: .*Connection refused$"):
        make_vector_env(Obedient, workers=1, backend="ray", address="127.0.0.1:1")
