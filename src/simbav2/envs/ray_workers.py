"""Environments as actors of a Ray cluster, and how to connect to one."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from simbav2.envs.workers import Host, Reply, Worker, WorkerLost
from simbav2.errors import Failure, InputError

log = logging.getLogger("simbav2")
STORE = 100 << 20  # bytes; we exchange little


class RayWorker(Worker):
    def __init__(self, ray: Any, cpus: int) -> None:
        self._ray = ray
        self._actor = ray.remote(Host).options(num_cpus=cpus, scheduling_strategy="SPREAD").remote()

    def send(self, method: str, *arguments: Any) -> None:
        self._answer = self._actor.call.remote(method, *arguments)

    def receive(self) -> Reply:
        try:
            return self._ray.get(self._answer)
        except self._ray.exceptions.RayError as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise WorkerLost(f"a Ray actor was lost ({reason})") from error

    def close(self) -> None:
        self._ray.kill(self._actor)


def connect(address: str | None, actors: int = 0, **local: Any) -> Any:
    """The package, connected to the cluster at `address`; None starts one here, with the options `local`."""
    try:
        import ray
    except ImportError as error:
        raise InputError(f"the backend ray is not installed ({error}); pip install 'simbav2[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or every start prints a warning
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "ignore_reinit_error": True}
    try:
        if address is None:
            if not ray.is_initialized():
                ray.init(address="local", include_dashboard=False, object_store_memory=STORE, **quiet, **local)
            return ray
        _check_reachable(address)
        ray.init(address=address, **quiet)
    except (OSError, ValueError) as error:
        raise InputError(f"no Ray cluster at {address}: {error}") from error
    except RuntimeError as error:
        raise Failure(f"Ray does not start: {error}") from error
    package: Any = ray
    free = package.available_resources().get("CPU", 0)
    if free < actors:  # Ray says nothing
        log.warning("simbav2: the Ray cluster has %g free CPUs for %d workers; waiting for more", free, actors)
    return ray


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes to reach a host that does not exist."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
