"""`simbav2 report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simbav2.cli.parser import AddCommand, add_option
from simbav2.cli.runs import STOPPED
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("report", _run, "write tables, curves and one HTML page about runs")
    runs = "runs, folders that hold runs, or CSV files as for --curves; adds published results at the same budget"
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help=runs)
    add_option(parser, "--out DIR", "the folder to write", Path, Path("report"))
    curves = "curves from a CSV file with exp_name,env_name,seed,metric,env_step,value, such as the report's"
    add_option(parser, "--curves FILE", curves, Path, action="append")
    watch = "rewrite it while runs progress, every SECONDS (default: 30); the page reloads itself"
    add_option(parser, "--watch SECONDS", watch, int, nargs="?", const=30)


def _run(options: argparse.Namespace) -> int:
    from simbav2.experiments.report.report import report, watch

    if options.watch is not None and options.watch < 1:
        raise InputError(f"--watch is {options.watch}; expected at least 1 second")
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
