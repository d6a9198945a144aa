"""How much memory there is for runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that may yet be used: what the machine has free, or less where a container is given less."""
    found = []
    with suppress(OSError, IndexError):
        _, _, rest = Path("/proc/meminfo").read_text().partition("MemAvailable:")
        found.append(int(rest.split()[0]) * 1024)
    with suppress(OSError, ValueError):  # "max" where there is no limit
        limit = int((_GROUP / "memory.max").read_text())
        found.append(max(0, limit - int((_GROUP / "memory.current").read_text())))
    return min(found, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
