"""The H1 robot in a running simulation: everything the tasks read, and the reward terms they share.

All arrays are views into MuJoCo's memory, taken once, so reading costs no look-up. Mind the instant: MuJoCo
derives first and integrates last, and nothing is derived again after a step. So `qpos` and `qvel` belong to
the end of the environment step, and everything else to the beginning of its last physics step, 2 ms earlier.

Rewards agree with the original to the last bit. Hence `np.exp`, which rounds differently from `math.exp` one time
in twenty, NumPy's sums, and products taken from left to right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Geoms = frozenset[int]  # ids
Falloff = Callable[[float], float]  # from a distance in margins to what is left of 1

HEAD_HEIGHT = 1.65  # of the robot standing, metres
GAUSS_SCALE = math.sqrt(-2 * math.log(0.1))  # the bell is 0.1 one margin outside the interval


def gauss(distance: float) -> float:
    scaled = distance * GAUSS_SCALE
    return float(np.exp(-0.5 * (scaled * scaled)))


def linear(distance: float) -> float:
    return 1.0 - distance if distance < 1.0 else 0.0


def tolerance(
    x: float, low: float, high: float = math.inf, margin: float = 0.0, falloff: Falloff = gauss
) -> float:
    """1 inside [low, high], falling off outside with the distance counted in margins; no margin, no slope."""
    if low <= x <= high:
        return 1.0
    if margin == 0.0:
        return 0.0
    return falloff((low - x if x < low else x - high) / margin)


def norm(vector: Vector) -> float:
    """Euclidean length with the bits of `np.linalg.norm`, at a third of its cost."""
    return math.sqrt(vector.dot(vector))


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

    # Reward terms. ----------------------------------------------------------------------------------------

    def small_control(self) -> float:
        """In [0.8, 1]: 1 without force, 0.8 when every actuator pulls with 10 or more."""
        force = self.actuator_forces / 10.0
        saved = np.maximum(1.0 - force * force, 0.0)
        return (4.0 + float(np.add.reduce(saved)) / saved.size) / 5.0

    def standing(self, height: float = HEAD_HEIGHT) -> float:
        return tolerance(self.head_height, height, margin=HEAD_HEIGHT / 4)

    def upright(self, bound: float, margin: float = 1.9) -> float:
        return tolerance(self.uprightness, bound, margin=margin, falloff=linear)

    def move(self, speed: float) -> float:
        """In [1/6, 1], by forward velocity."""
        return (5.0 * tolerance(self.velocity.item(0), speed, margin=speed, falloff=linear) + 1.0) / 6.0

    def dont_move(self) -> float:
        along, across = self.velocity.tolist()
        return (tolerance(along, 0.0, 0.0, margin=2.0) + tolerance(across, 0.0, 0.0, margin=2.0)) / 2.0

    def touch_discount(self, geoms: Geoms) -> float:
        """A tenth of the reward is left while the robot touches `geoms`."""
        return 0.1 if self.touches(geoms) else 1.0
