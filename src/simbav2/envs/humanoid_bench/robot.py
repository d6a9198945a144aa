"""The H1 robot in a running simulation: everything the tasks read, under its own name, in one place.

All arrays are views into MuJoCo's memory, taken once, so reading costs no look-up. Mind the instant: MuJoCo
derives first and integrates last, and nothing is derived again after a step. So `qpos` and `qvel` belong to
the end of the environment step, and everything else to the beginning of its last physics step, 2 ms earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Geoms = frozenset[int]  # ids


class Robot:
    """Views and scalars of one simulated H1, and of the scene it stands in."""

    floor = 0  # the id of geom `floor` in every scene

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.model, self.data = model, data
        self.qpos: Vector = data.qpos
        self.qvel: Vector = data.qvel
        self.actuator_forces: Vector = data.actuator_force
        self.head, self.imu = self.site("head"), self.site("imu")
        self.left_foot, self.right_foot = self.site("left_foot"), self.site("right_foot")
        self.left_hand = self.site("left_hand")
        self.pelvis = self.body("pelvis")
        self.pelvis_quaternion: Vector = data.xquat[model.body("pelvis").id]
        self.pelvis_rotation: Vector = data.xmat[model.body("pelvis").id]
        self.torso_rotation: Vector = data.xmat[model.body("torso_link").id]
        velocity = model.sensor("pelvis_subtreelinvel").adr[0]
        self.velocity: Vector = data.sensordata[velocity : velocity + 2]  # centre of mass, world x and y

    @property
    def pelvis_height(self) -> float:
        """By `qpos`, so at the end of the step."""
        return self.qpos.item(2)

    @property
    def head_height(self) -> float:
        return self.head.item(2)

    @property
    def uprightness(self) -> float:
        """Cosine of the torso's tilt: 1 upright, -1 upside down."""
        return self.torso_rotation.item(8)

    def site(self, name: str) -> Vector:
        """World position of a site."""
        return self.data.site_xpos[self.model.site(name).id]

    def body(self, name: str) -> Vector:
        """World position of a body."""
        return self.data.xpos[self.model.body(name).id]

    def geoms(self, wanted: Callable[[str], bool]) -> Geoms:
        """The geoms whose name is wanted; many have none, which is the empty string here."""
        return frozenset(id for id in range(self.model.ngeom) if wanted(self.model.geom(id).name))

    def contact_pairs(self) -> NDArray[np.int32]:
        """Geom ids of all active contacts, [contacts, 2], however light the touch."""
        return self.data.contact.geom

    def touches(self, geoms: Geoms) -> bool:
        """Whether any contact involves one of `geoms`."""
        return not geoms.isdisjoint(self.contact_pairs().ravel().tolist())


def norm(vector: Vector) -> float:
    """Euclidean length with the bits of `np.linalg.norm`, at a third of its cost."""
    return math.sqrt(vector.dot(vector))
