"""`simbav2 dataset`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simbav2.cli.parser import AddCommand, add_option, print_facts
from simbav2.datasets.catalog import LEVELS
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("dataset", _run, "write runs as a data set in the layout of D4RL, or check a file", json=True)
    parser.add_argument("folders", type=Path, nargs="*", metavar="RUN", help="runs of `simbav2 train`")
    add_option(parser, "--out FILE", "the HDF5 file to write", Path)
    add_option(
        parser, "--episodes N", "write N new episodes of each run's policy instead of its replay buffer", int
    )
    add_option(parser, "--mix LEVEL", f"mix a run's checkpoints: {', '.join(LEVELS)}")
    add_option(parser, "--transitions N", "size of a mixture", int, 100_000)
    add_option(parser, "--seed K", "seed of new episodes", int, 0)
    add_option(parser, "--check FILE", "print shapes, episodes, returns, ranges and problems of a file", Path)


def _run(options: argparse.Namespace) -> int:
    if options.check:
        from simbav2.datasets.dataset import examine

        facts = examine(options.check)
        print_facts(options, facts, "\n".join(_described(options.check, facts)))
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
