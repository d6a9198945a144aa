"""Synthetic run folders, written as training writes them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest


class MakeRun(Protocol):
    def __call__(self, evaluations: Mapping[int, Sequence[float]], **settings: Any) -> Path: ...


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A function that writes a run folder from {env_step: returns of the episodes} and returns its path."""

    def make(
        evaluations: Mapping[int, Sequence[float]],
        name: str | None = None,
        finished: bool = True,
        success: float | None = None,
        mujoco: str = "3.6.0",
        summary: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Path:
        config = {
            "task": "dmc/walker-walk",
            "preset": "quick",
            "seed": 0,
            "env_steps": 20_000,
            "critic": {"width": 128, "members": None},
            **settings,
        }
        folder = tmp_path / "runs" / (name or f"run-{config['seed']}")
        folder.mkdir(parents=True)
        versions = {"simbav2": "0.1.0", "mujoco": mujoco}
        (folder / "config.json").write_text(json.dumps({**config, "versions": versions}))
        with (folder / "evaluations.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(("env_step", "episode", "return", "length", "success"))
            for step, returns in evaluations.items():
                table.writerows((step, index, each, 500, success) for index, each in enumerate(returns))
        last = max(evaluations, default=0)
        (folder / "progress.csv").write_text(
            "env_step,decisions,updates,return,updates_per_second\n"
            f"1000,500,0,,\n{last},{last // 2},{last},12.5,81.25\n"
        )
        if finished:
            written = {"env_steps": last, "seconds": 492.0, "updates_per_second": 81.25, **(summary or {})}
            (folder / "summary.json").write_text(json.dumps(written))
        return folder

    return make
