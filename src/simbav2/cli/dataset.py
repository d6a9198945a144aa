"""`simbav2 dataset`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from simbav2.cli.parser import AddCommand, print_json
from simbav2.datasets.catalog import LEVELS
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("dataset", _run, "write runs as data in the layout of D4RL, or check a file")
    parser.add_argument("folders", type=Path, nargs="*", metavar="RUN", help="runs of `simbav2 train`")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the HDF5 file to write")
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="N fresh episodes of each run's policy, instead of its replay"
    )
    parser.add_argument("--mix", metavar="LEVEL", help=f"a mixture of a run's checkpoints: {', '.join(LEVELS)}")
    parser.add_argument(
        "--transitions", type=int, default=100_000, metavar="N", help="of a mixture (default: 100000)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="of fresh episodes (default: 0)")
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="report shapes, episodes, returns, ranges and what is wrong"
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    if options.check:
        return _check(options.check, options.json)
    if not options.folders or options.out is None:
        raise InputError("nothing to do; expected `simbav2 dataset RUN... --out FILE.hdf5` or `--check FILE`")
    from simbav2.training.make_dataset import write

    transitions = write(
        options.folders, options.out, options.mix, options.episodes, options.transitions, options.seed
    )
    if options.json:
        return print_json({"file": str(options.out), "transitions": transitions})
    print(f"{options.out}: {transitions:,} transitions")
    return 0


def _check(path: Path, as_json: bool) -> int:
    from simbav2.datasets.dataset import examine

    facts = examine(path)
    if as_json:
        print_json(facts)
    else:
        _print(path, facts)
    return int(bool(facts["problems"]))


def _print(path: Path, facts: dict[str, Any]) -> None:
    task = facts["task"] or "an unnamed task"
    print(f"{path}: {facts['transitions']:,} transitions, {facts['episodes']:,} episodes of {task}")
    for name in ("length", "return"):
        spread = facts[name]
        print(f"{name:<18}mean {spread['mean']:.1f}, from {spread['lowest']:.1f} to {spread['highest']:.1f}")
    for key, (*shape, kind) in facts["shapes"].items():
        low_high = facts["ranges"].get(key)
        ranges = "" if low_high is None else f"  from {low_high[0]:.4g} to {low_high[1]:.4g}"
        print(f"{key:<18}{'x'.join(map(str, shape))} {kind}{ranges}")
    print(f"{'duplicates':<18}{facts['duplicates']:,} rows")
    for problem in facts["problems"]:
        print(f"problem: {problem}")
