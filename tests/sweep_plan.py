"""Plans of short runs, the command that makes them, and results that must not depend on the backend."""

import atexit
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from short_runs import results

SETTINGS = {
    "env_steps": 600,
    "warmup_decisions": 100,
    "actor.width": 16,
    "actor.depth": 1,
    "critic.width": 16,
    "critic.depth": 1,
    "critic.num_critics": 1,
    "replay.batch_size": 32,
    "replay.capacity": 5_000,
    "schedule.log_every": 100,
    "schedule.evaluate_every": 600,
    "schedule.evaluation_episodes": 1,
    "schedule.checkpoint_every": 100,
}


def write(folder: Path, seeds: int, *tasks: str, **settings: int) -> Path:
    """A plan whose runs all share one compiled program."""
    lines = [f"tasks = {list(tasks or ['Pendulum-v1'])}", 'presets = ["sac"]', f"seeds = {seeds}", "[settings]"]
    lines += [f"{name} = {value}" for name, value in {**SETTINGS, **settings}.items()]
    path = folder / "short.toml"
    path.write_text("\n".join(lines))
    return path


def start(plan: Path, out: Path, *more: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "simbav2", "sweep", str(plan), "--out", str(out), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    atexit.register(process.kill)  # where a test fails before its end
    return process


def finish(plan: Path, out: Path, *more: str) -> str:
    """Make all runs; what was printed."""
    process = start(plan, out, *more)
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return printed


def wait(reached: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def outcomes(out: Path) -> dict[str, object]:
    """Every finished run's results by its name."""
    return {path.parent.name: results(path.parent) for path in sorted(out.glob("*/summary.json"))}


def endings(out: Path) -> list[list[str]]:
    """The exit statuses in the log of every run."""
    logs = sorted(out.glob("logs/*.log"))
    return [re.findall(r"^--- exit status (.*)$", path.read_text(), re.MULTILINE) for path in logs]
