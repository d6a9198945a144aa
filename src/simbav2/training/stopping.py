"""A stop that loses nothing: signals ask for it, and whoever works ends at the next safe place."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    requested = False


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM ask for a stop at the next safe place; a second SIGINT interrupts as usual."""
    request = StopRequest()

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
