"""The robots of D4RL's data sets: the task that each is, and how returns there are scored.

The data was recorded in gym's v2 environments. Their observations, rewards and ends of episodes are those of
Gymnasium's v4, which policies are evaluated in; the physics is a later MuJoCo's.
"""

from __future__ import annotations

from typing import NamedTuple


class Robot(NamedTuple):
    task: str
    random: float  # the return of a random policy, which scores 0
    expert: float  # the return that scores 100

    def score(self, total: float) -> float:
        return 100 * (total - self.random) / (self.expert - self.random)


ROBOTS = {
    "halfcheetah": Robot("mujoco/HalfCheetah-v4", random=-280.178953, expert=12135.0),
    "hopper": Robot("mujoco/Hopper-v4", random=-20.272305, expert=3234.3),
    "walker2d": Robot("mujoco/Walker2d-v4", random=1.629008, expert=4592.3),
}
