"""A run as a process of its own: `start` in the parent, `main` in the child, and the share of the machine it gets.

Small networks gain little from a second core and large ones lose some of it, so one core per run gives the most
updates per second (docs/performance.md). Imports nothing heavy: the child sets its cores before anything is
imported that counts them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, NamedTuple

from simbav2.runtime import ONE_THREAD, merge_xla_flags

_PR_SET_PDEATHSIG = 1


class Share(NamedTuple):
    """What a run may use of a machine."""

    threads: int
    cores: tuple[int, ...] = ()  # empty: the operating system chooses
    gpus: float = 0

    def environment(self) -> dict[str, str]:
        """Environment variables that set these limits for XLA; the user's own settings win."""
        found = dict(os.environ)
        if self.threads == 1:
            found["XLA_FLAGS"] = merge_xla_flags(found.get("XLA_FLAGS", ""), (ONE_THREAD,))
        if 0 < self.gpus < 1:  # or the first process would take most of the GPU's memory
            found.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * self.gpus:.3f}")
        return found


def cores() -> list[int]:
    """The cores this process may use."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], processes: int) -> list[Share]:
    """Equal shares of the cores; with more processes than cores, several processes share one core."""
    parts = [tuple(cores[i::processes]) or (cores[i % len(cores)],) for i in range(processes)]
    return [Share(len(part), part) for part in parts]


def start(argv: Sequence[str], share: Share, output: int | IO[str]) -> subprocess.Popen[str]:
    """Start `simbav2 ARGV...` in a new session, so that Ctrl-C reaches the parent alone, which passes it on."""
    own = (str(os.getpid()), ",".join(map(str, share.cores)))
    return subprocess.Popen(
        [sys.executable, "-m", "simbav2.experiments.sweep.worker", *own, *argv],
        env=share.environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def main(parent: str, cores: str, *argv: str) -> int:
    """Run `simbav2 ARGV...` on `cores`. When the process `parent` ends, the run gets SIGTERM and saves."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before the call above
            return 128 + signal.SIGTERM
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
    from simbav2 import cli

    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
