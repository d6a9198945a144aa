"""A small run for as long as one likes: does it keep to its memory and its file handles?"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SETTINGS = {
    "env-steps": 100_000_000,
    "actor.width": 32,
    "critic.width": 32,
    "replay.capacity": 3_000,  # full before the warm-up is over, so that it does not count as growth
    "schedule.log-every": 500,
    "schedule.evaluate-every": 5_000,
    "schedule.evaluation-episodes": 2,
    "schedule.checkpoint-every": 1_000,
}


def main(scratch: Path, minutes: float) -> dict[str, Any]:
    settings = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
    start = [sys.executable, "-m", "simbav2", "train", "mujoco/Hopper-v4", "--preset", "quick"]
    samples: list[tuple[float, int]] = []  # (megabytes, file handles)
    with open(scratch / "soak.log", "w") as log:
        command = [*start, *settings, "--out", str(scratch / "soak"), "--overwrite"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and process.poll() is None:
            time.sleep(5)
            status = Path(f"/proc/{process.pid}/status").read_text()
            handles = len(os.listdir(f"/proc/{process.pid}/fd"))
            samples.append((int(status.partition("VmRSS:")[2].split()[0]) / 1024, handles))
        process.send_signal(signal.SIGTERM)
        code = process.wait()
    warm = samples[len(samples) // 3 :]  # a third for the warm-up
    half = len(warm) // 2
    memory, handles = zip(*warm, strict=True)
    early, late = statistics.median(memory[:half]), statistics.median(memory[half:])
    steps = (scratch / "soak" / "progress.csv").read_text().splitlines()[-1].split(",")[0]
    figures = {
        "minutes": minutes,
        "env_steps": int(steps),
        "checkpoints": int(steps) // SETTINGS["schedule.checkpoint-every"],
        "megabytes_first_half": round(early, 1),
        "megabytes_second_half": round(late, 1),
        "megabytes_most": round(max(memory), 1),
        "growth_percent": round(100 * (late / early - 1), 2),
        "file_handles": [min(handles), max(handles)],
        "exit_status": code,
        "flat": late < 1.02 * early and statistics.median(handles[half:]) <= statistics.median(handles[:half]),
    }
    print(json.dumps(figures), flush=True)
    return figures


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
