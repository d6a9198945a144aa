"""A stop that loses nothing: signals ask for it, and whoever works ends at the next safe place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    requested = False


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM ask for a stop at the next safe place; a second SIGINT interrupts as usual.

    Signals reach the main thread alone; whoever starts others passes a stop on.
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
