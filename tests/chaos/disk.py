"""A file system that is full in the middle of a run, then larger: nothing is lost, and the bits are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kills import command, outcome


def main(scratch: Path) -> dict[str, Any]:
    """Needs the right to mount a tmpfs, of a size that holds two checkpoints but not, later on, the third."""
    mount = scratch / "small"
    mount.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=660k", "tmpfs", str(mount)], check=True)
    try:
        words = command("mujoco/Hopper-v4", 1, mount / "run")
        full = subprocess.run(words, capture_output=True, text=True, check=False)
        left = [path.name for path in mount.rglob(".*.tmp")]
        subprocess.run(["mount", "-o", "remount,size=64m", str(mount)], check=True)
        again = subprocess.run(words, capture_output=True, text=True, check=False)
        whole = scratch / "roomy"
        subprocess.run(command("mujoco/Hopper-v4", 1, whole), check=True, capture_output=True)
        figures = {
            "exit_status_when_full": full.returncode,
            "message": full.stderr.strip(),
            "temporary_files_left": left,
            "exit_status_with_room": again.returncode,
            "identical": again.returncode == 0 and outcome(mount / "run") == outcome(whole),
        }
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    print(json.dumps(figures), flush=True)
    return figures


if __name__ == "__main__":
    main(Path(sys.argv[1]))
