"""Exchange with other programs: policies out, the authors' checkpoints in. Loaded when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simbav2.export import export_policy
    from simbav2.interop.release import from_release

__all__ = ["export_policy", "from_release"]

_LAZY = {"export_policy": "simbav2.export", "from_release": "simbav2.interop.release"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'simbav2.interop' has no attribute {name!r}")
