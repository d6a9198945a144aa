"""The command line. Commands import heavy modules inside their functions, so that `--help` is fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simbav2.cli import dataset, evaluate, facts, interop, offline, report, resume, sweep, train
from simbav2.cli.parser import parse
from simbav2.cli.runs import exit_status

COMMANDS = (train, resume, offline, dataset, sweep, evaluate, interop, report, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    def run() -> int:
        argv = sys.argv[1:] if arguments is None else arguments
        options = parse(argv, [module.add for module in COMMANDS])
        return options.run(options)

    return exit_status(run)
