"""One process at a time works on a run: a file lock of the kernel, which ends with the process, even a killed one.

The file stays behind. It only names the holder, and only while it is locked.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from simbav2.errors import InputError

NAME = ".lock"
PATIENCE = 0.5  # seconds; whoever asks for the `holder` has the lock for a moment, too
_PROBE = 0.05  # seconds that such a question waits for another one
# Windows has no such flag, and keeps the first byte of a locked file from readers: the note starts behind it.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NOTE = 1


@contextmanager
def hold(run: Path) -> Iterator[None]:
    """Keep others out of `run`, which is made if it is not there."""
    run.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(run / NAME, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o644)
    try:
        if (other := _lock(descriptor, PATIENCE)) is not None:
            raise InputError(f"{run} is in use by {other}; wait for it or stop it first")
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, _NOTE, os.SEEK_SET)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(descriptor)


def holder(run: Path) -> str | None:
    """Who works on `run`; None for nobody."""
    try:
        descriptor = os.open(run / NAME, os.O_RDONLY | _NO_LINKS)
    except FileNotFoundError:
        return None
    try:
        return _lock(descriptor, _PROBE)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience: float) -> str | None:
    """Take the lock; or who keeps it for longer than `patience` seconds."""
    deadline = time.monotonic() + patience
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= deadline:
            os.lseek(descriptor, _NOTE, os.SEEK_SET)
            return os.read(descriptor, 200).decode(errors="replace") or "another process"
        time.sleep(0.01)
    return None
