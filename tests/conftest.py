"""How the tests compile, and what they share.

The tests marked `numerics` run with the compiler settings that users have. A session without any of them compiles
without optimisation and with XLA's older way of fusing operations, since with networks this small compiling is
most of the work. `make test` therefore calls pytest twice. Flags that are in XLA_FLAGS already stay and win. One
thread per process in both cases, since two of them run side by side, and one cache of compiled programs for all.
"""

import hashlib
import os
import platform
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from simbav2.runtime import ONE_THREAD, merge_xla_flags

UNOPTIMISED = ("--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false")


def processor() -> str:
    """What this machine's processor can execute: JAX's key of a compiled program holds the flags, but not this."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:12]


def add_flags(*flags: str) -> None:
    os.environ["XLA_FLAGS"] = merge_xla_flags(os.environ.get("XLA_FLAGS", ""), flags)


add_flags(ONE_THREAD)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / f"jax-{processor()}")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def pytest_collection_finish(session):
    """XLA reads its flags at the first computation, so it is not too late."""
    if not any(item.get_closest_marker("numerics") for item in session.items):
        add_flags(*UNOPTIMISED)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run that nothing disturbed; the test processes share it, and leave it as it is."""
    place = tmp_path_factory.getbasetemp()
    runs = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "finished"
    folder = runs / "whole"
    try:
        runs.mkdir()
    except FileExistsError:  # the other process is at it, or was
        deadline = time.monotonic() + 300
        while not (runs / "done").exists():
            assert time.monotonic() < deadline, f"{folder} was never finished"
            time.sleep(0.1)
        return folder
    from short_runs import SETTINGS, TASK

    from simbav2 import SimbaV2
    from simbav2.training import run

    assert run.start(SimbaV2(TASK, seed=1, **SETTINGS), folder) is not None
    (runs / "done").touch()
    return folder


@pytest.fixture
def empty_reports(monkeypatch):
    """For tests of the command line that look at no run's report: drawing one takes longer than such a run."""
    from simbav2.experiments.report.report import write_report

    def write(runs, folder, *more):
        if more:  # the command `report` itself
            return write_report(runs, folder, *more)
        folder.mkdir(exist_ok=True)
        (folder / "index.html").touch()

    monkeypatch.setattr("simbav2.experiments.report.report.write_report", write)


@pytest.fixture(scope="session")
def measured():
    """What `simbav2 bench` finds at a small size, everything timed once."""
    from simbav2.experiments import benchmark

    times = benchmark._median_ms
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(benchmark, "_median_ms", lambda call, _: times(call, 1))
        monkeypatch.setattr(benchmark, "_empty_cache", nullcontext)
        monkeypatch.setattr(benchmark, "SQUARE", 64)
        return benchmark.run(benchmark.Plan(cases=[benchmark.Case("sac", 16, 2, 2)], rounds=1, loops={16: 5}))
