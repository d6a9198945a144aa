"""The log of a run in a sweep: what its processes printed, between lines that tell how each began and ended.

It stands beside the run's folder, since a run that fails at once has none.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from simbav2.checkpoint.files import read_json
from simbav2.errors import CheckpointError, printable
from simbav2.experiments.report.runs import FAILURE

FOLDER = "logs"
BEGUN, ENDED = "--- attempt", "--- exit status"
_TAIL = 4096  # bytes that surely hold the last lines


class Log(NamedTuple):
    path: Path
    words: str  # the last line of the latest attempt's output
    status: int | None  # its exit status; None while it goes on, or where nobody saw its end

    def error(self, folder: Path) -> str:
        """Why the attempt failed, as the run in `folder` itself tells, else as its last words do."""
        try:
            told = str(read_json(folder / FAILURE)["error"]) if (folder / FAILURE).is_file() else ""
        except (CheckpointError, KeyError):
            told = ""
        killed = f"killed by {signal.Signals(-self.status).name}" if self.status and self.status < 0 else ""
        return printable(told or killed or self.words.removeprefix("simbav2: "))


def place(out: Path, name: str) -> Path:
    return out / FOLDER / f"{name}.log"


@contextmanager
def appended(out: Path, name: str) -> Iterator[IO[str]]:
    path = place(out, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        yield file


def tail(path: Path) -> list[str]:
    """The last whole lines of a file; none where it is not there."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [line.rstrip("\n") for line in lines[size > _TAIL :] if line.endswith("\n")]


def read(out: Path, name: str) -> Log:
    path = place(out, name)
    *before, last = ["", *(line for line in tail(path) if line.strip())]
    if not last.startswith(ENDED):
        return Log(path, last, None)
    return Log(path, before[-1] if before else "", int(last.removeprefix(ENDED)))
