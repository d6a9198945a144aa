"""SIGKILL at random moments, again and again, until the run is through: does it end with the same bits?

A third of the kills comes at any time since the process was started, imports and compilation included; a third
while a checkpoint is being written; the rest wherever the training is after a random number of steps.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.checkpoint import checkpoint, rotation

TASKS = ("dmc/cartpole-swingup", "mujoco/Hopper-v4", "myosuite/myo-reach-hard", "hbench/h1-walk")
ENV_STEPS, KILLS, EVERY = 6_000, 25, 250
SETTINGS = {
    "env-steps": ENV_STEPS,
    "actor.width": 16,
    "critic.width": 16,
    "critic.depth": 1,
    "replay.batch-size": 64,
    "replay.capacity": 2_000,  # the ring goes round more than once
    "warmup-decisions": 500,
    "schedule.log-every": 50,
    "schedule.evaluate-every": 2_000,
    "schedule.evaluation-episodes": 2,
    "schedule.checkpoint-every": EVERY,
}
CLOCKS = ("seconds", "updates_per_second")


def command(task: str, num_envs: int, folder: Path) -> list[str]:
    settings = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
    start = [sys.executable, "-m", "simbav2", "train", task, "--preset", "quick", "--seed", "3"]
    return [*start, "--num-envs", str(num_envs), *settings, "--out", str(folder), "--auto-resume"]


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if k not in CLOCKS} for row in csv.DictReader(file)]


def replay_sha256(run: Path) -> str:
    """Of every transition in its order, whatever files they are in."""
    replay, digest = rotation.load_run(run)[0].replay, hashlib.sha256()
    for _, array in sorted({**replay.export_rows(replay.oldest, replay.added), "head": replay.head}.items()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def outcome(run: Path) -> dict[str, Any]:
    """What must not depend on how the run got to its end."""
    files = checkpoint.verify(rotation.checkpoints(run)[0], checkpoint.AGENT).files
    return {
        "params_sha256": json.loads((run / "summary.json").read_text())["params_sha256"],
        "learner": files[checkpoint.LEARNER].sha256,
        "statistics": files[checkpoint.STATISTICS].sha256,
        "random states and episodes": files[checkpoint.STATE].sha256,
        "replay": replay_sha256(run),
        "evaluations": rows(run / "evaluations.csv"),
        "progress": rows(run / "progress.csv"),
        "metrics": (run / "metrics.jsonl").read_text(),
    }


def at_step(run: Path) -> int:
    """The last step that left a row."""
    try:
        lines = (run / "progress.csv").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return int(lines[-1].split(",")[0]) if len(lines) > 1 else 0


def saved_step(run: Path) -> int:
    return int(found[0].name) if (found := rotation.checkpoints(run)) else 0


def wait(process: subprocess.Popen, reached: Any, deadline: float) -> None:
    until = time.monotonic() + deadline
    while process.poll() is None and time.monotonic() < until and not reached():
        time.sleep(0.002)


def provoke(process: subprocess.Popen, run: Path, rng: np.random.Generator, startup: float, left: int) -> str:
    """Wait for the moment to kill `process`, so early that the run lasts for `left` kills more; its kind."""
    kind = str(rng.choice(["any time", "writing", "training"]))
    saved = saved_step(run)
    target = saved + rng.uniform(0, 2 * max(0, ENV_STEPS - 2 * EVERY - saved) / (left + 1))
    if kind == "any time":
        wait(process, lambda: saved_step(run) > saved, rng.uniform(0, 1.5 * startup))
    else:
        wait(process, lambda: at_step(run) <= saved, 300)  # rows behind it are of the process before
        wait(process, lambda: at_step(run) >= target or saved_step(run) > saved, 300)
    if kind == "writing":
        wait(process, lambda: any((run / "checkpoints").glob(".*")), 60)
        wait(process, lambda: False, rng.uniform(0, 0.03))
    return kind


def survive(task: str, num_envs: int, scratch: Path, seed: int) -> dict[str, Any]:
    """One run without a kill and one with; the figures of the second."""
    name = f"{task.replace('/', '-')}-{num_envs}"
    whole, killed = scratch / f"{name}-whole", scratch / f"{name}-killed"
    for folder in (whole, killed):
        shutil.rmtree(folder, ignore_errors=True)
    log = open(scratch / f"{name}.log", "w")  # noqa: SIM115
    began = time.monotonic()
    process = subprocess.Popen(command(task, num_envs, whole), stdout=log, stderr=log)
    wait(process, lambda: at_step(whole) > 0, 600)
    startup = time.monotonic() - began
    if process.wait() != 0:
        raise SystemExit(f"{task} does not run; see {log.name}")
    rng = np.random.default_rng(seed)
    kinds: dict[str, int] = {}
    lost: list[int] = []
    while len(lost) < KILLS:
        process = subprocess.Popen(command(task, num_envs, killed), stdout=log, stderr=log)
        kind = provoke(process, killed, rng, startup, KILLS - len(lost))
        process.kill()
        if process.wait() == 0:
            break  # too late: it has ended
        kinds[kind] = kinds.get(kind, 0) + 1
        lost.append(max(0, at_step(killed) - saved_step(killed)))
    code = subprocess.run(command(task, num_envs, killed), stdout=log, stderr=log, check=False).returncode
    log.close()
    expected, found = outcome(whole), outcome(killed) if code == 0 else {}
    different = [part for part in expected if found.get(part) != expected[part]]
    figures = {
        "task": task,
        "num_envs": num_envs,
        "env_steps": ENV_STEPS,
        "kills": len(lost),
        "kinds": kinds,
        "identical": not different,
        "different": different,
        "params_sha256": expected["params_sha256"],
        "steps_lost_mean": float(np.mean(lost)),
        "steps_lost_most": max(lost),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures), flush=True)
    return figures


def share_compilations(scratch: Path) -> None:
    """One cache of compiled programs for all processes: they start often."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(scratch / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")


def main(scratch: Path, tasks: tuple[str, ...] = TASKS, many: tuple[int, ...] = (1, 2)) -> list[dict[str, Any]]:
    return [
        survive(task, num_envs, scratch, seed=10 * number + num_envs)
        for num_envs in many
        for number, task in enumerate(tasks)
    ]


if __name__ == "__main__":
    # Some of it alone: kills.py SCRATCH TASK NUM_ENVS
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    share_compilations(folder)
    main(folder, tuple(sys.argv[2:3]) or TASKS, tuple(map(int, sys.argv[3:4])) or (1, 2))
