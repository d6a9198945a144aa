"""The process we run in: cache folder, XLA flags, optional packages, stop signals. Imports nothing heavy."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from simbav2.errors import InputError

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
STOPPED = 130  # the shell's exit status for Ctrl-C


def cache_folder(name: str) -> Path:
    """Our folder `name` in the user's cache; `XDG_CACHE_HOME` moves it."""
    home = Path.home()
    ours = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = chosen if chosen.is_absolute() else ours.get(sys.platform, home / ".cache")
    return base / "simbav2" / name


def merge_xla_flags(given: str, flags: tuple[str, ...]) -> str:
    """`given` (of XLA_FLAGS) and those of `flags` whose name it does not hold: a user's own win."""
    names = {flag.partition("=")[0] for flag in given.split()}
    return " ".join([*given.split(), *(flag for flag in flags if flag.partition("=")[0] not in names)])


def import_extra(module: str, purpose: str, extra: str) -> Any:
    """An optional package, or what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{purpose} needs one more package ({error}); pip install 'simbav2[{extra}]'") from error


class StopRequest:
    requested = False


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM ask for a stop at the next safe place; a second SIGINT interrupts as usual.

    Signals reach the main thread alone; whoever starts other threads passes a stop on.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if request.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.requested = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
