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
    report,
    resume,
    sweep,
    tasks,
    train,
)
from simbav2.cli.parser import parse
from simbav2.cli.runs import STOPPED
from simbav2.errors import Failure, InputError, printable

COMMANDS = (
    train,
    resume,
    offline,
    dataset,
    sweep,
    evaluate,
    export,
    import_release,
    report,
    tasks,
    presets,
    assets,
    bench,
    doctor,
)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, [command.add for command in COMMANDS])
        return options.run(options)
    except (InputError, Failure) as error:
        print(f"simbav2: {printable(error)}", file=sys.stderr)
        return 1 if isinstance(error, Failure) else 2
    except KeyboardInterrupt:
        print("simbav2: interrupted; what was saved before stays whole", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 0
