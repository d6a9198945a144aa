"""Stands in for a run's process in the tests of sweeps: reads the words of `simbav2 train`, leaves a run's files.

The first two attempts at `MountainCarContinuous-v0` fail half-way. It imports nothing heavy: a process takes
milliseconds where a true one takes seconds.
"""

import json
import sys
from pathlib import Path

FAILS = "MountainCarContinuous-v0"
ERROR = "the gripper is stuck"


def main(command: str, task: str, *words: str) -> int:
    assert command == "train"
    folder = Path(words[words.index("--out") + 1])
    steps = next(int(word.partition("=")[2]) for word in words if word.startswith("--env-steps="))
    folder.mkdir(parents=True, exist_ok=True)
    attempts = folder / "attempts"
    attempts.write_text((attempts.read_text() if attempts.exists() else "") + "|")
    if task == FAILS and len(attempts.read_text()) < 3:
        (folder / "progress.csv").write_text(f"env_step,decisions,updates\n{steps // 2},{steps // 2},0\n")
        (folder / "failure.json").write_text(json.dumps({"error": ERROR, "env_step": steps // 2}))
        print(f"simbav2: {ERROR}")
        return 1
    (folder / "failure.json").unlink(missing_ok=True)
    (folder / "summary.json").write_text(json.dumps({"env_steps": steps}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
