"""`simbav2 bench`."""

from __future__ import annotations

import argparse

from simbav2.cli.parser import AddCommand, print_json


def add(command: AddCommand) -> None:
    parser = command("bench", _run, "measure how fast it is here: updates, the loop around them, memory, start-up")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.experiments import benchmark

    result = benchmark.run(benchmark.QUICK if options.quick else benchmark.FULL)
    if options.json:
        return print_json(result)
    print(benchmark.table(result))
    return 0
