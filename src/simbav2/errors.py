"""What goes wrong, as one line that says what came, what was expected, what to do.

`InputError` is what a person caused and can fix; `Failure` is what happened to the program while it ran.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, TypeAlias

DropBadSteps: TypeAlias = Literal["diverged", "any", "never"]  # which failed environment steps a run survives


class InputError(ValueError):
    """Bad input. The command line prints its text as one line and exits with status 2."""


class CheckpointError(InputError):
    """A saved file that is damaged, incomplete, forged or of another kind; the text names the file."""


class Failure(RuntimeError):
    """A run that cannot continue. The command line prints its text as one line and exits with status 1."""


class BadStep(Failure):
    """An environment step that failed and may not be dropped; the text names task, seed, episode and step."""


class SimulationDiverged(Failure):
    """A simulator's state is no longer finite. An environment may raise it: by default only this step is lost."""


class Diverged(Failure):
    """A loss or a parameter is no longer a finite number."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean 'paper'?`, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def printable(text: object) -> str:
    """`text` as it may be shown on a terminal: names from files must not move its cursor or change its title."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
