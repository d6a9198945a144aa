"""HumanoidBench: the 14 tasks of the Unitree H1 without hands, on MuJoCo and Gymnasium alone.

It behaves as HumanoidBench 0.2 (upstream commit 791405f) does, oddities included: the same seed and the same
actions give the same observations, rewards, endings and infos. One idea per file: `robot` what is read from
the simulation, `rewards` the terms the tasks share, `tasks` what each task adds, `env` the Gymnasium shell,
`assets` where the model files come from (they are not ours to ship).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gymnasium

    from simbav2.envs.humanoid_bench.env import HumanoidBench
    from simbav2.envs.tasks import Task


def make(name: str, render_mode: str | None = None) -> HumanoidBench:
    """The bare environment of a task such as `h1-sit-hard`: no time limit, no action repeat, float64."""
    # Late, so that installing the model files needs no simulator.
    from simbav2.envs.humanoid_bench.env import HumanoidBench

    return HumanoidBench(name, render_mode)


def build(task: Task, render_mode: str | None) -> gymnasium.Env:
    """The environment of a benchmark row, with its time limit."""
    from gymnasium.wrappers import TimeLimit

    return TimeLimit(make(task.name, render_mode), task.episode_length)
