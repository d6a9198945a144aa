"""`simbav2 tasks`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from simbav2.cli.parser import AddCommand, print_json
from simbav2.envs.tasks import Task, tasks


def add(command: AddCommand) -> None:
    parser = command("tasks", _run, "list the tasks of the benchmark")
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="only this suite")
    parser.add_argument("--check", action="store_true", help="build and step each task; say what is missing")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    rows = tasks(options.suite)
    if options.check:
        return _check(rows, options.json)
    if options.json:
        return print_json([dataclasses.asdict(task) for task in rows])
    print(f"{'':<30}{'obs':>6}{'actions':>9}{'repeat':>8}{'steps':>7}{'random':>9}{'reference':>11}")
    for suite, members in _by_suite(rows).items():
        print(f"{suite}: {len(members)} tasks, scored by {members[0].metric}")
        for task in members:
            sizes = (
                f"{task.observation_size:>6}{task.action_size:>9}{task.action_repeat:>8}{task.episode_length:>7}"
            )
            print(f"  {task.id:<28}{sizes}{_score(task.random_score)}{_score(task.reference_score, 11)}")
    return 0


def _by_suite(rows: Sequence[Task]) -> dict[str, list[Task]]:
    suites: dict[str, list[Task]] = {}
    for task in rows:
        suites.setdefault(task.suite, []).append(task)
    return suites


def _check(rows: Sequence[Task], as_json: bool) -> int:
    from simbav2.envs.make import attempt, missing

    attempts = []
    for suite, members in _by_suite(rows).items():
        tried = [attempt(task) for task in members]
        attempts += tried
        if as_json:
            continue
        print(f"{suite:<9}{sum(one.ok for one in tried):>3} of {len(tried):>2} tasks work", flush=True)
        # What is missing stops a whole suite; it is told once.
        for remedy, one in {one.remedy: one for one in reversed(tried) if not one.ok}.items():
            print(f"    {one.task}: {one.problem}\n    → {remedy}", flush=True)
    working = sum(one.ok for one in attempts)
    if as_json:
        print_json({
            "tasks": len(attempts),
            "working": working,
            "missing": {one.suite: {"problem": one.problem, "remedy": one.remedy} for one in missing(attempts)},
            "attempts": [one._asdict() for one in attempts],
        })  # fmt: skip
    else:
        print(f"{working} of {len(attempts)} tasks work")
    return int(working < len(attempts))


def _score(score: float | None, width: int = 9) -> str:
    return f"{'–' if score is None else format(score, '.7g'):>{width}}"
