"""Where pictures come from: an offscreen GL library, chosen only when a picture is asked for.

A missing GL library must never stop a training run, and a broken one can abort the whole process. So nothing
here runs unless `render_mode` is given, and each library is tried in a process of its own first.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from simbav2.errors import InputError

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

PICTURE_SIZE = 480  # pixels, the side of Gymnasium's own
SHADOW_SIZE = 2048  # pixels at most
REMEDY = "install libegl1 or libosmesa6 (Debian, Ubuntu) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"

_PICTURE = """
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
    """Whether a picture can be drawn with `library`, a value of MUJOCO_GL."""
    environment = os.environ | {"MUJOCO_GL": library}
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", _PICTURE], env=environment, capture_output=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def check_import() -> None:
    """MuJoCo cannot even be imported where MUJOCO_GL names OSMesa and it is missing, or is misspelt."""
    try:
        import mujoco  # noqa: F401
    except (AttributeError, RuntimeError) as error:
        library = os.environ.get("MUJOCO_GL")
        raise InputError(f"MuJoCo fails with MUJOCO_GL={library} ({error}); unset it, or {REMEDY}") from error


@functools.cache
def choose_library() -> str:
    """Set MUJOCO_GL to a library that draws, unless it is set already; refuse where none does."""
    chosen = os.environ.get("MUJOCO_GL")
    candidates = (chosen,) if chosen else ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("glfw",)
    for library in candidates:
        if draws(library):
            os.environ["MUJOCO_GL"] = library
            return library
    raise InputError(f"no picture can be drawn with MUJOCO_GL={' or '.join(candidates)}; {REMEDY}")


def check_mode(render_mode: str | None) -> None:
    if render_mode not in (None, "rgb_array"):
        raise InputError(f"render_mode is {render_mode!r}; expected 'rgb_array', or None for no pictures")


class Camera:
    """One of a model's cameras, by name or number. No GL context before the first picture."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, camera: str | int) -> None:
        self._model, self._data = model, data
        self._camera = model.camera(camera).id
        self._viewer: Any = None

    def picture(self, *markers: dict[str, Any]) -> NDArray[np.uint8]:
        """What the camera sees, and `markers` besides (keywords of Gymnasium's `add_marker`)."""
        if self._viewer is None:
            # Here, because importing it looks for a display.
            from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

            # Without a graphics card four samples a pixel, or HumanoidBench's shadow map of 16384 x 16384 (a
            # gigabyte), make a picture last most of a second; a film shows little of either.
            quality, buffer = self._model.vis.quality, self._model.vis.global_
            quality.offsamples, quality.shadowsize = 0, min(quality.shadowsize, SHADOW_SIZE)
            buffer.offwidth, buffer.offheight = (
                max(buffer.offwidth, PICTURE_SIZE),
                max(buffer.offheight, PICTURE_SIZE),
            )
            self._viewer = OffScreenViewer(self._model, self._data, PICTURE_SIZE, PICTURE_SIZE)
        self._viewer.make_context_current()  # another environment's may be
        for marker in markers:
            self._viewer.add_marker(**marker)
        picture: NDArray[np.uint8] = self._viewer.render("rgb_array", self._camera)
        return picture

    def close(self) -> None:
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
