"""Errors a person caused and can mend: one line that says what came, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The command line prints its text as one line and exits with status 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean 'paper'?`, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
