"""Videos: how fast, how long, and that a file is there only when it is whole."""

import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from simbav2.envs.make import make_env
from simbav2.errors import InputError
from simbav2.training import video


class Clock(gym.Env):
    """Each frame is as bright as the step's number; 11 steps an episode, and an odd number of pixels."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = Box(-1, 1, (1,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 0.0, False, self.time == 11, {}

    def render(self):
        return np.full((33, 47, 3), 10 * self.time, np.uint8)


class Still:
    """An agent that does nothing."""

    def act(self, observation, noise):
        assert noise == 0
        return np.zeros((len(observation), 1), np.float32)


@pytest.fixture
def ffmpeg() -> str:
    pytest.importorskip("imageio_ffmpeg", reason="pip install 'simbav2[video]'")
    return video._ffmpeg()


@pytest.mark.parametrize(
    ("fps", "repeat", "expected"), [(50, 2, (1, 25)), (125, 1, (3, 125 / 3)), (12, 2, (1, 6))]
)
def test_videos_run_in_real_time_with_at_most_fifty_frames_a_second(fps, repeat, expected):
    env = make_env(Clock(), action_repeat=repeat)
    env.unwrapped.metadata = {"render_fps": fps}
    assert video.pace(env) == expected


@pytest.mark.parametrize(
    ("repeat", "every", "episodes", "enough", "expected"),
    [
        (1, 1, 1, 100, [*range(12)]),
        (2, 1, 1, 100, [0, 2, 4, 6, 8, 10, 11]),
        (1, 5, 1, 100, [0, 5, 10, 11]),
        (1, 5, 9, 4, [0, 5, 10, 11, 0, 5, 10, 11]),  # three frames are not enough, six are
        (1, 11, 3, 100, [0, 11] * 3),
    ],
)
def test_whole_episodes_are_shown_until_the_video_is_long_enough(repeat, every, episodes, enough, expected):
    shown = video.frames(Still(), make_env(Clock(), action_repeat=repeat), episodes, every, enough)
    assert [frame[0, 0, 0] // 10 for frame in shown] == expected


def test_a_file_has_the_given_pace_and_even_sides(ffmpeg, tmp_path):
    path = tmp_path / "new folder" / "video.mp4"
    video.write(ffmpeg, path, video.frames(Still(), make_env(Clock()), 1, 1, 1), 20.0)
    assert [file.name for file in path.parent.iterdir()] == ["video.mp4"]
    told = subprocess.run([ffmpeg, "-i", path], capture_output=True, text=True).stderr
    assert re.search(r"h264.*yuv420p.*48x34.*20 fps", told)
    assert "Duration: 00:00:00.60" in told  # twelve frames


def test_a_video_that_fails_leaves_nothing_and_keeps_an_older_one(ffmpeg, tmp_path):
    path = tmp_path / "video.mp4"
    path.write_bytes(b"an older video")

    def breaks_off():
        yield np.zeros((32, 32, 3), np.uint8)
        raise RuntimeError("the simulator")

    with pytest.raises(RuntimeError, match="the simulator"):
        video.write(ffmpeg, path, breaks_off(), 20.0)
    assert path.read_bytes() == b"an older video"
    assert [file.name for file in tmp_path.iterdir()] == ["video.mp4"]
    for bad in (path / "video.mp4", tmp_path):
        with pytest.raises(InputError, match=r"cannot write .*; choose another file"):
            video.write(ffmpeg, bad, iter([np.zeros((32, 32, 3), np.uint8)]), 20.0)


def test_what_is_missing_is_said_before_anything_is_played(monkeypatch, tmp_path):
    agent = Still()  # is not even asked
    with pytest.raises(InputError, match=r"'.*video.avi'; expected a name that ends in .mp4"):
        video.record_video(agent, tmp_path / "video.avi", 1)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InputError, match=r"a video needs one more package .*; pip install 'simbav2\[video\]'"):
        video.record_video(agent, tmp_path / "video.mp4", 1)


def test_an_environment_without_frames_cannot_be_recorded():
    env = Clock()
    env.render = lambda: None
    env.reset()
    with pytest.raises(InputError, match="renders no frames"):
        video._frame(env)
