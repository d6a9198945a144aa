"""Films of a policy: the first episodes of an evaluation, in real time."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from simbav2.envs.make import make_env
from simbav2.errors import InputError

if TYPE_CHECKING:
    from simbav2.agent import Agent

Picture = NDArray[np.uint8]  # [H, W, 3]

SECONDS = 10  # no further episode is begun once the film is so long; some of MyoSuite's last half a second
FASTEST = 50  # pictures a second; where decisions are more frequent, some are not shown
RENDER_FPS = 30  # simulator steps a second where the environment does not say


def film(agent: Agent, path: Path, episodes: int, seed: int | None = None) -> None:
    """Film the first of the `episodes` that an evaluation with `seed` plays."""
    if path.suffix != ".mp4":
        raise InputError(f"the video is to be called {str(path)!r}; expected a name that ends in .mp4")
    ffmpeg = _ffmpeg()
    seed = agent.evaluation_seed if seed is None else seed
    with make_env(agent.source, seed, agent.config.action_repeat, "rgb_array") as env:
        every, fps = pace(env)
        write(ffmpeg, path, pictures(agent, env, episodes, every, round(SECONDS * fps)), fps)


def pace(env: gym.Env) -> tuple[int, float]:
    """Every how many decisions to take a picture, and how many of them make a second of the simulation."""
    decisions_per_second = env.metadata.get("render_fps", RENDER_FPS) / env.get_wrapper_attr("action_repeat")
    every = math.ceil(decisions_per_second / FASTEST)
    return every, decisions_per_second / every


def pictures(agent: Agent, env: gym.Env, episodes: int, every: int, enough: int) -> Iterator[Picture]:
    """Whole episodes of the deterministic policy: `episodes` of them, or fewer if those have `enough` pictures."""
    taken = 0
    for _ in range(episodes):
        observation, _ = env.reset()
        decision, ended = 0, False
        while not ended:
            if decision % every == 0:
                taken += 1
                yield _picture(env)
            observation, _, terminated, truncated, _ = env.step(agent.act(observation[None], noise=0.0)[0])
            decision, ended = decision + 1, terminated or truncated
        yield _picture(env)  # how it ended
        if taken >= enough:
            return


def write(ffmpeg: str, path: Path, shown: Iterable[Picture], fps: float) -> None:
    """An mp4 file, written beside and renamed."""
    beside = path.with_name(f".{path.stem}.tmp.mp4")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _encode(ffmpeg, beside, iter(shown), fps)
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error}); choose another place for the video") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def _encode(ffmpeg: str, path: Path, shown: Iterator[Picture], fps: float) -> None:
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
            for picture in chain([first], shown):
                process.stdin.write(picture.tobytes())
        _, said = process.communicate()
    if process.returncode:
        raise OSError(" ".join(said.decode(errors="replace").split()) or f"ffmpeg ended with {process.returncode}")


def _picture(env: gym.Env) -> Picture:
    picture: Any = env.render()
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise InputError(f"{env.unwrapped} draws no pictures ({type(picture).__name__}); it cannot be filmed")
    return picture


def _ffmpeg() -> str:
    try:
        package = importlib.import_module("imageio_ffmpeg")  # the program itself is inside
    except ImportError as error:
        raise InputError(f"a video needs one more package ({error}); pip install 'simbav2[video]'") from error
    return package.get_ffmpeg_exe()
