"""The benchmark: one row per task holds all its facts. Imports nothing heavy.

The paper's own table is wrong in places (ball-in-cup has 8 observations and 2 actions, the DMC humanoid 21
actions); the sizes here are the simulators', and a test compares them. MyoSuite's episodes end at its own
limits or after 100 steps, whichever comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simbav2.errors import InputError, nearest


@dataclass(frozen=True)
class Task:
    id: str
    suite: str
    observation_size: int
    action_size: int
    action_repeat: int
    episode_length: int  # simulator steps, before action repeat
    early_termination: (
        bool  # the paper counts the suite among those that end episodes at failure, and gives it two critics
    )
    metric: Literal["return", "success"]
    random_score: float | None  # of a random policy; None for an environment outside the benchmark
    reference_score: (
        float | None
    )  # that counts as 1: TD3's on MuJoCo, the target on hbench, else the highest possible

    @property
    def family(self) -> str:
        """What stands before the slash in the id: `dmc` for both `dmc-easy` and `dmc-hard`."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """What stands behind the slash in the id."""
        return self.id.partition("/")[2]

    @property
    def observation_order(self) -> str | None:
        """What a checkpoint notes about its observations, so that one made with another order is not taken for it.

        "sorted": by key. Before, these domains of dm_control had the suite's own order; the others have one order.
        """
        domain = self.name.partition("-")[0]
        return "sorted" if self.family == "dmc" and domain in _SORTED_DOMAINS else None

    def normalized(self, score: float) -> float | None:
        """0 for a random policy, 1 for the reference."""
        if self.random_score is None or self.reference_score is None:
            return None
        return (score - self.random_score) / (self.reference_score - self.random_score)


_SORTED_DOMAINS = ("dog", "finger", "fish", "hopper", "humanoid", "quadruped", "walker")
SUITES = ("mujoco", "dmc-easy", "dmc-hard", "myosuite", "hbench")
FAMILIES = ("mujoco", "dmc", "myosuite", "hbench")

# fmt: off
_TASKS = (
    #    id                             suite       obs act rep steps early  metric       random reference
    Task("mujoco/Ant-v4",               "mujoco",    27,  8, 1, 1000, True,  "return",   -70.288,  3942.0),
    Task("mujoco/HalfCheetah-v4",       "mujoco",    17,  6, 1, 1000, True,  "return",  -289.415, 10574.0),
    Task("mujoco/Hopper-v4",            "mujoco",    11,  3, 1, 1000, True,  "return",    18.791,  3226.0),
    Task("mujoco/Humanoid-v4",          "mujoco",   376, 17, 1, 1000, True,  "return",   120.423,  5165.0),
    Task("mujoco/Walker2d-v4",          "mujoco",    17,  6, 1, 1000, True,  "return",     2.791,  3946.0),
    Task("dmc/acrobot-swingup",         "dmc-easy",   6,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/ball-in-cup-catch",       "dmc-easy",   8,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/cartpole-balance",        "dmc-easy",   5,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/cartpole-balance-sparse", "dmc-easy",   5,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/cartpole-swingup",        "dmc-easy",   5,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/cartpole-swingup-sparse", "dmc-easy",   5,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/cheetah-run",             "dmc-easy",  17,  6, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/finger-spin",             "dmc-easy",   9,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/finger-turn-easy",        "dmc-easy",  12,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/finger-turn-hard",        "dmc-easy",  12,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/fish-swim",               "dmc-easy",  24,  5, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/hopper-hop",              "dmc-easy",  15,  4, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/hopper-stand",            "dmc-easy",  15,  4, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/pendulum-swingup",        "dmc-easy",   3,  1, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/quadruped-run",           "dmc-easy",  78, 12, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/quadruped-walk",          "dmc-easy",  78, 12, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/reacher-easy",            "dmc-easy",   6,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/reacher-hard",            "dmc-easy",   6,  2, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/walker-run",              "dmc-easy",  24,  6, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/walker-stand",            "dmc-easy",  24,  6, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/walker-walk",             "dmc-easy",  24,  6, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/dog-run",                 "dmc-hard", 223, 38, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/dog-trot",                "dmc-hard", 223, 38, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/dog-stand",               "dmc-hard", 223, 38, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/dog-walk",                "dmc-hard", 223, 38, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/humanoid-run",            "dmc-hard",  67, 21, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/humanoid-stand",          "dmc-hard",  67, 21, 2, 1000, False, "return",       0.0,  1000.0),
    Task("dmc/humanoid-walk",           "dmc-hard",  67, 21, 2, 1000, False, "return",       0.0,  1000.0),
    Task("myosuite/myo-key-turn",       "myosuite",  93, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("myosuite/myo-key-turn-hard",  "myosuite",  93, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("myosuite/myo-obj-hold",       "myosuite",  91, 39, 2,   75, False, "success",      0.0,     1.0),
    Task("myosuite/myo-obj-hold-hard",  "myosuite",  91, 39, 2,   75, False, "success",      0.0,     1.0),
    Task("myosuite/myo-pen-twirl",      "myosuite",  83, 39, 2,   50, False, "success",      0.0,     1.0),
    Task("myosuite/myo-pen-twirl-hard", "myosuite",  83, 39, 2,   50, False, "success",      0.0,     1.0),
    Task("myosuite/myo-pose",           "myosuite", 108, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("myosuite/myo-pose-hard",      "myosuite", 108, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("myosuite/myo-reach",          "myosuite", 115, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("myosuite/myo-reach-hard",     "myosuite", 115, 39, 2,  100, False, "success",      0.0,     1.0),
    Task("hbench/h1-balance-hard",      "hbench",    77, 19, 2, 1000, True,  "return",     9.044,   800.0),
    Task("hbench/h1-balance-simple",    "hbench",    64, 19, 2, 1000, True,  "return",     9.391,   800.0),
    Task("hbench/h1-crawl",             "hbench",    51, 19, 2, 1000, True,  "return",   272.658,   700.0),
    Task("hbench/h1-hurdle",            "hbench",    51, 19, 2, 1000, True,  "return",     2.214,   700.0),
    Task("hbench/h1-maze",              "hbench",    51, 19, 2, 1000, True,  "return",   106.441,  1200.0),
    Task("hbench/h1-pole",              "hbench",    51, 19, 2, 1000, True,  "return",     20.09,   700.0),
    Task("hbench/h1-reach",             "hbench",    57, 19, 2, 1000, True,  "return",   260.302, 12000.0),
    Task("hbench/h1-run",               "hbench",    51, 19, 2, 1000, True,  "return",      2.02,   700.0),
    Task("hbench/h1-sit-simple",        "hbench",    51, 19, 2, 1000, True,  "return",     9.393,   750.0),
    Task("hbench/h1-sit-hard",          "hbench",    64, 19, 2, 1000, True,  "return",     2.448,   750.0),
    Task("hbench/h1-slide",             "hbench",    51, 19, 2, 1000, True,  "return",     3.191,   700.0),
    Task("hbench/h1-stair",             "hbench",    51, 19, 2, 1000, True,  "return",     3.112,   700.0),
    Task("hbench/h1-stand",             "hbench",    51, 19, 2, 1000, True,  "return",    10.545,   800.0),
    Task("hbench/h1-walk",              "hbench",    51, 19, 2, 1000, True,  "return",     2.377,   700.0),
)
# fmt: on

_BY_ID = {task.id: task for task in _TASKS}


def tasks(suite: str | None = None) -> tuple[Task, ...]:
    """All tasks, those of a suite (`dmc-hard`), or those of an id prefix (`dmc`)."""
    if suite is not None and suite not in SUITES + FAMILIES:
        raise InputError(f"unknown suite {suite!r}; suites are {', '.join(SUITES)}{nearest(suite, SUITES)}")
    return tuple(task for task in _TASKS if suite in (None, task.suite, task.family))


def find(name: str) -> Task | None:
    """The row of a task id, None for an id that is not ours; refuses a wrong id under one of our prefixes."""
    if name not in _BY_ID and name.partition("/")[0] in FAMILIES:
        raise unknown(name)
    return _BY_ID.get(name)


def unknown(name: str) -> InputError:
    return InputError(f"unknown task {name!r}; `simbav2 tasks` lists all {len(_TASKS)}{nearest(name, _BY_ID)}")
