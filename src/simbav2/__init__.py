"""SimbaV2: soft actor-critic on the unit hypersphere, for any continuous-control environment.

Importing this package is light; JAX and the simulators are loaded when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simbav2 import interop
from simbav2.envs.tasks import Task, tasks
from simbav2.errors import CheckpointError, Failure, InputError

if TYPE_CHECKING:
    from simbav2.agent import Agent, SimbaV2
    from simbav2.envs.conformance import check_vector_env
    from simbav2.envs.make import make_env
    from simbav2.training.callbacks import Callback

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "Callback",
    "CheckpointError",
    "Failure",
    "InputError",
    "SimbaV2",
    "Task",
    "check_vector_env",
    "interop",
    "make_env",
    "tasks",
]

_LAZY = {
    "Agent": "simbav2.agent",
    "Callback": "simbav2.training.callbacks",
    "SimbaV2": "simbav2.agent",
    "check_vector_env": "simbav2.envs.conformance",
    "make_env": "simbav2.envs.make",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'simbav2' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
