"""Rendering with an offscreen GL library, which is chosen when the first frame is needed.

A missing GL library must never stop a training run, and a broken one can abort the whole process. So nothing
here runs unless `render_mode` is given, and each library is first tried in a separate process.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from simbav2.errors import InputError

if TYPE_CHECKING:  # importing it may fail: see `check_import`
    import mujoco

FRAME_SIZE = 480  # pixels, Gymnasium's default
SHADOW_SIZE = 2048  # pixels at most
REMEDY = "install libegl1 or libosmesa6 (Debian, Ubuntu) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"

_DRAW_ONE_FRAME = """
import mujoco
from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = MujocoRenderer(model, data, width=16, height=16, camera_id=-1)
assert renderer.render("rgb_array").any()
renderer.close()
"""


def draws(library: str) -> bool:
    """Whether `library`, a value of MUJOCO_GL, can draw a frame."""
    environment = os.environ | {"MUJOCO_GL": library}
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", _DRAW_ONE_FRAME], env=environment, capture_output=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def check_import() -> None:
    """Importing MuJoCo fails where MUJOCO_GL is misspelt, or names OSMesa and it is missing."""
    try:
        import mujoco  # noqa: F401
    except (AttributeError, RuntimeError) as error:
        library = os.environ.get("MUJOCO_GL")
        raise InputError(f"MuJoCo fails with MUJOCO_GL={library} ({error}); unset it, or {REMEDY}") from error


@functools.cache
def choose_library() -> str:
    """Set MUJOCO_GL to a library that draws, unless it is set already; an InputError where none does."""
    chosen = os.environ.get("MUJOCO_GL")
    candidates = (chosen,) if chosen else ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("glfw",)
    for library in candidates:
        if draws(library):
            os.environ["MUJOCO_GL"] = library
            return library
    raise InputError(f"no frame can be drawn with MUJOCO_GL={' or '.join(candidates)}; {REMEDY}")


class Camera:
    """One camera of a model, by name or number. No GL context before the first frame."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, camera: str | int) -> None:
        self._model, self._data = model, data
        self._camera = model.camera(camera).id
        self._viewer: Any = None

    def frame(self, markers: list[dict[str, Any]]) -> NDArray[np.uint8]:
        """What the camera sees, with `markers` (keywords of Gymnasium's `add_marker`) added."""
        if self._viewer is None:
            # Here, because importing it looks for a display.
            from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

            # Without a graphics card four samples a pixel, or HumanoidBench's shadow map of 16384 x 16384 (a
            # gigabyte), take most of a second per frame, and a video shows little of either.
            quality, buffer = self._model.vis.quality, self._model.vis.global_
            quality.offsamples, quality.shadowsize = 0, min(quality.shadowsize, SHADOW_SIZE)
            buffer.offwidth = max(buffer.offwidth, FRAME_SIZE)
            buffer.offheight = max(buffer.offheight, FRAME_SIZE)
            self._viewer = OffScreenViewer(self._model, self._data, FRAME_SIZE, FRAME_SIZE)
        self._viewer.make_context_current()  # another environment's may be
        for marker in markers:
            self._viewer.add_marker(**marker)
        frame: NDArray[np.uint8] = self._viewer.render("rgb_array", self._camera)
        return frame

    def close(self) -> None:
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None


class RenderedEnv(gym.Env):
    """An environment with a MuJoCo model that one camera looks at."""

    def __init__(self, render_mode: str | None, fps: int, camera: Camera) -> None:
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode is {render_mode!r}; expected 'rgb_array', or None for no frames")
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}
        self.render_mode = render_mode
        self._camera = camera

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        return self._camera.frame(self._markers()) if self.render_mode else None

    def close(self) -> None:
        self._camera.close()

    def _markers(self) -> list[dict[str, Any]]:
        return []
