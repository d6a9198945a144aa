"""A run as a process of its own, with its share of the machine.

Small networks gain little from a second core and large ones lose some of it, so one core per run gives the most
updates per second (docs/performance.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, NamedTuple

from simbav2.runtime import ONE_THREAD, merge_xla_flags


class Share(NamedTuple):
    """What a run may use of a machine."""

    threads: int
    cores: tuple[int, ...] = ()  # none: whichever the method gives it
    gpus: float = 0

    def environment(self) -> dict[str, str]:
        """What tells XLA about it; a user's own settings win."""
        found = dict(os.environ)
        if self.threads == 1:
            found["XLA_FLAGS"] = merge_xla_flags(found.get("XLA_FLAGS", ""), (ONE_THREAD,))
        if 0 < self.gpus < 1:  # or the first process would take most of the GPU's memory
            found.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * self.gpus:.3f}")
        return found


def cores() -> list[int]:
    """Those this process may use."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], processes: int) -> list[Share]:
    """Equal shares of the cores; where there are more processes than cores, several share one."""
    parts = [tuple(cores[i::processes]) or (cores[i % len(cores)],) for i in range(processes)]
    return [Share(len(part), part) for part in parts]


def start(words: Sequence[str], share: Share, output: int | IO[str]) -> subprocess.Popen[str]:
    """`simbav2 WORDS...` in a session of its own: a Ctrl-C is its parent's to pass on."""
    own = ",".join(map(str, share.cores))
    return subprocess.Popen(
        [sys.executable, "-m", "simbav2.experiments.sweep.worker", str(os.getpid()), own, *words],
        env=share.environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
