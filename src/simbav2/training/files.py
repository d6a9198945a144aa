"""Files that a reader never sees half written, and what goes into all of them."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("simbav2", "jax", "flax", "optax", "numpy", "gymnasium", "mujoco", "dm-control", "myosuite")


def versions() -> dict[str, str]:
    """What a result was made with: physics differs between MuJoCo releases."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_text(path: Path, text: str) -> None:
    """Written beside and renamed."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    os.replace(beside, path)


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")
