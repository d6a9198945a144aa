"""`simbav2 sweep`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simbav2.cli.parser import AddCommand, print_json
from simbav2.cli.runs import STOPPED
from simbav2.errors import InputError, printable
from simbav2.experiments.sweep.plan import Plan, Run, named_plans, read_plan

if TYPE_CHECKING:
    from simbav2.experiments.sweep.attempt import Outcome
    from simbav2.experiments.sweep.display import SweepTable

GIGABYTE = 1 << 30


def add(command: AddCommand) -> None:
    parser = command("sweep", _run, "make many runs, on this machine or on a Ray cluster, and report on them")
    parser.usage = (
        "simbav2 sweep PLAN [--dry-run] [--workers N] [--backend local|ray] [--out DIR] ...\n"
        "       simbav2 sweep status PLAN [--out DIR] [--json]"
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="PLAN",
        help="a TOML file or a named plan such as paper-online; with `status` before it: where its runs are",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the runs with what they will take; make none")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="holds the runs' folders (default: runs)"
    )
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="where the report goes (default: report-PLAN in --out)"
    )
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of a run that fails (default: 2)")
    parser.add_argument("--json", action="store_true", help="print the facts of --dry-run and status as JSON")
    parser.add_argument("--backend", choices=tuple(BACKENDS), default="local", help="default: local")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at a time (default: one for each core)")
    local = parser.add_argument_group("local")
    local.add_argument(
        "--memory",
        type=float,
        metavar="GB",
        help="that runs may use together (default: what is free at the start)",
    )
    ray = parser.add_argument_group("ray")
    ray.add_argument(
        "--address", metavar="HOST:PORT", help="of a cluster (default: one of our own, on this machine)"
    )
    ray.add_argument("--cpus-per-run", type=float, default=1, metavar="N", help="default: 1")
    ray.add_argument("--gpus-per-run", type=float, default=0, metavar="N", help="default: 0")
    parser.epilog = f"named plans: {', '.join(named_plans())} (docs/sweeps.md)"
    slurm = parser.add_argument_group("slurm")
    slurm.add_argument("--slurm", type=Path, metavar="FILE", help="write the plan as a job array; make no run")


def _run(options: argparse.Namespace) -> int:
    *action, name = options.words
    if action not in ([], ["status"]):
        raise InputError(f"one plan at a time; got {' '.join(options.words)!r}")
    _check(options)
    plan = read_plan(name)
    if action:
        return _status(plan, options)
    if options.dry_run:
        return _dry_run(plan, options)
    if options.slurm:
        return _slurm(plan, options)
    return _sweep(plan, options)


def _check(options: argparse.Namespace) -> None:
    for name, least in (("workers", 1), ("retries", 0), ("cpus_per_run", 0), ("gpus_per_run", 0), ("memory", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} is {value:g}; expected at least {least}")
    if options.address and options.backend != "ray":
        raise InputError("--address is of a Ray cluster; add --backend ray")
    if options.address and options.workers:
        raise InputError("--workers is for one machine; a cluster has as many as it has CPUs, see --cpus-per-run")


def _status(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.display import line
    from simbav2.experiments.sweep.status import look, told

    statuses = {run: look(run, options.out) for run in plan.runs}
    if options.json:
        print_json([{"run": run.name, **status._asdict()} for run, status in statuses.items()])
    else:
        for run, status in statuses.items():
            print(line(run, status))
        print(f"{plan.name}: {told(statuses.values())}")
    return int(any(status.state == "failed" for status in statuses.values()))


def _dry_run(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.estimate import estimate, pace
    from simbav2.experiments.sweep.process import cores
    from simbav2.experiments.sweep.status import look
    from simbav2.training.console import clock

    measured = pace(plan.runs, options.out)
    estimates = {run: estimate(run) for run in plan.runs}
    seconds = {run: each.seconds * (measured or 1) for run, each in estimates.items()}
    states = {run: look(run, options.out).state for run in plan.runs}
    if options.json:
        return print_json([
            {
                "run": run.name,
                "task": run.config.task,
                "state": states[run],
                "updates": each.updates,
                "seconds": round(seconds[run]),
                "disk_bytes": each.disk,
                "memory_bytes": each.memory,
                "command": ["simbav2", *run.words(options.out)],
            }
            for run, each in estimates.items()
        ])  # fmt: skip
    width = max(len(run.title) for run in plan.runs)
    print(f"{'run':<{width}}{'updates':>13}{'time':>12}{'disk':>10}{'memory':>10}  state")
    for run, each in estimates.items():
        sizes = f"{_gigabytes(each.disk):>10}{_gigabytes(each.memory):>10}"
        print(f"{run.title:<{width}}{each.updates:>13,}{clock(seconds[run]):>12}{sizes}  {states[run]}")
    left = [run for run in plan.runs if states[run] != "finished"]
    hours = sum(seconds[run] for run in left) / 3600
    workers = options.workers or len(cores())
    disk = sum(each.disk for each in estimates.values())
    told = "by the runs finished here" if measured else "elsewhere; the first runs finished here will correct it"
    print(
        f"{len(plan.runs)} runs, {len(left)} to do: {sum(estimates[run].updates for run in left):,} updates, "
        f"{hours:,.1f} hours of one core, {hours / workers:,.1f} with {workers} workers; "
        f"{_gigabytes(disk)} of disk (rates measured {told})"
    )
    return 0


def _gigabytes(size: int) -> str:
    return f"{size / GIGABYTE:,.2f} GB"


def _slurm(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.estimate import estimate
    from simbav2.experiments.sweep.log import FOLDER
    from simbav2.experiments.sweep.slurm import script

    out = options.out.resolve()
    runs = _left(plan, out)
    if not runs:
        print(f"{plan.name}: all {len(plan.runs)} runs are finished")
        return 0
    memory = max(estimate(run).memory for run in runs)
    options.slurm.write_text(script(plan.name, runs, out, options.slurm, memory))
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    print(f"{len(runs)} runs; submit them with: sbatch {options.slurm}")
    return 0


def _left(plan: Plan, out: Path) -> list[Run]:
    from simbav2.experiments.sweep.status import look

    return [run for run in plan.runs if look(run, out).state != "finished"]


def _sweep(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.display import SweepTable

    out = options.out.resolve()
    runs = _left(plan, out)
    if not runs:
        print(f"{plan.name}: all {len(plan.runs)} runs are finished")
        return _conclude(plan, {}, out, options)
    with SweepTable(plan, out) as board:
        outcomes = BACKENDS[options.backend](runs, out, board, options)
    print(f"{plan.name}: {board.told()}")
    if len(outcomes) < len(runs) or any(outcome.state == "stopped" for outcome in outcomes.values()):
        print(f"stopped and saved; go on with the same command: simbav2 sweep {options.words[-1]} ...")
        return STOPPED
    return _conclude(plan, outcomes, out, options)


def _local(runs: Sequence[Run], out: Path, board: SweepTable, options: argparse.Namespace) -> dict[str, Outcome]:
    from simbav2.experiments.sweep import local, memory

    free = memory.available() if options.memory is None else int(options.memory * GIGABYTE)
    return local.make(runs, out, local.Machine(_workers(runs, options), free), options.retries, board.refresh)


def _ray(runs: Sequence[Run], out: Path, board: SweepTable, options: argparse.Namespace) -> dict[str, Outcome]:
    from simbav2.experiments.sweep import ray

    workers = _workers(runs, options)
    cluster = ray.Cluster(options.address, workers, options.cpus_per_run, options.gpus_per_run)
    return ray.make(runs, out, cluster, options.retries, board.refresh)


def _workers(runs: Sequence[Run], options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.process import cores

    return min(options.workers or len(cores()), len(runs))


# A backend makes the runs in folders of `out` and returns their outcomes by name.
BACKENDS = {"local": _local, "ray": _ray}


def _conclude(plan: Plan, outcomes: Mapping[str, Outcome], out: Path, options: argparse.Namespace) -> int:
    """What went wrong, and the report on the rest."""
    from simbav2.experiments.report.report import report
    from simbav2.experiments.sweep import log

    failed = [run for run in plan.runs if run.name in outcomes and outcomes[run.name].state == "failed"]
    for run in failed:
        error = printable(f"{run.title} failed: {outcomes[run.name].error}; see {log.place(out, run.name)}")
        print(f"simbav2: {error}", file=sys.stderr)
    folders = [out / run.name for run in plan.runs if (out / run.name / "summary.json").exists()]
    if folders:
        page, problems, _ = report(folders, options.report or out / f"report-{plan.name}")
        for problem in problems:
            print(f"simbav2: {problem}", file=sys.stderr)
        print(f"report: {page}")
    return int(bool(failed))
