"""`simbav2 sweep`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simbav2.cli.parser import AddCommand, add_option, print_facts, print_json
from simbav2.errors import InputError, printable
from simbav2.experiments.sweep.plan import Plan, PlannedRun, named_plans, read_plan
from simbav2.runtime import STOPPED

if TYPE_CHECKING:
    from simbav2.experiments.sweep.local import Outcome
    from simbav2.experiments.sweep.status import SweepTable

GIGABYTE = 1 << 30


def add(command: AddCommand) -> None:
    parser = command("sweep", _run, "make many runs, on this machine or on a Ray cluster, and report on them")
    parser.usage = (
        "simbav2 sweep PLAN [--dry-run] [--workers N] [--backend local|ray] [--out DIR] ...\n"
        "       simbav2 sweep status PLAN [--out DIR] [--json]"
    )
    plan = "a TOML file or a named plan such as paper-online; `status PLAN` prints the state of its runs"
    parser.add_argument("words", nargs="+", metavar="PLAN", help=plan)
    add_option(parser, "--dry-run", "list the runs and what they take; make none")
    add_option(parser, "--out DIR", "the folder that holds the runs' folders", Path, Path("runs"))
    add_option(parser, "--report DIR", "the folder of the report (default: report-PLAN in --out)", Path)
    add_option(parser, "--retries N", "further attempts at a run that fails", int, 2, least=0)
    add_option(parser, "--json", "print the facts of --dry-run and status as JSON")
    backends = tuple(BACKENDS)
    add_option(parser, "--backend NAME", f"one of {', '.join(backends)}", default="local", choices=backends)
    add_option(parser, "--workers N", "parallel runs (default: one for each core)", int, least=1)
    local = parser.add_argument_group("local")
    memory = "memory for all runs together (default: what is free at the start)"
    add_option(local, "--memory GB", memory, float, least=0)
    ray = parser.add_argument_group("ray")
    add_option(ray, "--address HOST:PORT", "a running cluster (default: start one on this machine)")
    add_option(ray, "--cpus-per-run N", "CPUs for a run", float, 1, least=0)
    add_option(ray, "--gpus-per-run N", "GPUs for a run", float, 0, least=0)
    slurm = parser.add_argument_group("slurm")
    add_option(slurm, "--slurm FILE", "write the plan as a job array; make no run", Path)
    parser.epilog = f"named plans: {', '.join(named_plans())} (docs/sweeps.md)"


def _run(options: argparse.Namespace) -> int:
    *action, name = options.words
    if action not in ([], ["status"]):
        raise InputError(f"one plan at a time; got {' '.join(options.words)!r}")
    if options.address and options.backend != "ray":
        raise InputError("--address names a Ray cluster; add --backend ray")
    if options.address and options.workers:
        raise InputError("--workers is for one machine; a cluster has as many as it has CPUs, see --cpus-per-run")
    plan = read_plan(name)
    if action:
        return _status(plan, options)
    if options.dry_run:
        return _dry_run(plan, options)
    return _make(plan, options)


def _status(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.status import line, status, summary

    statuses = {run: status(run, options.out) for run in plan.runs}
    lines = (line(run, now) for run, now in statuses.items())
    facts = [{"run": run.name, **now._asdict()} for run, now in statuses.items()]
    print_facts(options, facts, *lines, f"{plan.name}: {summary(statuses.values())}")
    return int(any(now.state == "failed" for now in statuses.values()))


def _dry_run(plan: Plan, options: argparse.Namespace) -> int:
    from simbav2.experiments.sweep.estimate import estimate, pace
    from simbav2.experiments.sweep.status import status
    from simbav2.experiments.sweep.worker import cores
    from simbav2.training.console import clock

    measured = pace(plan.runs, options.out)
    estimates = {run: estimate(run) for run in plan.runs}
    seconds = {run: each.seconds * (measured or 1) for run, each in estimates.items()}
    states = {run: status(run, options.out).state for run in plan.runs}
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
                "command": ["simbav2", *run.argv(options.out)],
            }
            for run, each in estimates.items()
        ])  # fmt: skip
    width = max(len(run.title) for run in plan.runs)
    print(f"{'run':<{width}}{'updates':>13}{'time':>12}{'disk':>10}{'memory':>10}  state")
    for run, each in estimates.items():
        sizes = f"{each.disk / GIGABYTE:>7,.2f} GB{each.memory / GIGABYTE:>7,.2f} GB"
        print(f"{run.title:<{width}}{each.updates:>13,}{clock(seconds[run]):>12}{sizes}  {states[run]}")
    left = [run for run in plan.runs if states[run] != "finished"]
    hours = sum(seconds[run] for run in left) / 3600
    workers = options.workers or len(cores())
    disk = sum(each.disk for each in estimates.values()) / GIGABYTE
    rates = "by the runs finished here" if measured else "elsewhere; the first runs finished here will correct it"
    print(
        f"{len(plan.runs)} runs, {len(left)} to do: {sum(estimates[run].updates for run in left):,} updates, "
        f"{hours:,.1f} hours of one core, {hours / workers:,.1f} with {workers} workers; "
        f"{disk:,.2f} GB of disk (rates measured {rates})"
    )
    return 0


def _make(plan: Plan, options: argparse.Namespace) -> int:
    """Make the unfinished runs and the report, or write the runs as a Slurm script."""
    from simbav2.experiments.sweep.status import SweepTable, status
    from simbav2.experiments.sweep.worker import cores

    out = options.out.resolve()
    runs = [run for run in plan.runs if status(run, out).state != "finished"]
    if not runs:
        print(f"{plan.name}: all {len(plan.runs)} runs are finished")
        return 0 if options.slurm else _report(plan, {}, out, options)
    if options.slurm:
        from simbav2.experiments.sweep.slurm import write_script

        write_script(options.slurm, plan.name, runs, out)
        print(f"{len(runs)} runs; submit them with: sbatch {options.slurm}")
        return 0
    options.workers = min(options.workers or len(cores()), len(runs))
    with SweepTable(plan, out) as table:
        outcomes = BACKENDS[options.backend](runs, out, table, options)
    print(f"{plan.name}: {table.summary()}")
    if len(outcomes) < len(runs) or any(outcome.state == "stopped" for outcome in outcomes.values()):
        print(f"stopped and saved; resume with the same command: simbav2 sweep {options.words[-1]} ...")
        return STOPPED
    return _report(plan, outcomes, out, options)


Outcomes = Mapping[str, "Outcome"]  # by the name of the run


def _local(runs: Sequence[PlannedRun], out: Path, table: SweepTable, options: argparse.Namespace) -> Outcomes:
    from simbav2.experiments.sweep.estimate import free_memory
    from simbav2.experiments.sweep.local import Machine, run_all

    memory = free_memory() if options.memory is None else int(options.memory * GIGABYTE)
    return run_all(runs, out, Machine(options.workers, memory), options.retries, table.refresh)


def _ray(runs: Sequence[PlannedRun], out: Path, table: SweepTable, options: argparse.Namespace) -> Outcomes:
    from simbav2.experiments.sweep.ray import Cluster, run_all

    cluster = Cluster(options.address, options.workers, options.cpus_per_run, options.gpus_per_run)
    return run_all(runs, out, cluster, options.retries, table.refresh)


# A backend makes the runs in folders of `out`, refreshes the table, and returns the outcomes.
BACKENDS = {"local": _local, "ray": _ray}


def _report(plan: Plan, outcomes: Outcomes, out: Path, options: argparse.Namespace) -> int:
    """Print what failed and write the report on the finished runs."""
    from simbav2.experiments.report.report import report
    from simbav2.experiments.sweep.status import log_path

    failed = [run for run in plan.runs if run.name in outcomes and outcomes[run.name].state == "failed"]
    for run in failed:
        error = printable(f"{run.title} failed: {outcomes[run.name].error}; see {log_path(out, run.name)}")
        print(f"simbav2: {error}", file=sys.stderr)
    folders = [out / run.name for run in plan.runs if (out / run.name / "summary.json").exists()]
    if folders:
        page, problems, _ = report(folders, options.report or out / f"report-{plan.name}")
        for problem in problems:
            print(f"simbav2: {problem}", file=sys.stderr)
        print(f"report: {page}")
    return int(bool(failed))
