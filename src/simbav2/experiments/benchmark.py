"""`simbav2 bench`: speed of updates and of the training loop, memory, start-up time.

A machine may be shared and change its clock rate, so speeds are ratios: every update is timed right after a matrix
multiply, and its fraction of the multiply's speed is the median over rounds. Work is counted in the multiplies of
the traced program alone; everything else an update does counts as loss.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params
from rich.console import Console

from simbav2 import backend
from simbav2.agent import Agent
from simbav2.backend import wait
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.config import Config, override, presets
from simbav2.diagnostics import parameter_counts
from simbav2.envs.tasks import SUITES, Task, tasks
from simbav2.envs.vector import Step
from simbav2.experiments.compute import count_compute
from simbav2.learner import Learner
from simbav2.replay import Replay
from simbav2.training.console import Display, Status
from simbav2.training.evaluate import evaluate
from simbav2.training.logger import RunLogger
from simbav2.training.trainer import Trainer
from simbav2.types import Array, Normalizer, Transition

TASK = next(task for task in tasks() if task.id == "dmc/cheetah-run")
SQUARE = 2048  # side of the multiplied matrices: large enough for full speed


class Case(NamedTuple):
    """One program to time: `updates` in one dispatch."""

    preset: str
    width: int
    critics: int
    updates: int
    changes: tuple[tuple[str, Any], ...] = ()

    def config(self) -> Config:
        sizes = {"critic.width": self.width, "critic.num_critics": self.critics}
        return override(presets.preset(self.preset), sizes | dict(self.changes)).resolve(TASK)


class Plan(NamedTuple):
    """What to measure; compilation is timed on the first case."""

    cases: list[Case]
    rounds: int
    loops: dict[int, int]  # critic width -> decisions


FULL = Plan(
    cases=[
        Case(preset, width, critics, updates)
        for preset in ("simbav2", "simba", "sac")
        for width in (512, 128)
        for critics in (1, 2)
        for updates in (1, 2, 8)
    ],
    rounds=5,
    loops={512: 50, 128: 300},
)
QUICK = Plan(
    cases=[
        case for case in FULL.cases if case.updates == 2 and (case.preset == "simbav2" or case[1:3] == (128, 1))
    ],
    rounds=3,
    loops={512: 10, 128: 50},
)


@dataclass(frozen=True)
class Update:
    """A row of the result; `ms` and `gflop` are those of one update."""

    preset: str
    width: int
    critics: int
    updates: int
    ms: float
    gflop: float
    fraction_of_peak: float


@dataclass(frozen=True)
class LoopSplit:
    """Milliseconds of one decision: two simulator steps and two updates."""

    task: str
    width: int
    env_ms: float
    act_ms: float
    replay_ms: float
    update_ms: float
    other_ms: float  # statistics, episodes, logging


def multiplied(jaxpr: Any) -> float:
    """FLOP of all matrix multiplies in a traced program."""
    total = 0.0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            inner = float(np.prod([left[axis] for axis in contracted]))
            total += 2 * inner * float(np.prod(equation.outvars[0].aval.shape))
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += times * sum(multiplied(inner) for inner in jaxprs_in_params(equation.params))
    return total


def experience(updates: int, batch_size: int, task: Task = TASK) -> tuple[Normalizer, Transition]:
    """Random batches [updates, batch_size, ...] and an identity normalizer."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return rng.normal(size=(updates, batch_size, *shape)).astype(np.float32)

    size = task.observation_size
    batch = Transition(
        normal(size), np.tanh(normal(task.action_size)), normal(), np.full_like(normal(), 0.99), normal(size)
    )
    return Normalizer(np.zeros(size, np.float32), np.ones(size, np.float32), np.float32(1)), batch


class Program:
    """A compiled `learn` with its own state; `milliseconds` makes the case's updates once."""

    def __init__(self, case: Case) -> None:
        config = case.config()
        self.learner = Learner(config, TASK.observation_size, TASK.action_size)
        self.state = self.learner.init(jax.random.PRNGKey(0))
        self.inputs = experience(case.updates, config.replay.batch_size)
        traced = self.learner.learn.trace(self.state, *self.inputs)
        self.gflop = multiplied(traced.jaxpr.jaxpr) / 1e9 / case.updates
        self.first_seconds = self.milliseconds() / 1000  # compilation included

    def milliseconds(self) -> float:
        start = time.perf_counter()
        self.state, metrics = self.learner.learn(self.state, *self.inputs)
        wait((self.state, metrics))
        return 1000 * (time.perf_counter() - start)


def multiply() -> Callable[[], float]:
    """Returns a function that multiplies two matrices and returns GFLOP/s."""
    square = jnp.ones((SQUARE, SQUARE))
    program = jax.jit(jnp.matmul)
    wait(program(square, square))

    def speed() -> float:
        start = time.perf_counter()
        wait(program(square, square))
        return 2 * SQUARE**3 / 1e9 / (time.perf_counter() - start)

    return speed


def updates(cases: list[Case], rounds: int = FULL.rounds) -> tuple[float, list[Update]]:
    """The multiply's GFLOP/s and a row per case; cases alternate, with a multiply before each."""
    speed = multiply()
    programs = {case: Program(case) for case in cases}
    peaks: list[float] = []
    times: dict[Case, list[float]] = defaultdict(list)
    fractions: dict[Case, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for case, program in programs.items():
            peak = speed()
            each = program.milliseconds() / case.updates
            peaks.append(peak)
            times[case].append(each)
            fractions[case].append(1000 * program.gflop / each / peak)
    rows = [
        Update(*case[:4], median(times[case]), programs[case].gflop, median(fractions[case])) for case in cases
    ]
    return median(peaks), rows


@dataclass(frozen=True)
class Cost:
    """What a preset costs on `TASK`, at its own size."""

    preset: str
    gflop_per_update: float  # counted: `compute.count_compute`
    actor_parameters: int
    critic_parameters: int  # of all critics
    updates_per_env_step: float
    updates_per_second: float  # measured here
    compile_seconds: float  # likewise, with an empty cache


def costs(names: Sequence[str], rounds: int = 3) -> Iterator[Cost]:
    with _empty_cache():
        for name in names:
            yield _cost(name, rounds)


def _cost(name: str, rounds: int) -> Cost:
    config = presets.preset(name).resolve(TASK)
    sizes = TASK.observation_size, TASK.action_size
    critics, repeat = config.critic.num_critics or 1, config.action_repeat or 1
    # As many updates as it takes for every network to have its turn.
    case = Case(name, config.critic.width, critics, max(2, config.actor_every))
    program = Program(case)
    seconds = median(program.milliseconds() for _ in range(rounds)) / 1000
    counts = parameter_counts(config, *sizes)
    return Cost(
        preset=name,
        gflop_per_update=count_compute(config, *sizes).update / 1e9,
        actor_parameters=counts.actor,
        critic_parameters=critics * counts.critic,
        updates_per_env_step=(config.updates_per_decision or 1) / repeat,
        updates_per_second=case.updates / seconds,
        compile_seconds=max(0.0, program.first_seconds - seconds),
    )


class Stopwatch:
    """Sums the milliseconds spent in methods of objects, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def watch(self, thing: Any, method: str, name: str, done: bool = False) -> None:
        """Count `thing.method` under `name`; with `done`, wait for the device."""
        inner = getattr(thing, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = inner(*arguments, **named)
            if done:
                wait(result)
            self.spent[name] += 1000 * (time.perf_counter() - start)
            return result

        setattr(thing, method, timed)


def trained_a_little(width: int) -> tuple[Agent, Trainer]:
    """An agent of the preset `simbav2` past its warm-up, with everything compiled."""
    settings: dict[str, Any] = {"critic.width": width, "warmup_decisions": 300}
    agent = Agent(TASK.id, preset="simbav2", **settings)
    trainer = agent.trainer
    trainer.begin()
    for _ in range(303):
        trainer.step()
    return agent, trainer


def split(agent: Agent, trainer: Trainer, decisions: int, turns: int = 5) -> LoopSplit:
    """How the time of a decision is spent, logging included: the median of `turns`.

    Every part is waited for, so that no part overlaps with the updates.
    """
    watch = Stopwatch()
    watch.watch(trainer, "explore", "act")
    watch.watch(trainer.envs, "step", "env")
    watch.watch(trainer.replay, "add", "replay")
    watch.watch(trainer.replay, "sample", "replay")
    watch.watch(agent.learner, "learn", "update", done=True)
    watch.watch(trainer, "step", "whole")
    steps = decisions // turns
    found: dict[str, list[float]] = defaultdict(list)
    wait(agent.state)
    for _ in range(turns):
        watch.spent.clear()
        for _ in range(steps):
            trainer.step()
        for name, spent in watch.spent.items():
            found[name].append(spent / steps)
        found["other"].append(2 * found["whole"][-1] - sum(watch.spent.values()) / steps)
    each = {name: median(values) for name, values in found.items()}
    assert agent.config.action_repeat is not None
    logging = _logging_ms(trainer) / (agent.config.schedule.log_every / agent.config.action_repeat)
    each["other"] += logging
    parts = (each[name] for name in ("env", "act", "replay", "update", "other"))
    return LoopSplit(TASK.id, agent.config.critic.width, *parts)


def _logging_ms(trainer: Trainer) -> float:
    with tempfile.TemporaryDirectory() as folder:
        display = Display(Status("", "", 0, 1), Console(quiet=True))
        rotation = CheckpointRotation(Path(folder), trainer.config.schedule)
        logger = RunLogger(Path(folder), trainer, display, rotation)
        logger.create(None)
        return _median_ms(logger.write_progress, 5)


def act_ms(agent: Agent, trainer: Trainer) -> float:
    return _median_ms(lambda: agent.act(trainer.replay.head, noise=1.0), 200)


def evaluation_ms(agent: Agent) -> float:
    """One decision of an evaluation."""
    with agent.trainer.make_evaluation_envs() as envs:
        start = time.perf_counter()
        (episode,) = evaluate(agent, envs, 1)
        return 1000 * (time.perf_counter() - start) / episode.length


def _median_ms(call: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - start))
    return median(spent)


def sample_ms() -> float:
    """Two batches from a replay of 20,000 transitions."""
    replay = Replay(20_000, TASK.observation_size, TASK.action_size)
    observation = np.zeros((1, TASK.observation_size), np.float32)
    action = np.zeros((1, TASK.action_size), np.float32)
    nothing = np.zeros(1)
    for decision in range(20_000):
        ended = np.array([decision % 500 == 499])
        step = Step(observation, observation, nothing, ended & False, ended, nothing, ended & False)
        replay.add(observation, action, step)
    rng = np.random.default_rng(0)
    return _median_ms(lambda: replay.sample(2, 256, rng), 200)


def replay_bytes() -> dict[str, float]:
    """Bytes per transition of a full replay, for the task with the largest observation of each suite."""
    capacity = 1_000_000
    largest = [max(tasks(suite), key=lambda task: task.observation_size) for suite in SUITES]
    return {
        task.id: Replay(capacity, task.observation_size, task.action_size).nbytes / capacity for task in largest
    }


def _process_seconds(*arguments: str) -> float:
    call = [sys.executable, *arguments]
    return _median_ms(lambda: subprocess.run(call, check=True, stdout=subprocess.DEVNULL), 3) / 1000


@contextmanager
def _empty_cache() -> Iterator[None]:
    """Use an empty cache of compiled programs, so that the first compilation is a real one."""
    before = backend.compiled_folder()
    with tempfile.TemporaryDirectory() as folder:
        backend.keep_compiled(folder)
        try:
            yield
        finally:
            backend.keep_compiled(before)


def run(plan: Plan = FULL) -> dict[str, Any]:
    """Every figure, as plain data."""
    with _empty_cache():
        compiled = [Program(plan.cases[0]).first_seconds for _ in ("first", "cached")]
        peak, rows = updates(plan.cases, plan.rounds)
        loops, acts, evaluations = [], [], []
        for width, decisions in plan.loops.items():
            agent, trainer = trained_a_little(width)
            wait(agent.state)
            acts.append(act_ms(agent, trainer))
            evaluations.append(evaluation_ms(agent))
            loops.append(split(agent, trainer, decisions))
            trainer.envs.close()
    return {
        "matmul_gflops": peak,
        "update": [asdict(row) for row in rows],
        "loop": [asdict(row) for row in loops],
        "act_ms": median(acts),
        "sample_ms": sample_ms(),
        "evaluation_ms": median(evaluations),
        "compile_seconds": {"first": compiled[0], "cached": compiled[1]},
        "replay_bytes_per_transition": replay_bytes(),
        "import_seconds": _process_seconds("-c", "import simbav2"),
        "help_seconds": _process_seconds("-m", "simbav2", "--help"),
        "peak_memory_mb": _peak_memory_mb(),
    }


def _peak_memory_mb() -> float:
    if sys.platform == "win32":
        return float("nan")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(result: dict[str, Any]) -> str:
    lines = [
        f"matrix multiply: {result['matmul_gflops']:.0f} GFLOP/s",
        "",
        f"{'preset':<8}{'width':>6}{'critics':>9}{'updates':>9}{'ms/update':>11}{'GFLOP':>8}{'of peak':>9}",
    ]
    lines += [
        f"{row['preset']:<8}{row['width']:>6}{row['critics']:>9}{row['updates']:>9}{row['ms']:>11.2f}"
        f"{row['gflop']:>8.2f}{row['fraction_of_peak']:>9.2f}"
        for row in result["update"]
    ]
    parts = ("env", "act", "replay", "other", "update")
    lines += ["", f"{'a decision, ms':<18}{'width':>6}{''.join(f'{part:>9}' for part in parts)}{'not update':>12}"]
    for row in result["loop"]:
        spent = [row[f"{part}_ms"] for part in parts]
        share = sum(spent[:-1]) / spent[-1]
        lines += [f"{row['task']:<18}{row['width']:>6}{''.join(f'{ms:>9.3f}' for ms in spent)}{share:>12.1%}"]
    compiled = result["compile_seconds"]
    lines += [
        "",
        f"act {result['act_ms']:.3f} ms, two batches from replay {result['sample_ms']:.3f} ms, "
        f"a decision of evaluation {result['evaluation_ms']:.3f} ms",
        f"compilation {compiled['first']:.1f} s, {compiled['cached']:.1f} s from the cache; "
        f"import {result['import_seconds']:.2f} s, help {result['help_seconds']:.2f} s; "
        f"peak memory {result['peak_memory_mb']:.0f} MB",
        "bytes of replay per transition: "
        + ", ".join(f"{task} {size:.0f}" for task, size in result["replay_bytes_per_transition"].items()),
    ]
    return "\n".join(lines)
