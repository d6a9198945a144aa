"""Run `simbav2 ARGV...` on given cores; stop it when the process that started it ends.

`python -m simbav2.experiments.sweep.worker PARENT CORES ARGV...`: when PARENT ends, the run gets SIGTERM and
saves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: str, cores: str, *words: str) -> int:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it went before we asked
            return 128 + signal.SIGTERM
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
    # Cores are chosen before anything is imported that counts them.
    from simbav2 import cli

    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
