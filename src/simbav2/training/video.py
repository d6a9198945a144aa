"""Videos of a policy: the first episodes of an evaluation, in real time."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from simbav2.agent import Agent
from simbav2.envs.make import make_env
from simbav2.errors import InputError
from simbav2.runtime import import_extra

Frame = NDArray[np.uint8]  # [H, W, 3]

SECONDS = 10  # no further episode is started once the video is so long; some of MyoSuite's last half a second
MAX_FPS = 50  # where decisions are more frequent, some are not shown
RENDER_FPS = 30  # simulator steps a second where the environment does not say


def record_video(agent: Agent, path: Path, episodes: int, seed: int | None = None) -> None:
    """Record the first of the `episodes` that an evaluation with `seed` plays."""
    if path.suffix != ".mp4":
        raise InputError(f"the video file is {str(path)!r}; expected a name that ends in .mp4")
    ffmpeg = _ffmpeg()
    seed = agent.evaluation_seed if seed is None else seed
    with make_env(agent.source, seed, agent.config.action_repeat, "rgb_array") as env:
        every, fps = pace(env)
        write(ffmpeg, path, frames(agent, env, episodes, every, round(SECONDS * fps)), fps)


def pace(env: gym.Env) -> tuple[int, float]:
    """Every how many decisions to render a frame, and the frames per second of simulated time."""
    decisions_per_second = env.metadata.get("render_fps", RENDER_FPS) / env.get_wrapper_attr("action_repeat")
    every = math.ceil(decisions_per_second / MAX_FPS)
    return every, decisions_per_second / every


def frames(agent: Agent, env: gym.Env, episodes: int, every: int, enough: int) -> Iterator[Frame]:
    """Whole episodes of the deterministic policy: `episodes` of them, or fewer if those have `enough` frames."""
    taken = 0
    for _ in range(episodes):
        observation, _ = env.reset()
        decision, ended = 0, False
        while not ended:
            if decision % every == 0:
                taken += 1
                yield _frame(env)
            observation, _, terminated, truncated, _ = env.step(agent.act(observation[None], noise=0.0)[0])
            decision, ended = decision + 1, terminated or truncated
        yield _frame(env)  # how it ended
        if taken >= enough:
            return


def write(ffmpeg: str, path: Path, shown: Iterable[Frame], fps: float) -> None:
    """An mp4 file, written under a temporary name and renamed."""
    temporary = path.with_name(f".{path.stem}.tmp.mp4")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _encode(ffmpeg, temporary, iter(shown), fps)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error}); choose another file for the video") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _encode(ffmpeg: str, path: Path, shown: Iterator[Frame], fps: float) -> None:
    first = next(shown)
    height, width, _ = first.shape
    taken = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:.6f}", "-i", "-"]
    # Players expect this format of pixels, which needs even sides.
    given = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-y", str(path)]
    command = [ffmpeg, "-loglevel", "error", *taken, *given]
    # Not by `imageio_ffmpeg.write_frames`: it runs Python code after the fork, which JAX's threads forbid.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # then it has already said why
            for frame in chain([first], shown):
                process.stdin.write(frame.tobytes())
        _, said = process.communicate()
    if process.returncode:
        raise OSError(" ".join(said.decode(errors="replace").split()) or f"ffmpeg ended with {process.returncode}")


def _frame(env: gym.Env) -> Frame:
    frame: Any = env.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise InputError(f"{env.unwrapped} renders no frames ({type(frame).__name__}); there is nothing to record")
    return frame


def _ffmpeg() -> str:
    return import_extra("imageio_ffmpeg", "a video", "video").get_ffmpeg_exe()  # the program itself is inside
