"""Set before JAX is imported: one thread a test process, since `make test` runs two of them, one cache of compiled
programs for all tests, many of which train the same small agent, and a compiler that neither optimises nor uses
its newer, slower way of fusing operations: with networks this small, compiling is most of the work."""

import os
from contextlib import nullcontext
from pathlib import Path

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
)
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


@pytest.fixture
def empty_reports(monkeypatch):
    """For tests that make many runs and look at no report: drawing one takes longer than such a run."""

    def write(runs, folder):
        folder.mkdir(exist_ok=True)
        (folder / "index.html").touch()

    monkeypatch.setattr("simbav2.training.run.write_report", write)


@pytest.fixture(scope="session")
def measured():
    """What `simbav2 bench` finds at a small size, everything timed once."""
    from simbav2 import bench

    times = bench._median_ms
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(bench, "_median_ms", lambda call, _: times(call, 1))
        monkeypatch.setattr(bench, "_empty_cache", nullcontext)
        monkeypatch.setattr(bench, "SQUARE", 64)
        return bench.run(bench.Plan(cases=[bench.Case("paper", 16, 2, 2)], rounds=1, loops={16: 5}))
