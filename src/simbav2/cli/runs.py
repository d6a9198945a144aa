"""Options, settings and messages shared by the commands that make a run."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simbav2.cli.parser import Parser, add_option
from simbav2.config import presets
from simbav2.config import tree as config
from simbav2.errors import Failure, InputError, printable

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.callbacks import Callback

STOPPED = 130  # the shell's status for Ctrl-C
SERVICES = ("tensorboard", "wandb")
_OWN_OPTIONS = ("task", "preset", "ablation")  # options of their own
_COLUMN = 42  # where the help sentences start
COMMON = (
    *(
        "seed",
        "env_steps",
        "num_envs",
        "env_workers",
        "warmup_decisions",
        "updates_per_decision",
        "drop_bad_steps",
    ),
    *("actor.width", "critic.width", "critic.depth", "critic.num_critics"),
    *("learning_rate.initial", "learning_rate.final", "replay.batch_size", "replay.n_step", "data.passes"),
    *("schedule.log_every", "schedule.evaluate_every", "schedule.evaluation_episodes"),
    "schedule.checkpoint_every",
)


def add_run_options(parser: Parser, preset: str, hidden: tuple[str, ...]) -> None:
    """`hidden` are prefixes of settings that the command does not take."""
    parser.takes_settings = True
    add_option(parser, "--preset NAME", f"one of {', '.join(presets.PRESETS)}", default=preset)
    ablation = "make one change of the paper's ablation study to the preset: a to m, see `simbav2 presets`"
    add_option(parser, "--ablation X", ablation)
    add_option(parser, "--stop-after N", "stop after N simulator steps; schedules stay as without it", int)
    add_option(parser, "--out DIR", "the run's folder (default: one under runs/, named after the config)", Path)
    held = parser.add_mutually_exclusive_group()
    add_option(held, "--overwrite", "delete the run that the folder already holds")
    resume = "resume the run that the folder already holds, if any: for jobs that may be killed and restarted"
    add_option(held, "--auto-resume", resume)
    add_track_option(parser)
    add_option(parser, "--keep N", "checkpoints to keep, the same as --schedule.keep (default: 2)")
    _add_settings(parser, preset, hidden)


def _add_settings(parser: Parser, preset: str, hidden: tuple[str, ...]) -> None:
    """The settings in the help: the common ones, or all of them with `--help-all`."""
    hidden = (*_OWN_OPTIONS, *hidden)
    found = [each for each in config.settings(presets.preset(preset)) if not each.name.startswith(hidden)]
    common = [each for each in found if each.name in COMMON]
    intro = "any of them as --name VALUE; `simbav2 presets` shows what presets change"
    more = f"--help-all explains all {len(found)}"
    parser.epilog = "\n".join([f"common settings ({intro}; {more}):", *_described(common)])
    parser.add_argument("--help-all", action="help", help="show this help with every setting and exit")
    parser.all_settings = "\n".join([f"settings ({intro}):", *_described(found)])


def _described(settings: Iterable[config.Setting]) -> Iterator[str]:
    """Two columns: the option and its default, then its help sentence; a blank line before each group."""
    group = ""
    for each in settings:
        section, dot, _ = each.name.partition(".")
        section = section if dot or each.parts else ""
        if section != group:
            group = section
            yield ""
        choices = f" ({', '.join(each.parts)})" if each.parts else ""
        option = f"  --{each.name.replace('_', '-')} {'none' if each.value is None else each.value}"
        text = each.help + choices
        if len(option) >= _COLUMN:
            yield option
            option = ""
        first, *rest = textwrap.wrap(text, 112 - _COLUMN) or [""]
        yield f"{option:<{_COLUMN}}{first}"
        yield from (" " * _COLUMN + line for line in rest)


def add_track_option(parser: Parser) -> None:
    about = f"also send the curves to: {', '.join(SERVICES)}"
    parser.add_argument("--track", nargs="+", choices=SERVICES, default=[], metavar="SERVICE", help=about)


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """The given settings by their names in the config."""
    kept = {} if options.keep is None else {"schedule.keep": options.keep}
    return {**options.settings, **kept}


def exit_status(work: Callable[[], int]) -> int:
    """Run `work` and return its exit status; print an error as one line."""
    try:
        return work()
    except (InputError, Failure) as error:
        print(f"simbav2: {printable(error)}", file=sys.stderr)
        return 1 if isinstance(error, Failure) else 2
    except KeyboardInterrupt:
        print("simbav2: interrupted; saved checkpoints stay intact", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 0


def carry_out(agent: Agent, options: argparse.Namespace, callbacks: Sequence[Callback] = ()) -> int:
    """Start the run, or resume it with `--auto-resume`."""
    from simbav2.training import run
    from simbav2.training.trackers import trackers

    folder, callbacks = options.out or run.default_folder(agent.config), [*trackers(options.track), *callbacks]
    if options.auto_resume:
        return conclude(folder, run.start_or_resume(agent, folder, options.stop_after, callbacks))
    return conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite, callbacks))


def conclude(folder: Path, summary: dict[str, Any] | None) -> int:
    if summary is None:
        print(f"stopped and saved; resume with: simbav2 resume {folder}")
        return STOPPED
    from simbav2.training.console import diagnostics_table

    write_missing_report(folder)
    for line in diagnostics_table(summary.get("measures", {})):
        print(line)
    result = f"return {summary['final_return']:.1f}"
    if summary["final_success"] is not None:
        result += f", success {summary['final_success']:.0%}"
    print(f"{printable(summary['task'])}: {result} after {summary['env_steps']:,} steps")
    print(f"report: {folder / 'report' / 'index.html'}")
    return 0


def has_report(folder: Path) -> bool:
    """Whether there is a report that is not older than the run's result."""
    page, summary = folder / "report" / "index.html", folder / "summary.json"
    return page.exists() and summary.exists() and page.stat().st_mtime >= summary.stat().st_mtime


def write_missing_report(folder: Path) -> None:
    from simbav2.experiments.report.report import write_report
    from simbav2.experiments.report.runs import read_run
    from simbav2.training.run import exclusive

    with exclusive(folder):
        if not has_report(folder):
            write_report([read_run(folder)], folder / "report")
