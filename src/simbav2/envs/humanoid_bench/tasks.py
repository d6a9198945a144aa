"""The tasks: what each adds to the robot. One small class each; `TASKS` lists them.

After every environment step the order of calls is `observe`, `reward`, `ended`. The keys of an info keep the
original's names and order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import mujoco
import numpy as np

from simbav2.envs.humanoid_bench.robot import HEAD_HEIGHT, Robot, Vector, linear, norm, tolerance

Info = dict[str, float]


Colour = tuple[float, float, float]


def ball(centre: tuple[float, float, float], radius: float, colour: Colour) -> dict[str, Any]:
    """A marker of the renderer, for what the model itself does not show."""
    return {"pos": centre, "size": [radius] * 3, "rgba": [*colour, 1.0]}


class Task(ABC):
    """The rules of one task around the robot it is played with."""

    camera = "cam_default"
    lowest_pelvis = 0.2  # metres; the episode ends below

    def __init__(self, robot: Robot) -> None:
        self.robot = robot

    def reset(self, random: np.random.RandomState) -> None:  # noqa: B027 (most tasks add nothing)
        """Start an episode; the robot has its noisy start pose, and derived quantities are up to date."""

    def observe(self) -> Vector:
        return np.concatenate((self.robot.qpos, self.robot.qvel))

    @abstractmethod
    def reward(self) -> tuple[float, Info]:
        """The reward of the step just made, and its parts."""

    def ended(self) -> bool:
        return self.robot.pelvis_height < self.lowest_pelvis

    def markers(self) -> list[dict[str, Any]]:
        """What to add to a frame."""
        return []


class Upright(Task):
    """Tasks that reward a high head on a straight torso."""

    head_height = HEAD_HEIGHT
    least_upright = 0.9

    def posture(self) -> tuple[float, float]:
        """Standing and upright."""
        return self.robot.standing(self.head_height), self.robot.upright(self.least_upright)


class Walk(Upright):
    speed = 1.0

    def reward(self) -> tuple[float, Info]:
        standing, upright = self.posture()
        info = {
            "stand_reward": standing * upright,
            "small_control": self.robot.small_control(),
            "move": self.robot.move(self.speed),
            "standing": standing,
            "upright": upright,
        }
        return info["small_control"] * info["stand_reward"] * info["move"], info


class Run(Walk):
    speed = 5.0


class Hurdle(Run):
    """Running between barriers that must not be touched; the hurdles may be."""

    camera = "cam_hurdle"
    least_upright = 0.8
    barriers = ("left_barrier_collision", "right_barrier_collision", "behind_barrier_collision")

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.walls = robot.geoms(lambda name: name in self.barriers)

    def reward(self) -> tuple[float, Info]:
        reward, info = super().reward()
        info["wall_collision_discount"] = self.robot.touch_discount(self.walls)
        return reward * info["wall_collision_discount"], info


class Climb(Walk):
    """Stairs and slides: the head is measured from the feet, and only toppling over ends the episode."""

    least_upright = 0.5

    def posture(self) -> tuple[float, float]:
        robot = self.robot
        above_left = robot.head_height - robot.left_foot.item(2)
        above_right = robot.head_height - robot.right_foot.item(2)
        standing = tolerance(above_left, 1.2, margin=0.45) * tolerance(above_right, 1.2, margin=0.45)
        return standing, robot.upright(self.least_upright)

    def ended(self) -> bool:
        return self.robot.uprightness < 0.1


class Pole(Walk):
    """A forest of poles. The barriers around it have no names and cost nothing."""

    speed = 0.5
    lowest_pelvis = 0.5

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.poles = robot.geoms(lambda name: "pole_r" in name)

    def reward(self) -> tuple[float, Info]:
        _, info = super().reward()
        discount = info["collision_discount"] = self.robot.touch_discount(self.poles)
        return (0.5 * (info["small_control"] * info["stand_reward"]) + 0.5 * info["move"]) * discount, info


class Stand(Upright):
    def reward(self) -> tuple[float, Info]:
        standing, upright = self.posture()
        info = {
            "small_control": self.robot.small_control(),
            "stand_reward": standing * upright,
            "dont_move": self.robot.dont_move(),
            "standing": standing,
            "upright": upright,
        }
        return info["small_control"] * info["stand_reward"] * info["dont_move"], info


class Balance(Stand):
    """Standing on a board that lies on a sphere. Nothing but the sphere may touch the floor, nothing but
    board and floor the sphere."""

    head_height = HEAD_HEIGHT + 0.37
    lowest_pelvis = 0.8

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.sphere: int = robot.model.geom("pivot_sphere_collision").id
        self.board: int = robot.model.geom("stand_board_collision").id

    def ended(self) -> bool:
        return super().ended() or any(map(self._forbidden, self.robot.contact_pairs().tolist()))

    def _forbidden(self, pair: list[int]) -> bool:
        if Robot.floor in pair:
            return self.sphere not in pair
        return self.sphere in pair and self.board not in pair


class Crawl(Task):
    """Through a low tunnel on hands and feet; outside it there is no reward. Never terminates."""

    low, high = 0.8 - 0.2, 0.8 + 0.2  # for head and chest, metres
    pose = np.array((0.75, 0.0, 0.65, 0.0))  # of the pelvis, leaning forward; not quite a unit quaternion

    def reward(self) -> tuple[float, Info]:
        robot = self.robot
        _, across, chest = robot.imu.tolist()
        crawling_head = tolerance(robot.head_height, self.low, self.high, margin=1.0)
        crawling = tolerance(chest, self.low, self.high, margin=1.0)
        # The original forgets that a quaternion and its negative are the same rotation, and so do we.
        leaning = tolerance(norm(robot.pelvis_quaternion - self.pose), 0.0, 0.0, margin=1.0)
        control, move = robot.small_control(), robot.move(1.0)
        in_tunnel = tolerance(across, -1.0, 1.0)
        total = 0.1 * control + 0.25 * min(crawling, crawling_head) + 0.4 * move + 0.25 * leaning
        return total * in_tunnel, {
            "crawling": crawling,
            "crawling_head": crawling_head,
            "small_control": control,
            "move": move,
            "in_tunnel": in_tunnel,
        }

    def ended(self) -> bool:
        return False


class Sit(Task):
    lowest_pelvis = 0.5

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.chair = robot.body("chair")

    def reward(self) -> tuple[float, Info]:
        robot = self.robot
        ahead, aside, _ = (robot.qpos[:3] - self.chair).tolist()
        sitting = tolerance(robot.pelvis_height, 0.68, 0.72, margin=0.2)
        on_chair = tolerance(ahead, -0.19, 0.19, margin=0.2) * tolerance(aside, 0.0, 0.0, margin=0.1)
        # Head and chest are parts of one rigid torso: this measures tilt alone.
        posture = tolerance(robot.head_height - robot.imu.item(2), 0.35, 0.45, margin=0.3)
        upright = robot.upright(0.95, margin=0.9)
        info = {
            "small_control": robot.small_control(),
            "sit_reward": (0.5 * sitting + 0.5 * on_chair) * upright * posture,
            "dont_move": robot.dont_move(),
            "sitting": sitting,
            "upright": upright,
            "sitting_posture": posture,
        }
        return info["small_control"] * info["sit_reward"] * info["dont_move"], info


class SitHard(Sit):
    """The chair is loose, and the robot starts somewhere before it, facing anywhere ahead."""

    def reset(self, random: np.random.RandomState) -> None:
        qpos = self.robot.qpos
        qpos[0] = random.uniform(0.2, 0.4)
        qpos[1] = random.uniform(-0.15, 0.15)
        half_turn = random.uniform(-1.8, 1.8) / 2
        qpos[3:7] = math.cos(half_turn), 0.0, 0.0, math.sin(half_turn)
        mujoco.mj_forward(self.robot.model, self.robot.data)


class Reach(Task):
    """The left hand to a point in the room, which may be steps away. Never terminates."""

    nearest, farthest = (-2.0, -2.0, 0.2), (2.0, 2.0, 2.0)

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.goal = np.zeros(3)

    def reset(self, random: np.random.RandomState) -> None:
        self.goal = random.uniform(self.nearest, self.farthest)

    def observe(self) -> Vector:
        return np.concatenate((self.robot.qpos, self.robot.qvel, self.robot.left_hand, self.goal))

    def reward(self) -> tuple[float, Info]:
        robot = self.robot
        distance = math.sqrt(np.add.reduce(np.square(robot.left_hand - self.goal)))
        info = {
            "hand_dist": distance,
            "healthy_reward": 5.0 * robot.pelvis_rotation.item(8),
            "motion_penalty": float(np.add.reduce(np.square(robot.qvel))),
            "reward_close": 5.0 if distance < 1.0 else 0.0,
            "reward_success": 10.0 if distance < 0.05 else 0.0,
        }
        healthy, penalty = info["healthy_reward"], 0.0001 * info["motion_penalty"]
        return healthy - penalty + info["reward_close"] + info["reward_success"], info

    def ended(self) -> bool:
        return False

    def markers(self) -> list[dict[str, Any]]:
        x, y, z = self.goal.tolist()
        return [ball((x, y, z), 0.05, (0.8, 0.28, 0.28))]


class Maze(Upright):
    """From checkpoint to checkpoint at 2 m/s. The robot starts on the first: the first step pays for that."""

    camera = "cam_maze"
    checkpoints = np.array([(0.0, 0.0), (3.0, 0.0), (3.0, 6.0), (6.0, 6.0), (6.0, 6.0)])
    headings = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0))  # to take from each checkpoint but the last
    last = len(headings)

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.blocks = robot.geoms(lambda name: name.startswith("block_collision_"))
        self.stage, self.heading = 0, self.headings[0]

    def reset(self, random: np.random.RandomState) -> None:
        self.stage, self.heading = 0, self.headings[0]

    def reward(self) -> tuple[float, Info]:
        robot = self.robot
        standing, upright = self.posture()
        control = robot.small_control()
        discount = robot.touch_discount(self.blocks)
        bonus = self._advance()
        move = (5.0 * (1.0 if self.stage == self.last else self._on_course()) + 1.0) / 6.0
        proximity = tolerance(norm(self.checkpoints[self.stage] - robot.imu[:2]), 0.0, 0.0, margin=1.0)
        stand = standing * upright
        total = (0.2 * (stand * control) + 0.4 * move + 0.4 * proximity) * discount + bonus
        return total, {
            "stand_reward": stand,
            "small_control": control,
            "move": move,
            "wall_collision_discount": discount,
            "stage_convert_reward": bonus,
            "checkpoint_proximity_reward": proximity,
            "success_subtasks": self.stage,
        }

    def _advance(self) -> float:
        """Enter the next stage if its checkpoint is reached; returns the bonus for that."""
        if self.stage == self.last or norm(self.robot.pelvis[:2] - self.checkpoints[self.stage]) >= 0.4:
            return 0.0
        self.heading = self.headings[self.stage]
        self.stage += 1
        return 100.0 * self.stage

    def _on_course(self) -> float:
        """1 at 2 m/s along the heading, 0 from 1 m/s off in either direction."""
        (along, across), (ahead, aside) = self.robot.velocity.tolist(), self.heading
        return tolerance(along - 2.0 * ahead, 0.0, 0.0, margin=1.0, falloff=linear) * tolerance(
            across - 2.0 * aside, 0.0, 0.0, margin=1.0, falloff=linear
        )

    def markers(self) -> list[dict[str, Any]]:
        """Checkpoints reached are green, the next is red."""
        green, red = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)
        places = self.checkpoints[: self.last].tolist()[: self.stage + 1]
        return [ball((x, y, 1.0), 0.06, green if n < self.stage else red) for n, (x, y) in enumerate(places)]


TASKS: dict[str, type[Task]] = {
    "h1-walk": Walk,
    "h1-stand": Stand,
    "h1-run": Run,
    "h1-reach": Reach,
    "h1-hurdle": Hurdle,
    "h1-crawl": Crawl,
    "h1-maze": Maze,
    "h1-sit-simple": Sit,
    "h1-sit-hard": SitHard,
    "h1-balance-simple": Balance,
    "h1-balance-hard": Balance,
    "h1-stair": Climb,
    "h1-slide": Climb,
    "h1-pole": Pole,
}
