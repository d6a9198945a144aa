"""The offline results of docs/results.md, from nothing: `python benchmarks/offline_evidence.py [FOLDER]`.

Trains a `quick` agent on two tasks, mixes its checkpoints to data, learns from them (SimbaV2 and cloning alone,
two seeds each), and goes on online on the Hopper data. What is already in FOLDER is not made again and what was
begun goes on, so that it can be stopped at any time. Then writes docs/data/offline.csv and the figure, and prints
the tables.
"""

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from simbav2.datasets.dataset import examine
from simbav2.experiments.report.runs import read_run
from simbav2.experiments.report.scores import Curve, run_curve

DOCS = Path(__file__).parent.parent / "docs"
TIDY = DOCS / "data" / "offline.csv"
TASKS = {"hopper": "mujoco/Hopper-v4", "cheetah": "dmc/cheetah-run"}
LEVELS = ("medium-replay", "medium-expert")
SEEDS = (0, 1)
MAKER = {
    "preset": "quick",
    "env-steps": 60_000,
    "updates-per-decision": 1,
    "schedule.checkpoint-every": 5_000,
    "keep": 20,
}
TRANSITIONS = 100_000  # of a mixture; a replay is as long as it is
UPDATES = 16_000
AVERAGED = 5  # evaluations up to the last update: what a run is judged by
EPISODES = {"hopper": 10, "cheetah": 5}  # of an evaluation; those of the cheetah differ little
ONLINE = 50_000  # of which we look at the beginning
LOOKED_AT = 10_000
METHODS = {"offline": "SimbaV2 + cloning", "cloning": "cloning alone"}
# Smaller networks, fewer passes and a higher learning rate than the preset's; the same for both methods.
# So few updates leave the critic far below its policy's return, unless its target follows faster than usual.
SMALL = {
    "actor.width": 64,
    "learning-rate.initial": 1e-3,
    "learning-rate.final": 3e-6,
    "updates-per-decision": 1,
    "schedule.evaluate-every": 1_000,
}
CRITIC: dict[str, dict[str, object]] = {"offline": {"critic.width": 64, "target.tau": 0.02}, "cloning": {}}


class Case(NamedTuple):
    name: str
    level: str
    method: str
    seed: int

    def data(self, folder: Path) -> Path:
        return folder / f"{self.name}-{self.level}.hdf5"

    def run(self, folder: Path) -> Path:
        return folder / f"{self.name}-{self.level}-{self.method}-s{self.seed}"


CASES = [Case(n, lv, method, seed) for n in TASKS for lv in LEVELS for method in METHODS for seed in SEEDS]
ONLINE_CASES = [case for case in CASES if case[::2] == ("hopper", "offline")]


def simbav2(*words: object, **settings: object) -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    subprocess.run([sys.executable, "-m", "simbav2", *map(str, words), *flags], check=True, env=environment)


def make_data(folder: Path, name: str) -> None:
    run = folder / name
    if not (run / "summary.json").exists():
        simbav2("train", TASKS[name], "--auto-resume", out=run, **MAKER)
    for level in LEVELS:
        file = Case(name, level, "", 0).data(folder)
        if not file.exists():
            simbav2("dataset", run, mix=level, transitions=TRANSITIONS, out=file)


def learn(folder: Path, case: Case) -> None:
    """Offline, and in some cases online after it; the offline part is the same either way."""
    if (case.run(folder) / "summary.json").exists():
        return
    settings = {
        **SMALL,
        **CRITIC[case.method],
        "schedule.evaluation-episodes": EPISODES[case.name],
        "preset": case.method,
        "seed": case.seed,
        "data.passes": UPDATES * 256 / examine(case.data(folder))["transitions"],
        "out": case.run(folder),
    }
    if case in ONLINE_CASES:
        settings |= {"then-online": ONLINE, "stop-after": UPDATES + LOOKED_AT}
    simbav2("offline", case.data(folder), "--auto-resume", **settings)


class Result(NamedTuple):
    curve: Curve
    turn: int  # the step at which it has learned all it is to learn from data alone

    @property
    def offline(self) -> float:
        """The return after learning from data alone; single evaluations swing too much to compare."""
        return float(self.curve.mean[self.curve.env_step <= self.turn][-AVERAGED:].mean())

    @property
    def at_turn(self) -> float:
        """The return of the very policy that goes online."""
        return float(self.curve.mean[self.curve.env_step == self.turn][0])

    @property
    def online(self) -> np.ndarray:
        return self.curve.mean[self.curve.env_step > self.turn]


def result(run: Path) -> Result:
    read = read_run(run)
    return Result(run_curve(read, "return"), read.config.offline_updates)


def write_results(folder: Path) -> None:
    """One row per evaluation: tidy, and all that the figure and the tables of the docs need."""
    TIDY.parent.mkdir(exist_ok=True)
    with open(TIDY, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["task", "data", "data_return", "method", "seed", "phase", "step", "return"])
        for case in CASES:
            found, data = result(case.run(folder)), data_return(folder, case)
            for step, total in zip(found.curve.env_step, found.curve.mean, strict=True):
                phase = ("offline", int(step)) if step <= found.turn else ("online", int(step) - found.turn)
                out.writerow([TASKS[case.name], case.level, round(data, 1), *case[2:], *phase, round(total, 1)])


def data_return(folder: Path, case: Case) -> float:
    return float(examine(case.data(folder))["return"]["mean"])


def print_tables(folder: Path) -> None:
    print("| data | episodes | mean return of the data | cloning alone | SimbaV2 + cloning |")
    print("|---|---|---|---|---|")
    for name in TASKS:
        for level in LEVELS:
            facts = examine(Case(name, level, "", 0).data(folder))
            cells = [f"{TASKS[name]} {level} ({facts['transitions']:,})", f"{facts['episodes']:,}"]
            cells.append(f"{facts['return']['mean']:.0f}")
            for method in ("cloning", "offline"):
                finals = [result(Case(name, level, method, seed).run(folder)).offline for seed in SEEDS]
                cells.append(" / ".join(f"{final:.0f}" for final in finals))
            print(f"| {' | '.join(cells)} |")
    print("\n| data | seed | offline | at the turn | lowest online | share of offline | of the turn | last |")
    print("|---|---|---|---|---|---|---|---|")
    for case in ONLINE_CASES:
        found = result(case.run(folder))
        low = found.online.min()
        returns = [found.offline, found.at_turn, low]
        cells = [case.level, str(case.seed), *(f"{value:.0f}" for value in returns)]
        cells += [f"{low / found.offline:.0%}", f"{low / found.at_turn:.0%}", f"{found.online[-1]:.0f}"]
        print(f"| {' | '.join(cells)} |")


def draw(folder: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.5), layout="constrained")
    places = {(n, lv): axes[row, column] for row, n in enumerate(TASKS) for column, lv in enumerate(LEVELS)}
    for case in CASES:
        axis, found = places[case.name, case.level], result(case.run(folder))
        color = {"offline": "C0", "cloning": "C1"}[case.method]
        label = METHODS[case.method] if case.seed == 0 else None
        style = "-" if case.seed == 0 else "--"
        axis.plot(found.curve.env_step / 1000, found.curve.mean, style, color=color, label=label, linewidth=1.5)
        if case in ONLINE_CASES and case.seed == 0:
            axis.axvline(found.turn / 1000, color="0.4", linestyle=":", linewidth=1)
            axis.text(found.turn / 1000, 0.02, " online", transform=axis.get_xaxis_transform(), color="0.4")
    for (name, level), axis in places.items():
        total = data_return(folder, Case(name, level, "", 0))
        axis.axhline(total, color="0.5", linewidth=1, label="mean of the data")
        online = any(case[:2] == (name, level) for case in ONLINE_CASES)
        across = "thousand updates, then simulator steps" if online else "thousand updates"
        axis.set(title=f"{TASKS[name]}, {level}", xlabel=across, ylabel="return")
        axis.set_xlim(0)
        axis.set_ylim(0)
        axis.grid(alpha=0.3)
    title = "seed 0 solid, seed 1 dashed"
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, title=title)
    figure.savefig(DOCS / "images" / "offline.png", dpi=120)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/offline-evidence")
    for name in TASKS:
        make_data(folder, name)
    for case in CASES:
        learn(folder, case)
    write_results(folder)
    draw(folder)
    print_tables(folder)


if __name__ == "__main__":
    main()
