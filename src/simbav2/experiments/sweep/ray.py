"""Runs on a Ray cluster: one task per run, its folder on storage that all nodes share.

A task starts a process like the local backend does, so the bits are the same. Whatever dies (a worker, a node, the
driver) leaves the run's folder: Ray starts a lost task again elsewhere, which goes on from the last checkpoint as
soon as the lock is free; the driver holds nothing that the folders do not.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.checkpoint import lock
from simbav2.errors import Failure, InputError
from simbav2.experiments.sweep.attempt import Outcome, see_through
from simbav2.experiments.sweep.plan import Run
from simbav2.experiments.sweep.process import Share
from simbav2.runtime import stop_signals

log = logging.getLogger("simbav2")
LOST_TASKS_ARE_RETRIED = -1  # always: that a node goes is no fault of the run
STORE = 100 << 20  # bytes; our tasks exchange a few words
SAVING = 120  # seconds that stopped runs have to save themselves


class Cluster(NamedTuple):
    address: str | None  # None: one of our own, on this machine
    workers: int  # of our own
    cpus: float  # a run
    gpus: float  # a run


def make(
    runs: Sequence[Run], out: Path, cluster: Cluster, retries: int, look: Callable[[], None]
) -> dict[str, Outcome]:
    """See all `runs` through, calling `look` about once a second; outcomes by name, none for those not begun."""
    share = Share(threads=max(1, int(cluster.cpus)), gpus=cluster.gpus)
    outcomes: dict[str, Outcome] = {}
    with _connected(cluster) as ray:
        task = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=LOST_TASKS_ARE_RETRIED)(
            see_through
        )
        under_way = {task.remote(run, out, share, retries): run for run in runs}
        with stop_signals() as stop:
            while under_way and not stop.requested:
                ended, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=1)
                for reference in ended:
                    outcomes[under_way.pop(reference).name] = _outcome(ray, reference)
                look()
            if under_way:
                _stop(ray, under_way, out, look)
    return outcomes


def _outcome(ray: Any, reference: Any) -> Outcome:
    try:
        found: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        return Outcome("failed", f"lost by Ray: {str(error).strip().splitlines()[0]}")
    return found


def _stop(ray: Any, under_way: dict[Any, Run], out: Path, look: Callable[[], None]) -> None:
    """Cancelling interrupts a task, which asks its process to stop; wait until all have let go of their runs."""
    for reference in under_way:
        ray.cancel(reference, force=False)
    deadline = time.monotonic() + SAVING
    while time.monotonic() < deadline and any(lock.holder(out / run.name) for run in under_way.values()):
        look()
        time.sleep(0.5)
    look()


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Any]:
    try:
        import ray
    except ImportError as error:
        raise InputError(f"the backend ray is not installed ({error}); pip install 'simbav2[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or every start is met with a warning
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        if cluster.address is None:
            cpus = max(1, round(cluster.workers * cluster.cpus))
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, object_store_memory=STORE, **quiet)
        else:
            _knock(cluster.address)
            ray.init(address=cluster.address, **quiet)
    except (OSError, ValueError) as error:
        raise InputError(f"no Ray cluster at {cluster.address}: {error}") from error
    except RuntimeError as error:
        raise Failure(f"Ray does not start: {error}") from error
    try:
        _check_size(ray, cluster)
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray itself tries for minutes to reach a host that is not there."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _check_size(ray: Any, cluster: Cluster) -> None:
    """A run that fits no node waits, for ever where the cluster does not grow, and Ray says nothing."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cluster.cpus and node.get("GPU", 0) >= cluster.gpus for node in nodes):
        log.warning(
            "simbav2: no node has the %g CPUs and %g GPUs of a run (--cpus-per-run, --gpus-per-run); waiting",
            cluster.cpus,
            cluster.gpus,
        )
