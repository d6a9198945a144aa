"""Synthetic run folders, written as training writes them: plausible curves, metrics and speeds, no training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.config import override, presets, to_json
from simbav2.envs.tasks import Task, find, tasks

VERSIONS = {"python": "3.11.7", "simbav2": "0.1.0", "jax": "0.10.2", "mujoco": "3.6.0"}
DIAGNOSTICS = ("feature_norm", "parameter_norm", "gradient_norm", "effective_learning_rate")


def write_benchmark(
    folder: Path, ids: Iterable[str] | None = None, seeds: int = 10, preset: str = "paper", **given: Any
) -> None:
    """Runs of one method on all 57 tasks, or on `ids`."""
    for task in tasks() if ids is None else filter(None, map(find, ids)):
        for seed in range(seeds):
            name = "-".join([task.id.replace("/", "-"), preset, *map(str, given.values()), str(seed)])
            write_run(folder / name, task, seed, preset, given)


def write_run(
    folder: Path,
    task: Task,
    seed: int,
    preset: str = "paper",
    given: dict[str, Any] | None = None,
    strength: float = 0.9,
    evaluations: int = 20,
    lines: int = 100,
    **more: Any,
) -> None:
    """One finished run that ends near `strength` of the reference; `more` goes into `config.json`."""
    config = override(presets.preset(preset), {**(given or {}), "task": task.id, "seed": seed}).resolve(task)
    random = np.random.default_rng([seed, sum(task.id.encode()), sum(str(given).encode())])
    steps = np.linspace(0, config.env_steps, evaluations + 1)[1:].astype(int)
    low, high = task.random_score or 0.0, task.reference_score or 1.0
    means = low + (high - low) * strength * random.uniform(0.7, 1.2) * (1 - np.exp(-4 * steps / config.env_steps))
    folder.mkdir(parents=True)
    environment = {"observation_size": task.observation_size, "action_size": task.action_size}
    facts = {"settings": {**(given or {}), "seed": seed}, "environment": environment, "versions": VERSIONS, **more}
    (folder / "config.json").write_text(json.dumps({**to_json(config), "stop_after": None, **facts}))
    rows = ["env_step,episode,return,length,success"]
    for step, mean in zip(steps, means, strict=True):
        for episode in range(10):
            value = mean + 0.03 * (high - low) * random.standard_normal()
            solved = int(random.uniform() < mean) if task.metric == "success" else ""
            rows.append(f"{step},{episode},{value:.3f},500,{solved}")
    (folder / "evaluations.csv").write_text("\n".join(rows) + "\n")
    logged = np.linspace(0, config.env_steps, lines + 1)[1:].astype(int)
    progress = [f"{step},{step // 2},{step},,,,{step / 80:.1f},80.5" for step in logged]
    header = "env_step,decisions,updates,return,length,success,seconds,updates_per_second"
    (folder / "progress.csv").write_text("\n".join([header, *progress]) + "\n")
    with (folder / "metrics.jsonl").open("w") as file:
        for number, step in enumerate(logged):
            row = {"env_step": int(step), "updates": int(step), "entropy": -3.0, "q": float(random.uniform(0, 5))}
            if number % 5 == 4:
                for part in ("critic/encoder", "critic/predictor", "actor/encoder", "actor/predictor"):
                    row |= {f"{part}/{name}": float(random.uniform(0.9, 1.1)) for name in DIAGNOSTICS}
            file.write(json.dumps(row) + "\n")
    summary = {"env_steps": config.env_steps, "updates": config.updates, "seconds": config.updates / 80.0}
    summary |= {"updates_per_second": 80.5, "seconds_per_action": 0.0004, "compile_seconds": 12.5}
    (folder / "summary.json").write_text(json.dumps(summary))


def write_small_run(
    top: Path,
    evaluations: Mapping[int, Sequence[float]],
    name: str | None = None,
    finished: bool = True,
    success: float | None = None,
    versions: Mapping[str, str] | None = None,
    summary: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A run folder with nothing but what must be there, from {env_step: returns of the episodes}."""
    config = {"task": "dmc/walker-walk", "preset": "quick", "seed": 0, "env_steps": 20_000, **settings}
    folder = top / "runs" / (name or f"run-{config['seed']}")
    folder.mkdir(parents=True)
    made_with = {"simbav2": "0.1.0", "mujoco": "3.6.0", **(versions or {})}
    (folder / "config.json").write_text(json.dumps({**config, "versions": made_with}))
    solved = "" if success is None else success
    rows = [f"{step},{i},{each},500,{solved}" for step, all in evaluations.items() for i, each in enumerate(all)]
    (folder / "evaluations.csv").write_text("\n".join(["env_step,episode,return,length,success", *rows, ""]))
    last = max(evaluations, default=0)
    (folder / "progress.csv").write_text(
        "env_step,decisions,updates,return,updates_per_second\n"
        f"1000,500,0,,\n{last},{last // 2},{last},12.5,81.25\n"
    )
    if finished:
        written = {"env_steps": last, "seconds": 492.0, "updates_per_second": 81.25, **(summary or {})}
        (folder / "summary.json").write_text(json.dumps(written))
    return folder
