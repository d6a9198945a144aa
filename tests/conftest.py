"""Set before JAX is imported: one thread a test process, since `make test` runs two of them, and one cache of
compiled programs for all tests, many of which train the same small agent."""

import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import pytest


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run that nothing disturbed."""
    from short_runs import SETTINGS, TASK

    from simbav2 import SimbaV2
    from simbav2.training import run

    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder) is not None
    return folder
