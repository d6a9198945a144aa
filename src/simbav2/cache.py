"""Where fetched files are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def folder(name: str) -> Path:
    """Our folder `name` in the user's cache; `XDG_CACHE_HOME` moves it."""
    home = Path.home()
    ours = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = chosen if chosen.is_absolute() else ours.get(sys.platform, home / ".cache")
    return base / "simbav2" / name
