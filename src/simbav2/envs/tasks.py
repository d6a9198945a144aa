"""The benchmark: one row per suite and one row per task hold all their facts. Imports nothing heavy.

The paper's own table is wrong in places (ball-in-cup has 8 observations and 2 actions, the DMC humanoid 21
actions); the sizes here are the simulators', and a test compares them. MyoSuite's episodes end at its own
limits or after 100 steps, whichever comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from simbav2.errors import InputError, nearest

Metric = Literal["return", "success"]


@dataclass(frozen=True)
class Suite:
    title: str  # in tables and figures
    unit: str  # of the normalised score
    metric: Metric
    module: str | None  # its `build(task, render_mode)` makes an environment; None where Gymnasium has them
    step_seconds: float  # of one simulator step, measured on one core
    early_termination: bool  # the paper counts it among those that end episodes at failure: two critics
    extra: str | None = None  # the extra of simbav2 that installs it
    model_files: bool = False  # it needs files that are downloaded; `verify()` of its module checks them

    @property
    def optional(self) -> bool:
        """Whether it needs more than the core install."""
        return self.extra is not None or self.model_files


# fmt: off
SUITES = {
    "mujoco":   Suite("MuJoCo",   "TD3-normalised",     "return",  None,                    2.0e-4, True),
    "dmc-easy": Suite("DMC-Easy", "return / 1000",      "return",  "simbav2.envs.dmc",      2.4e-4, False),
    "dmc-hard": Suite("DMC-Hard", "return / 1000",      "return",  "simbav2.envs.dmc",      4.2e-4, False),
    "myosuite": Suite("MyoSuite", "success rate",       "success", "simbav2.envs.myosuite", 1.5e-3, False,
                      extra="myosuite"),
    "hbench":   Suite("HBench",   "success-normalised", "return",  "simbav2.envs.humanoid_bench", 5.0e-4, True,
                      model_files=True),
}
# fmt: on
CUSTOM = "custom"  # the suite of an environment outside the benchmark
EPISODE_LENGTH = 1000  # assumed, for the discount only, of an environment that states no time limit
_SORTED_DOMAINS = ("dog", "finger", "fish", "hopper", "humanoid", "quadruped", "walker")


@dataclass(frozen=True)
class Task:
    id: str
    suite: str
    observation_size: int
    action_size: int
    action_repeat: int
    episode_length: int  # simulator steps, before action repeat
    early_termination: bool
    metric: Metric
    random_score: float | None  # of a random policy; None for an environment outside the benchmark
    # The score that counts as 1: TD3's on MuJoCo, the target on HumanoidBench, else the highest possible.
    reference_score: float | None

    @property
    def family(self) -> str:
        """The part of the id before the slash: `dmc` for both `dmc-easy` and `dmc-hard`."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The part of the id after the slash."""
        return self.id.partition("/")[2]

    @property
    def observation_order(self) -> str | None:
        """Saved in a checkpoint, so that one made with another order of observations is refused.

        "sorted": by key. Earlier versions kept the suite's own order in these domains of dm_control; in the
        others both orders agree.
        """
        domain = self.name.partition("-")[0]
        return "sorted" if self.family == "dmc" and domain in _SORTED_DOMAINS else None

    def normalized(self, score: float) -> float | None:
        """0 for a random policy, 1 for the reference."""
        if self.random_score is None or self.reference_score is None:
            return None
        return (score - self.random_score) / (self.reference_score - self.random_score)


# fmt: off
_ROWS: dict[str, tuple[tuple[Any, ...], ...]] = {
    #    id                            obs act rep steps   random reference
    "mujoco": (
        ("mujoco/Ant-v4",                   27,  8, 1, 1000,  -70.288,  3942.0),
        ("mujoco/HalfCheetah-v4",           17,  6, 1, 1000, -289.415, 10574.0),
        ("mujoco/Hopper-v4",                11,  3, 1, 1000,   18.791,  3226.0),
        ("mujoco/Humanoid-v4",             376, 17, 1, 1000,  120.423,  5165.0),
        ("mujoco/Walker2d-v4",              17,  6, 1, 1000,    2.791,  3946.0),
    ),
    "dmc-easy": (
        ("dmc/acrobot-swingup",              6,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/ball-in-cup-catch",            8,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/cartpole-balance",             5,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/cartpole-balance-sparse",      5,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/cartpole-swingup",             5,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/cartpole-swingup-sparse",      5,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/cheetah-run",                 17,  6, 2, 1000,      0.0,  1000.0),
        ("dmc/finger-spin",                  9,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/finger-turn-easy",            12,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/finger-turn-hard",            12,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/fish-swim",                   24,  5, 2, 1000,      0.0,  1000.0),
        ("dmc/hopper-hop",                  15,  4, 2, 1000,      0.0,  1000.0),
        ("dmc/hopper-stand",                15,  4, 2, 1000,      0.0,  1000.0),
        ("dmc/pendulum-swingup",             3,  1, 2, 1000,      0.0,  1000.0),
        ("dmc/quadruped-run",               78, 12, 2, 1000,      0.0,  1000.0),
        ("dmc/quadruped-walk",              78, 12, 2, 1000,      0.0,  1000.0),
        ("dmc/reacher-easy",                 6,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/reacher-hard",                 6,  2, 2, 1000,      0.0,  1000.0),
        ("dmc/walker-run",                  24,  6, 2, 1000,      0.0,  1000.0),
        ("dmc/walker-stand",                24,  6, 2, 1000,      0.0,  1000.0),
        ("dmc/walker-walk",                 24,  6, 2, 1000,      0.0,  1000.0),
    ),
    "dmc-hard": (
        ("dmc/dog-run",                    223, 38, 2, 1000,      0.0,  1000.0),
        ("dmc/dog-trot",                   223, 38, 2, 1000,      0.0,  1000.0),
        ("dmc/dog-stand",                  223, 38, 2, 1000,      0.0,  1000.0),
        ("dmc/dog-walk",                   223, 38, 2, 1000,      0.0,  1000.0),
        ("dmc/humanoid-run",                67, 21, 2, 1000,      0.0,  1000.0),
        ("dmc/humanoid-stand",              67, 21, 2, 1000,      0.0,  1000.0),
        ("dmc/humanoid-walk",               67, 21, 2, 1000,      0.0,  1000.0),
    ),
    "myosuite": (
        ("myosuite/myo-key-turn",           93, 39, 2,  100,      0.0,     1.0),
        ("myosuite/myo-key-turn-hard",      93, 39, 2,  100,      0.0,     1.0),
        ("myosuite/myo-obj-hold",           91, 39, 2,   75,      0.0,     1.0),
        ("myosuite/myo-obj-hold-hard",      91, 39, 2,   75,      0.0,     1.0),
        ("myosuite/myo-pen-twirl",          83, 39, 2,   50,      0.0,     1.0),
        ("myosuite/myo-pen-twirl-hard",     83, 39, 2,   50,      0.0,     1.0),
        ("myosuite/myo-pose",              108, 39, 2,  100,      0.0,     1.0),
        ("myosuite/myo-pose-hard",         108, 39, 2,  100,      0.0,     1.0),
        ("myosuite/myo-reach",             115, 39, 2,  100,      0.0,     1.0),
        ("myosuite/myo-reach-hard",        115, 39, 2,  100,      0.0,     1.0),
    ),
    "hbench": (
        ("hbench/h1-balance-hard",          77, 19, 2, 1000,    9.044,   800.0),
        ("hbench/h1-balance-simple",        64, 19, 2, 1000,    9.391,   800.0),
        ("hbench/h1-crawl",                 51, 19, 2, 1000,  272.658,   700.0),
        ("hbench/h1-hurdle",                51, 19, 2, 1000,    2.214,   700.0),
        ("hbench/h1-maze",                  51, 19, 2, 1000,  106.441,  1200.0),
        ("hbench/h1-pole",                  51, 19, 2, 1000,    20.09,   700.0),
        ("hbench/h1-reach",                 57, 19, 2, 1000,  260.302, 12000.0),
        ("hbench/h1-run",                   51, 19, 2, 1000,     2.02,   700.0),
        ("hbench/h1-sit-simple",            51, 19, 2, 1000,    9.393,   750.0),
        ("hbench/h1-sit-hard",              64, 19, 2, 1000,    2.448,   750.0),
        ("hbench/h1-slide",                 51, 19, 2, 1000,    3.191,   700.0),
        ("hbench/h1-stair",                 51, 19, 2, 1000,    3.112,   700.0),
        ("hbench/h1-stand",                 51, 19, 2, 1000,   10.545,   800.0),
        ("hbench/h1-walk",                  51, 19, 2, 1000,    2.377,   700.0),
    ),
}
# fmt: on
TASKS = {
    id: Task(id, name, obs, act, repeat, steps, SUITES[name].early_termination, SUITES[name].metric, random, best)
    for name, rows in _ROWS.items()
    for id, obs, act, repeat, steps, random, best in rows
}


def tasks(suite: str | None = None) -> tuple[Task, ...]:
    """All tasks, those of a suite (`dmc-hard`), or those of an id prefix (`dmc`)."""
    if suite is not None and suite not in {*SUITES, *families()}:
        raise InputError(f"unknown suite {suite!r}; suites are {', '.join(SUITES)}{nearest(suite, SUITES)}")
    return tuple(task for task in TASKS.values() if suite in (None, task.suite, task.family))


def families() -> tuple[str, ...]:
    """The prefixes of all task ids."""
    return tuple(dict.fromkeys(task.family for task in TASKS.values()))


def find(name: str) -> Task | None:
    """The row of a task id; None for another id, unless it has the prefix of a suite: then an InputError."""
    if name not in TASKS and name.partition("/")[0] in families():
        raise InputError(f"unknown task {name!r}; `simbav2 tasks` lists all {len(TASKS)}{nearest(name, TASKS)}")
    return TASKS.get(name)


def custom_task(
    name: str, observation_size: int, action_size: int, action_repeat: int = 1, episode_length: int | None = None
) -> Task:
    """The row of an environment outside the benchmark: two critics are the safe choice there."""
    length = episode_length or EPISODE_LENGTH
    return Task(name, CUSTOM, observation_size, action_size, action_repeat, length, True, "return", None, None)


# Scores. --------------------------------------------------------------------------------------------------


class D4RLRobot(NamedTuple):
    """A robot of D4RL's data sets, and the returns that score 0 and 100 there.

    The data was recorded in gym's v2 environments. Their observations, rewards and ends of episodes are those of
    Gymnasium's v4, in which policies are evaluated; the physics is a later MuJoCo's.
    """

    task: str
    random: float
    expert: float


D4RL_ROBOTS = {
    "halfcheetah": D4RLRobot("mujoco/HalfCheetah-v4", random=-280.178953, expert=12135.0),
    "hopper": D4RLRobot("mujoco/Hopper-v4", random=-20.272305, expert=3234.3),
    "walker2d": D4RLRobot("mujoco/Walker2d-v4", random=1.629008, expert=4592.3),
}


def normalized_score(name: str, score: float) -> float | None:
    """0 for a random policy and 1 for the reference of a task; None for an environment outside the benchmark.

    For a data set of D4RL: 0 for a random policy and 100 for its expert.
    """
    if name.startswith("d4rl/"):
        robot = D4RL_ROBOTS.get(name.removeprefix("d4rl/").partition("-")[0])
        return None if robot is None else 100 * (score - robot.random) / (robot.expert - robot.random)
    task = TASKS.get(name)
    return None if task is None else task.normalized(score)
