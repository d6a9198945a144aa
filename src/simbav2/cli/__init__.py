"""The command line. Commands import heavy modules inside their functions, so that `--help` is fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simbav2.cli import dataset, evaluate, facts, interop, offline, report, resume, sweep, train
from simbav2.cli.parser import parse
from simbav2.cli.runs import exit_status

COMMANDS = {
    "train": train.add,
    "resume": resume.add,
    "offline": offline.add,
    "dataset": dataset.add,
    "sweep": sweep.add,
    "evaluate": evaluate.add,
    "export": interop.add_export,
    "import-release": interop.add_import_release,
    "push": interop.add_push,
    "pull": interop.add_pull,
    "report": report.add,
    "tasks": facts.add_tasks,
    "presets": facts.add_presets,
    "assets": facts.add_assets,
    "bench": facts.add_bench,
    "doctor": facts.add_doctor,
}


def main(arguments: Sequence[str] | None = None) -> int:
    def run() -> int:
        options = parse(sys.argv[1:] if arguments is None else arguments, COMMANDS.values())
        return options.run(options)

    return exit_status(run)
