"""Where pictures come from: an offscreen GL library, chosen only when a picture is asked for.

A missing GL library must never stop a training run, and a broken one can abort the whole process. So nothing
here runs unless `render_mode` is given, and each library is tried in a process of its own first.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from simbav2.errors import InputError

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
