"""`simbav2 report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simbav2.cli.parser import AddCommand
from simbav2.cli.runs import STOPPED
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("report", _run, "write tables, curves and one HTML page about runs")
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="runs, folders that hold runs, or CSV files of curves as for --curves; published methods on the same "
        "task at the same budget are shown beside them",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="where to (default: report)"
    )
    parser.add_argument(
        "--curves",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="add curves of other methods: a CSV file with exp_name,env_name,seed,metric,env_step,value, as the "
        "report writes them to curves.csv",
    )
    parser.add_argument(
        "--watch",
        type=int,
        nargs="?",
        const=30,
        metavar="SECONDS",
        help="update it while runs are unfinished, checking every SECONDS (default: 30); the page reloads itself",
    )


def _run(options: argparse.Namespace) -> int:
    from simbav2.experiments.report.report import report, watch

    if options.watch is not None and options.watch < 1:
        raise InputError(f"--watch is {options.watch}; expected at least 1 second")
    source = (options.folders, options.out, options.curves)
    # Without --watch the same, but once.
    made = watch(*source, options.watch) if options.watch else (report(*source)[:2],)
    try:
        for page, problems in made:
            for problem in problems:
                print(f"simbav2: {problem}", file=sys.stderr)
            print(page, flush=True)
    except KeyboardInterrupt:
        return STOPPED
    return 0
