"""The command line: one file per command. Heavy imports happen inside the commands, so that help comes at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simbav2.cli import (
    assets,
    bench,
    dataset,
    doctor,
    evaluate,
    export,
    import_release,
    offline,
    presets,
    pull,
    push,
    report,
    resume,
    sweep,
    tasks,
    train,
)
from simbav2.cli.parser import parse
from simbav2.cli.runs import exit_status

COMMANDS = (
    train,
    resume,
    offline,
    dataset,
    sweep,
    evaluate,
    export,
    import_release,
    push,
    pull,
    report,
    tasks,
    presets,
    assets,
    bench,
    doctor,
)


def main(arguments: Sequence[str] | None = None) -> int:
    def carry_out() -> int:
        options = parse(sys.argv[1:] if arguments is None else arguments, [command.add for command in COMMANDS])
        return options.run(options)

    return exit_status(carry_out)
