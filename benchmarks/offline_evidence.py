"""The offline results of docs/results.md, from nothing: `python benchmarks/offline_evidence.py [FOLDER]`.

Trains a `quick` agent on two tasks, mixes its checkpoints to data, learns from them (SimbaV2 and cloning alone,
two seeds each), and goes on online on the Hopper data. What is already in FOLDER is not made again, so that it can
be stopped at any time. Then writes results/offline.csv and the figure.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent.parent
TASKS = {"hopper": "mujoco/Hopper-v4", "cartpole": "dmc/cartpole-swingup"}
LEVELS = ("medium-expert", "medium-replay")
TRANSITIONS = 50_000  # of a mixture; a replay is as long as it is
PASSES = {"medium-expert": 25, "medium-replay": 100}  # about 5,000 updates each
ONLINE = 10_000
SEEDS = (0, 1)
SMALL = [  # widths and learning rates of `quick`
    *("--actor.width", "64", "--learning-rate.initial", "1e-3", "--learning-rate.final", "1e-5"),
    *("--updates-per-decision", "1", "--schedule.evaluate-every", "2000"),
]
SYSTEMS = {"offline": ["--critic.width", "64"], "cloning": []}


def simbav2(*words: object) -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    subprocess.run([sys.executable, "-m", "simbav2", *map(str, words)], check=True, env=environment)


def make_data(folder: Path, name: str) -> None:
    run = folder / name
    if not (run / "summary.json").exists():
        kept = ("--schedule.checkpoint-every", 5_000, "--schedule.keep", 20)
        simbav2("train", TASKS[name], "--preset", "quick", "--out", run, "--overwrite", *kept)
    for level in LEVELS:
        file = data_file(folder, name, level)
        if not file.exists():
            simbav2("dataset", run, "--mix", level, "--transitions", TRANSITIONS, "--out", file)


def data_file(folder: Path, name: str, level: str) -> Path:
    return folder / f"{name}-{level}.hdf5"


def run_folder(folder: Path, name: str, level: str, system: str, seed: int) -> Path:
    return folder / f"{name}-{level}-{system}-s{seed}"


def learn(folder: Path, name: str, level: str, system: str, seed: int) -> None:
    """Offline, and on the Hopper data online after it; the offline part is the same either way."""
    run = run_folder(folder, name, level, system, seed)
    if (run / "summary.json").exists():
        return
    online = ONLINE if (name, system) == ("hopper", "offline") else 0
    settings = [*SMALL, *SYSTEMS[system], "--data.passes", PASSES[level], "--seed", seed, "--then-online", online]
    simbav2(
        *("offline", data_file(folder, name, level), "--preset", system, "--out", run, "--overwrite"), *settings
    )


def offline_updates(run: Path) -> int:
    """The step at which a run has learned all it is to learn from data alone."""
    config = json.loads((run / "config.json").read_text())
    data = config["data"]
    return int(-(-data["passes"] * data["transitions"] / config["replay"]["batch_size"] // 10) * 10)


def curve(run: Path) -> dict[int, float]:
    """Step -> mean return of its evaluation episodes."""
    totals: dict[int, list[float]] = {}
    with open(run / "evaluations.csv", newline="") as file:
        for row in csv.DictReader(file):
            totals.setdefault(int(row["env_step"]), []).append(float(row["return"]))
    return {step: float(np.mean(values)) for step, values in totals.items()}


def mean_return(file: Path) -> float:
    from simbav2.datasets.check import examine

    return float(examine(file)["return"]["mean"])


def finished(folder: Path) -> list[tuple[str, str, str, int, Path]]:
    every = [(n, lv, system, seed) for n in TASKS for lv in LEVELS for system in SYSTEMS for seed in SEEDS]
    runs = [(*each, run_folder(folder, *each)) for each in every]
    return [each for each in runs if (each[-1] / "summary.json").exists()]


def write_results(folder: Path) -> None:
    """One row per evaluation: tidy, and all that the figure and the tables of the docs need."""
    (ROOT / "results").mkdir(exist_ok=True)
    with open(ROOT / "results" / "offline.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["task", "data", "data_return", "system", "seed", "phase", "step", "return"])
        for name, level, system, seed, run in finished(folder):
            data_return = round(mean_return(data_file(folder, name, level)), 1)
            for step, total in curve(run).items():
                online = step - offline_updates(run)
                phase = ("offline", step) if online <= 0 else ("online", online)
                out.writerow([TASKS[name], level, data_return, system, seed, *phase, round(total, 1)])


def draw(folder: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.5), layout="constrained")
    places = {(n, lv): axes[row, column] for row, n in enumerate(TASKS) for column, lv in enumerate(LEVELS)}
    for name, level, system, seed, run in finished(folder):
        axis = places[name, level]
        steps, totals = zip(*curve(run).items(), strict=True)
        label = {"offline": "SimbaV2 + cloning", "cloning": "cloning alone"}[system] if seed == 0 else None
        color = {"offline": "C0", "cloning": "C1"}[system]
        axis.plot(steps, totals, color=color, label=label, linewidth=1.5, alpha=0.9)
        if system == "offline" and steps[-1] > offline_updates(run) and seed == 0:
            axis.axvline(offline_updates(run), color="0.4", linestyle=":", linewidth=1)
            axis.text(offline_updates(run), 0.02, " online", transform=axis.get_xaxis_transform(), color="0.4")
    for (name, level), axis in places.items():
        total = mean_return(data_file(folder, name, level))
        axis.axhline(total, color="0.6", linestyle="--", linewidth=1, label="mean of the data")
        axis.set(title=f"{TASKS[name]}, {level}", xlabel="updates, then simulator steps", ylabel="return")
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize="small")
    figure.savefig(ROOT / "docs" / "images" / "offline.png", dpi=120)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/offline-evidence")
    for name in TASKS:
        make_data(folder, name)
    for seed in SEEDS:
        for name in TASKS:
            for level in LEVELS:
                for system in SYSTEMS:
                    learn(folder, name, level, system, seed)
    write_results(folder)
    draw(folder)


if __name__ == "__main__":
    main()
