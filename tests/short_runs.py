"""A run of seconds that many tests look at, and what must not depend on how it got to its end."""

import csv
import hashlib
import json
import subprocess
import sys

from toys import TINY

from simbav2 import SimbaV2
from simbav2.checkpoint import checkpoint, rotation
from simbav2.checkpoint.checkpoint import Manifest
from simbav2.checkpoint.files import Checksum
from simbav2.training.trainer import Trainer

SETTINGS = {
    **TINY,
    "env_steps": 1_600,
    "updates_per_decision": 0.1,  # enough to see that a run ends with the same bits
    "schedule.log_every": 400,
    "schedule.evaluate_every": 800,
    "schedule.evaluation_episodes": 2,
    "schedule.checkpoint_every": 500,
}
TASK = "mujoco/Hopper-v4"
ARGUMENTS = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def rows(path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def results(folder) -> tuple[str, list[dict[str, str]], list[tuple[str, str]]]:
    """What must not depend on how a run got to its end."""
    summary = json.loads((folder / "summary.json").read_text())
    progress = [(row["env_step"], row["return"]) for row in rows(folder / "progress.csv")]
    return summary["params_sha256"], rows(folder / "evaluations.csv"), progress


def load_trainer(folder, env=None) -> tuple[Trainer, tuple]:
    """The trainer of a run as `simbav2 resume` has it before its first step, and the files of its replay."""
    saved, segments = rotation.load_run(folder)
    trainer = SimbaV2.from_checkpoint(saved, env).trainer
    trainer.restore(saved)
    return trainer, segments


def edit(saved, name, change) -> None:
    """Change a JSON file of a checkpoint under checksums that are right, as a forger would."""
    content = json.loads((saved / name).read_text())
    change(content)
    (saved / name).write_text(json.dumps(content))
    found, data = checkpoint.read_manifest(saved), (saved / name).read_bytes()
    files = {**found.files, name: Checksum(len(data), hashlib.sha256(data).hexdigest())}
    checkpoint.write_manifest(saved, Manifest(files, found.replay))


def start(folder, *more: str, task: str = TASK) -> subprocess.Popen:
    words = ["train", task, "--seed", "1", *ARGUMENTS, "--out", str(folder), *more]
    command = [sys.executable, "-m", "simbav2", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
