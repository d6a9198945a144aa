"""What the tasks' rewards are made of: a soft interval test, and five terms about the robot.

The values agree with the original to the last bit. Hence `np.exp`, which rounds otherwise than `math.exp` one
time in twenty, NumPy's sums, and products taken from left to right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from simbav2.envs.humanoid_bench.robot import Geoms, Robot

HEAD_HEIGHT = 1.65  # of the robot standing, metres
Falloff = Callable[[float], float]  # from a distance in margins to what is left of 1

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


def small_control(robot: Robot) -> float:
    """In [0.8, 1]: 1 without force, 0.8 when every actuator pulls with 10 or more."""
    force = robot.actuator_forces / 10.0
    saved = np.maximum(1.0 - force * force, 0.0)
    return (4.0 + float(np.add.reduce(saved)) / saved.size) / 5.0


def standing(robot: Robot, height: float = HEAD_HEIGHT) -> float:
    return tolerance(robot.head_height, height, margin=HEAD_HEIGHT / 4)


def upright(robot: Robot, bound: float, margin: float = 1.9) -> float:
    return tolerance(robot.uprightness, bound, margin=margin, falloff=linear)


def move(robot: Robot, speed: float) -> float:
    """In [1/6, 1], by forward velocity."""
    return (5.0 * tolerance(robot.velocity.item(0), speed, margin=speed, falloff=linear) + 1.0) / 6.0


def dont_move(robot: Robot) -> float:
    along, across = robot.velocity.tolist()
    return (tolerance(along, 0.0, 0.0, margin=2.0) + tolerance(across, 0.0, 0.0, margin=2.0)) / 2.0


def touch_discount(robot: Robot, geoms: Geoms) -> float:
    """A tenth of the reward is left while the robot touches `geoms`."""
    return 0.1 if robot.touches(geoms) else 1.0
