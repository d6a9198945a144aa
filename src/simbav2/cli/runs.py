"""What the commands that make a run have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simbav2 import presets
from simbav2.cli.parser import Parser
from simbav2.config import leaves
from simbav2.errors import Failure, InputError, printable

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.callbacks import Callback

STOPPED = 130  # the shell's status for Ctrl-C
SERVICES = ("tensorboard", "wandb")
_NO_SETTINGS = ("task", "preset", "design")  # given by words of their own


def add_run_options(parser: Parser, preset: str, hidden: tuple[str, ...]) -> None:
    """`hidden` are the beginnings of settings that the command does not take or that mean nothing to it."""
    parser.takes_settings = True
    parser.add_argument(
        "--preset", metavar="NAME", default=preset, help=f"{', '.join(presets.PRESETS)} (default: {preset})"
    )
    parser.add_argument(
        "--design",
        metavar="X",
        help="make one change of the paper's design study to the preset: a to m, see `simbav2 presets`",
    )
    parser.add_argument(
        "--stop-after",
        type=int,
        metavar="N",
        help="end after N simulator steps; schedules stay those of the whole run",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the run's folder (default: one under runs/, named after the config)",
    )
    held = parser.add_mutually_exclusive_group()
    held.add_argument("--overwrite", action="store_true", help="delete the run that the folder already holds")
    held.add_argument(
        "--auto-resume",
        action="store_true",
        help="go on with the run that the folder already holds, if any: for jobs that may be killed and restarted",
    )
    add_track_option(parser)
    parser.add_argument("--keep", metavar="N", help="checkpoints kept, the same as --schedule.keep (default: 2)")
    parser.add_argument(
        "--drop-bad-steps",
        metavar="WHICH",
        help="failed environment steps to discard instead of stopping: diverged (of a simulation that diverged), "
        "any (also exceptions and non-finite values of your own environment), never (default: diverged)",
    )
    parser.epilog = (
        "settings (any of them can be given as --name VALUE; `simbav2 presets` tells what presets change):\n"
        + "\n".join(
            f"  --{name.replace('_', '-'):<36}{value}"
            for name, value in leaves(presets.preset(preset)).items()
            if not name.startswith((*_NO_SETTINGS, *hidden))
        )
    )


def add_track_option(parser: Parser) -> None:
    parser.add_argument(
        "--track",
        nargs="+",
        choices=SERVICES,
        default=[],
        metavar="SERVICE",
        help=f"show the curves elsewhere as well: {', '.join(SERVICES)}",
    )


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Those given, by their names in the config."""
    named = {"schedule.keep": options.keep, "drop_bad_steps": options.drop_bad_steps}
    return {**options.settings, **{name: value for name, value in named.items() if value is not None}}


def exit_status(work: Callable[[], int]) -> int:
    """That of `work`; what goes wrong in it is told in one line."""
    try:
        return work()
    except (InputError, Failure) as error:
        print(f"simbav2: {printable(error)}", file=sys.stderr)
        return 1 if isinstance(error, Failure) else 2
    except KeyboardInterrupt:
        print("simbav2: interrupted; what was saved before stays whole", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 0


def carry_out(agent: Agent, options: argparse.Namespace, callbacks: Sequence[Callback] = ()) -> int:
    """Make the run, or go on with it where that is asked for."""
    from simbav2.training import run
    from simbav2.training.tracking import trackers

    folder, callbacks = options.out or run.default_folder(agent.config), [*trackers(options.track), *callbacks]
    if options.auto_resume:
        return conclude(folder, run.start_or_resume(agent, folder, options.stop_after, callbacks))
    return conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite, callbacks))


def conclude(folder: Path, summary: dict[str, Any] | None) -> int:
    if summary is None:
        print(f"stopped and saved; go on with: simbav2 resume {folder}")
        return STOPPED
    from simbav2.training.display import measures_table

    for line in measures_table(summary.get("measures", {})):
        print(line)
    result = f"return {summary['final_return']:.1f}"
    if summary["final_success"] is not None:
        result += f", success {summary['final_success']:.0%}"
    print(f"{printable(summary['task'])}: {result} after {summary['env_steps']:,} steps")
    print(f"report: {folder / 'report' / 'index.html'}")
    return 0
