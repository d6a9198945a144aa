"""One process at a time works on a run: a file lock of the kernel, which ends with the process, even a killed one.

The file itself only names the holder.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    path = run / NAME
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, _NOTE, os.SEEK_SET)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with suppress(PermissionError):  # Windows removes no open file; it stays, and locks nobody out
            path.unlink(missing_ok=True)  # while it is still locked
        os.close(descriptor)


def holder(run: Path) -> str | None:
    """Who works on `run`; None for nobody."""
    try:
        descriptor = os.open(run / NAME, os.O_RDONLY | _NO_LINKS)
    except FileNotFoundError:
        return None
    try:
        return None if _locked(descriptor, _PROBE) else _noted(descriptor)
    finally:
        os.close(descriptor)


def _noted(descriptor: int) -> str:
    os.lseek(descriptor, _NOTE, os.SEEK_SET)
    return os.read(descriptor, 200).decode(errors="replace") or "another process"


def _locked(descriptor: int, patience: float) -> bool:
    """Take the lock, unless somebody else keeps it for longer than `patience` seconds."""
    deadline = time.monotonic() + patience
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o644)
        if not _locked(descriptor, PATIENCE):
            noted = _noted(descriptor)
            os.close(descriptor)
            raise InputError(f"{path.parent} is in use by {noted}; wait for it or stop it first")
        # The holder before us removed its file at the end: a lock on a file without a name keeps nobody out.
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)
