"""`simbav2 resume`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, add_option
from simbav2.cli.runs import add_track_option, conclude, has_report


def add(command: AddCommand) -> None:
    parser = command("resume", _run, "resume a stopped run")
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run's folder")
    add_option(parser, "--stop-after N", "stop after N simulator steps in all", int)
    add_track_option(parser)


def _run(options: argparse.Namespace) -> int:
    from simbav2.training import run
    from simbav2.training.trackers import trackers

    folder, stop_after, callbacks = options.folder, options.stop_after, trackers(options.track)
    summary = None if has_report(folder) else run.finished(folder, stop_after)
    return conclude(folder, summary or run.resume(folder, stop_after, callbacks=callbacks))
