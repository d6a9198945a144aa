"""Commands about what runs leave: `evaluate`, `report`, `dataset`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simbav2.cli.parser import AddCommand, add_option, print_facts, print_json
from simbav2.datasets import LEVELS
from simbav2.errors import InputError, printable
from simbav2.runtime import STOPPED


def add(command: AddCommand) -> None:
    parser = command("evaluate", _evaluate, "evaluate a policy; record a video", json=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    add_option(parser, "--episodes N", "number of episodes", int, 10, least=1)
    add_option(parser, "--seed K", "seed of the episodes (default: the run's own evaluation seed)", int)
    add_option(parser, "--video FILE", "record the first episodes as an .mp4 file", Path)

    parser = command("report", _report, "write tables, curves and one HTML page about runs")
    runs = "runs, folders that hold runs, or CSV files as for --curves; adds published results at the same budget"
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help=runs)
    add_option(parser, "--out DIR", "the folder to write", Path, Path("report"))
    curves = "curves from a CSV file with exp_name,env_name,seed,metric,env_step,value, such as the report's"
    add_option(parser, "--curves FILE", curves, Path, action="append")
    watch = "rewrite it while runs progress, every SECONDS (default: 30); the page reloads itself"
    add_option(parser, "--watch SECONDS", watch, int, least=1, nargs="?", const=30)

    parser = command(
        "dataset", _dataset, "write runs as a data set in the layout of D4RL, or check a file", json=True
    )
    parser.add_argument("folders", type=Path, nargs="*", metavar="RUN", help="runs of `simbav2 train`")
    add_option(parser, "--out FILE", "the HDF5 file to write", Path)
    add_option(
        parser, "--episodes N", "write N new episodes of each run's policy instead of its replay buffer", int
    )
    add_option(parser, "--mix LEVEL", f"mix a run's checkpoints: {', '.join(LEVELS)}")
    add_option(parser, "--transitions N", "size of a mixture", int, 100_000)
    add_option(parser, "--seed K", "seed of new episodes", int, 0)
    add_option(parser, "--check FILE", "print shapes, episodes, returns, ranges and problems of a file", Path)


def _evaluate(options: argparse.Namespace) -> int:
    from simbav2.agent import Agent
    from simbav2.training.evaluate import evaluate, mean_success, mean_total
    from simbav2.training.health import as_json, diagnose
    from simbav2.training.logger import read_metrics

    agent = Agent.load(options.folder)
    if options.video:
        from simbav2.training.video import record_video

        record_video(agent, options.video, options.episodes, options.seed)
    with agent.trainer.make_evaluation_envs(options.seed) as envs:
        episodes = evaluate(agent, envs, options.episodes)
    total, success = mean_total(episodes), mean_success(episodes)
    warnings = diagnose(agent, episodes, read_metrics(options.folder))
    if options.json:
        return print_json({
            "task": agent.config.task,
            "env_steps": agent.env_steps,
            "return": total,
            "success": success,
            "episodes": [{"return": e.total, "length": e.length, "success": e.success} for e in episodes],
            "video": str(options.video) if options.video else None,
            "warnings": [as_json(warning, agent.env_steps) for warning in warnings],
        })  # fmt: skip
    for number, episode in enumerate(episodes):
        solved = "" if episode.success is None else f"  success {episode.success:.0f}"
        print(f"episode {number:>3}  return {episode.total:>10.1f}  length {episode.length:>5}{solved}")
    solved = "" if success is None else f", success {success:.0%}"
    print(f"{printable(agent.config.task)} after {agent.env_steps:,} steps: return {total:.1f}{solved}")
    if options.video:
        print(f"video: {options.video}")
    for warning in warnings:
        print(f"warning: {warning.name}: {warning.text}\n    → {warning.remedy}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from simbav2.experiments.report.report import report, watch

    source = (options.folders, options.out, options.curves or [])
    made = watch(*source, options.watch) if options.watch else (report(*source)[:2],)
    try:
        for page, problems in made:
            for problem in problems:
                print(f"simbav2: {problem}", file=sys.stderr)
            print(page, flush=True)
    except KeyboardInterrupt:
        return STOPPED
    return 0


def _dataset(options: argparse.Namespace) -> int:
    if options.check:
        from simbav2.datasets.dataset import examine

        facts = examine(options.check)
        print_facts(options, facts, *_described(options.check, facts))
        return int(bool(facts["problems"]))
    if not options.folders or options.out is None:
        raise InputError("nothing to do; expected `simbav2 dataset RUN... --out FILE.hdf5` or `--check FILE`")
    from simbav2.training.make_dataset import write

    chosen = (options.mix, options.episodes, options.transitions, options.seed)
    transitions = write(options.folders, options.out, *chosen)
    facts = {"file": str(options.out), "transitions": transitions}
    return print_facts(options, facts, f"{options.out}: {transitions:,} transitions")


def _described(path: Path, facts: dict[str, Any]) -> Iterator[str]:
    task = facts["task"] or "an unnamed task"
    yield f"{path}: {facts['transitions']:,} transitions, {facts['episodes']:,} episodes of {task}"
    for name in ("length", "return"):
        spread = facts[name]
        yield f"{name:<18}mean {spread['mean']:.1f}, from {spread['lowest']:.1f} to {spread['highest']:.1f}"
    for key, (*shape, kind) in facts["shapes"].items():
        low_high = facts["ranges"].get(key)
        ranges = "" if low_high is None else f"  from {low_high[0]:.4g} to {low_high[1]:.4g}"
        yield f"{key:<18}{'x'.join(map(str, shape))} {kind}{ranges}"
    yield f"{'duplicates':<18}{facts['duplicates']:,} rows"
    for problem in facts["problems"]:
        yield f"problem: {problem}"
