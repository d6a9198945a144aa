"""`simbav2 resume`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand
from simbav2.cli.runs import add_track_option, conclude


def add(command: AddCommand) -> None:
    parser = command("resume", _run, "go on with a run where it stopped")
    parser.add_argument("folder", type=Path, metavar="RUN")
    parser.add_argument("--stop-after", type=int, metavar="N", help="end after N simulator steps in all")
    add_track_option(parser)


def _run(options: argparse.Namespace) -> int:
    from simbav2.training import run
    from simbav2.training.trackers import trackers

    callbacks = trackers(options.track)
    return conclude(options.folder, run.resume(options.folder, options.stop_after, callbacks=callbacks))
