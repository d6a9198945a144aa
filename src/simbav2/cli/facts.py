"""Commands about the benchmark and this machine: `tasks`, `presets`, `assets`, `bench`, `doctor`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby

from simbav2.cli.parser import AddCommand, add_option, download_bar, print_facts, print_json
from simbav2.config import presets
from simbav2.envs.tasks import Task, tasks
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("tasks", _tasks, "list the tasks of the benchmark", json=True)
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="list only this suite")
    add_option(parser, "--check", "build and step each task and report what is missing")

    about = "show the presets as differences from `simbav2`, and the ablations"
    parser = command("presets", _presets, about, json=True)
    parser.add_argument("names", nargs="*", metavar="PRESET", help="show only these")
    add_option(
        parser, "--cost", "measure what an update costs: GFLOP, parameters, updates per second, compilation"
    )

    parser = command("assets", _assets, "download model files that the package may not include", json=True)
    parser.add_argument("name", choices=["humanoid-bench"], help="the HumanoidBench models, for the suite hbench")
    source = "take them from this folder, zip file or URL (default: the HumanoidBench repository)"
    add_option(parser, "--from SOURCE", source, dest="source")

    about = "measure the speed of updates and of the training loop, memory and start-up time"
    parser = command("bench", _bench, about, json=True)
    add_option(parser, "--quick", "measure fewer cases in fewer rounds: about a minute")

    command("doctor", _doctor, "check the installation and show how to fix problems", json=True)


def _tasks(options: argparse.Namespace) -> int:
    rows = tasks(options.suite)
    if options.check:
        return _check_tasks(rows, options.json)
    if options.json:
        return print_json([dataclasses.asdict(task) for task in rows])
    print(f"{'':<30}{'obs':>6}{'actions':>9}{'repeat':>8}{'steps':>7}{'random':>9}{'reference':>11}")
    for suite, members in _by_suite(rows):
        print(f"{suite}: {len(members)} tasks, scored by {members[0].metric}")
        for task in members:
            sizes = f"{task.observation_size:>6}{task.action_size:>9}{task.action_repeat:>8}"
            scores = f"{_score(task.random_score):>9}{_score(task.reference_score):>11}"
            print(f"  {task.id:<28}{sizes}{task.episode_length:>7}{scores}")
    return 0


def _by_suite(rows: Iterable[Task]) -> list[tuple[str, list[Task]]]:
    return [(suite, list(members)) for suite, members in groupby(rows, lambda task: task.suite)]


def _score(score: float | None) -> str:
    return "–" if score is None else format(score, ".7g")


def _check_tasks(rows: Iterable[Task], as_json: bool) -> int:
    from simbav2.envs.make import attempt, missing

    attempts = []
    for suite, members in _by_suite(rows):
        tried = [attempt(task) for task in members]
        attempts += tried
        if as_json:
            continue
        print(f"{suite:<9}{sum(one.ok for one in tried):>3} of {len(tried):>2} tasks work", flush=True)
        # A missing package stops a whole suite: print each remedy once.
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


def _presets(options: argparse.Namespace) -> int:
    chosen = {presets.preset(name).preset: presets.PRESETS[name] for name in options.names} or presets.PRESETS
    if options.cost:
        return _costs(list(chosen), options.json)
    differences = {name: presets.difference(preset.config) for name, preset in chosen.items()}
    ablations = presets.ABLATIONS.items()
    if options.json:
        return print_json({
            name: {
                "about": preset.about,
                "default": name == presets.DEFAULT,
                "differs": {field: after for field, (_, after) in differences[name].items()},
                "ablations": {x: each.about for x, each in ablations if presets.applies(x, preset.config)},
            }
            for name, preset in chosen.items()
        })  # fmt: skip
    for name, preset in chosen.items():
        print(f"{name}{' (default)' if name == presets.DEFAULT else ''}: {preset.about}")
        for field, (before, after) in differences[name].items():
            print(f"    --{field.replace('_', '-'):<44} {'' if before is None else before} -> {after}")
    print("\nablations (section 5.5, table 2), on any preset that has the part: --ablation X")
    for letter, ablation in ablations:
        print(f"  {letter}  {ablation.about}")
    return 0


def _costs(names: list[str], as_json: bool) -> int:
    from simbav2.experiments.benchmark import TASK, costs

    if as_json:
        return print_json([dataclasses.asdict(cost) for cost in costs(names)])
    print(f"on {TASK.id}, at each preset's own size; updates per second and compilation measured here")
    print(
        f"{'':<14}{'GFLOP/update':>13}{'actor':>10}{'critics':>11}{'updates/step':>13}{'updates/s':>10}{'compile':>9}"
    )
    for cost in costs(names):
        counts = f"{cost.actor_parameters:>10,}{cost.critic_parameters:>11,}{cost.updates_per_env_step:>13g}"
        speed = f"{cost.updates_per_second:>10.1f}{cost.compile_seconds:>7.1f} s"
        print(f"{cost.preset:<14}{cost.gflop_per_update:>13.2f}{counts}{speed}", flush=True)
    return 0


def _assets(options: argparse.Namespace) -> int:
    from simbav2.envs.humanoid_bench import assets

    folder = None
    if options.source is None:
        with suppress(InputError):  # missing or incomplete
            folder = assets.verify()
    fetched = folder is None
    if folder is None:
        with download_bar() as progress:
            folder = assets.install(options.source, progress)
        if assets.find() != folder:
            raise InputError(f"installed in {folder}, but {assets.VARIABLE} names another folder; unset it")
    count = len(assets.checksums())
    text = f"{count} HumanoidBench files {'installed' if fetched else 'already there'}: {folder}"
    return print_facts(options, {"folder": str(folder), "files": count, "fetched": fetched}, text)


def _bench(options: argparse.Namespace) -> int:
    from simbav2.experiments import benchmark

    result = benchmark.run(benchmark.QUICK if options.quick else benchmark.FULL)
    return print_facts(options, result, benchmark.table(result))


def _doctor(options: argparse.Namespace) -> int:
    from simbav2.experiments import doctor

    findings = doctor.examine()
    if options.json:
        return print_json([dataclasses.asdict(finding) for finding in findings])
    doctor.show(findings)
    return 0
