"""`simbav2 doctor`: checks the installation and shows how to fix problems."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement

from simbav2.envs.make import attempt
from simbav2.envs.rendering import REMEDY, choose_library
from simbav2.envs.tasks import SUITES, tasks
from simbav2.errors import InputError
from simbav2.experiments.sweep.estimate import free_memory
from simbav2.experiments.sweep.worker import cores

GIGABYTE = 2**30
NEEDED_MEMORY = 4  # GB: a full replay of Humanoid-v4 takes 1.7, JAX and the simulator the rest
NEEDED_DISK = 5  # GB: a few runs with their checkpoints


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    detail: str
    remedy: str = ""
    optional: bool = False  # a problem only for those who need it


def examine() -> list[Finding]:
    """Check packages, suites, devices, rendering, memory and disk; takes seconds, since each suite is tried."""
    return [*_packages(), *_suites(), _device(), _threads(), _rendering(), *_room()]


def show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "what", "found", box=None)
    for finding in findings:
        mark = "[green]✓[/]" if finding.ok else "[yellow]–[/]" if finding.optional else "[red]✗[/]"
        table.add_row(mark, escape(finding.name), escape(finding.detail))
        if finding.remedy:
            table.add_row("", "", f"[yellow]→[/] {escape(finding.remedy)}")
    Console().print(table)


def _packages() -> Iterator[Finding]:
    yield Finding("python", True, platform.python_version())
    try:
        lines = importlib.metadata.requires("simbav2") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("simbav2", False, "not installed, runs from a folder", "pip install -e .")
        return
    yield Finding("simbav2", True, importlib.metadata.version("simbav2"))
    for requirement in map(Requirement, lines):
        yield _package(requirement)


def _package(requirement: Requirement) -> Finding:
    """Whether it is installed, within the bounds of pyproject.toml."""
    extra = re.search(r"extra == ['\"](.+?)['\"]", str(requirement.marker or ""))
    name = f"{requirement.name} [{extra[1]}]" if extra else requirement.name
    remedy = f"pip install 'simbav2[{extra[1]}]'" if extra else "pip install --upgrade simbav2"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", remedy, optional=extra is not None)
    if not requirement.specifier.contains(version, prereleases=True):
        return Finding(name, False, f"{version}; expected {requirement.specifier}", remedy)
    return Finding(name, True, version)


def _suites() -> Iterator[Finding]:
    """Build and step one task of each suite."""
    for suite in SUITES:
        members = tasks(suite)
        tried = attempt(members[0], steps=1)
        if tried.ok:
            yield Finding(f"suite {suite}", True, f"{len(members)} tasks; {members[0].id} steps")
        else:
            yield Finding(f"suite {suite}", False, tried.problem, tried.remedy, SUITES[suite].optional)


def _device() -> Finding:
    import jax

    try:
        devices = jax.devices()
    except RuntimeError as error:
        return Finding("device", False, str(error), "set JAX_PLATFORMS=cpu, or fix the accelerator's driver")
    return Finding("device", True, ", ".join(f"{device.platform} ({device.device_kind})" for device in devices))


def _threads() -> Finding:
    settings = [f"{name}={os.environ[name]}" for name in ("XLA_FLAGS", "OMP_NUM_THREADS") if name in os.environ]
    return Finding("threads", True, " ".join([f"{len(cores())} of {os.cpu_count()} cores", *settings]))


def _rendering() -> Finding:
    try:
        return Finding("rendering", True, f"MUJOCO_GL={choose_library()}", optional=True)
    except InputError as error:
        return Finding("rendering", False, str(error).partition("; ")[0], REMEDY, optional=True)


def _room() -> Iterator[Finding]:
    memory = "lower --replay.capacity, or run fewer seeds in parallel"
    disk = "free some space, or point --out at a larger disk"
    for name, free, needed, place, remedy in (
        ("memory", free_memory(), NEEDED_MEMORY, "", memory),
        ("disk", shutil.disk_usage(".").free, NEEDED_DISK, f" in {os.getcwd()}", disk),
    ):
        enough = free >= needed * GIGABYTE
        yield Finding(name, enough, f"{free / GIGABYTE:.1f} GB free{place}", "" if enough else remedy)
