"""One process at a time works on a run.

The lock is the kernel's and goes with the process, however that ends; the file only says who holds it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simbav2.errors import InputError

NAME = ".lock"
PATIENCE = 0.5  # seconds; whoever asks for the `holder` has the lock for a moment, too


@contextmanager
def hold(run: Path) -> Iterator[None]:
    """Keep others out of `run`, which is made if it is not there."""
    run.mkdir(parents=True, exist_ok=True)
    path = run / NAME
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still locked
        os.close(descriptor)


def holder(run: Path) -> str | None:
    """Who works on `run`; None for nobody."""
    try:
        descriptor = os.open(run / NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _noted(descriptor)
    finally:
        os.close(descriptor)
    return None


def _noted(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"


def _acquire(path: Path) -> int:
    deadline = time.monotonic() + PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            noted = _noted(descriptor)
            os.close(descriptor)
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise InputError(f"{path.parent} is in use by {noted}; wait for it or stop it first") from error
        # The holder before us removed its file at the end: a lock on a file without a name keeps nobody out.
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)
