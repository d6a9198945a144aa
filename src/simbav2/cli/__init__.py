"""The command line. Commands import heavy modules inside their functions, so that `--help` is fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simbav2.cli import facts, interop, results, runs, sweep
from simbav2.cli.parser import parse
from simbav2.errors import Failure, InputError, printable
from simbav2.runtime import STOPPED

COMMANDS = (runs, sweep, results, interop, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; an error is printed as one line."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, [module.add for module in COMMANDS])
        return options.run(options)
    except (InputError, Failure) as error:
        print(f"simbav2: {printable(error)}", file=sys.stderr)
        return 1 if isinstance(error, Failure) else 2
    except KeyboardInterrupt:
        print("simbav2: interrupted; saved checkpoints stay intact", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 0
