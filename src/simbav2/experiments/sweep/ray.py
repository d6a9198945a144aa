"""Runs on a Ray cluster: one Ray task per run, its folder on storage that all nodes share.

A task starts a process as the local backend does, so the results are the same bit for bit. All state is in the
runs' folders: when a worker, a node or the driver dies, Ray restarts the lost task on another node, and it resumes
from the last checkpoint as soon as the lock is free.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.checkpoint import lock
from simbav2.envs import ray_workers
from simbav2.experiments.sweep.local import Outcome, run_with_retries
from simbav2.experiments.sweep.plan import PlannedRun
from simbav2.experiments.sweep.worker import Share
from simbav2.runtime import stop_signals

log = logging.getLogger("simbav2")
ALWAYS = -1  # a run is not to blame for a lost node
SAVING = 120  # seconds that stopped runs have to save


class Cluster(NamedTuple):
    address: str | None  # None: start one on this machine
    workers: int  # used only on this machine
    cpus: float  # per run
    gpus: float  # per run


def run_all(
    runs: Sequence[PlannedRun], out: Path, cluster: Cluster, retries: int, refresh: Callable[[], None]
) -> dict[str, Outcome]:
    """Make all `runs`, calling `refresh` about once a second; returns the outcomes of the runs that ended."""
    share = Share(threads=max(1, int(cluster.cpus)), gpus=cluster.gpus)
    outcomes: dict[str, Outcome] = {}
    with _connected(cluster) as ray:
        remote = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=ALWAYS)
        task = remote(run_with_retries)
        running = {task.remote(run, out, share, retries): run for run in runs}
        with stop_signals() as stop:
            while running and not stop.requested:
                ended, _ = ray.wait(list(running), num_returns=len(running), timeout=1)
                for reference in ended:
                    name = running.pop(reference).name
                    try:
                        outcomes[name] = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        outcomes[name] = Outcome("failed", f"lost by Ray: {str(error).strip().splitlines()[0]}")
                refresh()
            if running:
                _stop(ray, running, out, refresh)
    return outcomes


def _stop(ray: Any, running: dict[Any, PlannedRun], out: Path, refresh: Callable[[], None]) -> None:
    """Cancelling a task interrupts it, and it stops its process; wait until all runs are saved and unlocked."""
    for reference in running:
        ray.cancel(reference, force=False)
    deadline = time.monotonic() + SAVING
    while time.monotonic() < deadline and any(lock.holder(out / run.name) for run in running.values()):
        refresh()
        time.sleep(0.5)


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Any]:
    ray = ray_workers.connect(cluster.address, num_cpus=max(1, round(cluster.workers * cluster.cpus)))
    try:
        _check_size(ray, cluster)
        yield ray
    finally:
        ray.shutdown()


def _check_size(ray: Any, cluster: Cluster) -> None:
    """A run that fits no node waits, for ever if the cluster does not grow, and Ray says nothing."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cluster.cpus and node.get("GPU", 0) >= cluster.gpus for node in nodes):
        text = "simbav2: no node has the %g CPUs and %g GPUs of a run (--cpus-per-run, --gpus-per-run); waiting"
        log.warning(text, cluster.cpus, cluster.gpus)
