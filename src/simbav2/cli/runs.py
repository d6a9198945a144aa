"""Commands that make a run: `train`, `resume`, `offline`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simbav2.cli.parser import AddCommand, Parser, add_option, download_bar
from simbav2.config import WORKERS, Config, override, presets
from simbav2.config import tree as config
from simbav2.datasets import D4RL
from simbav2.errors import InputError, printable
from simbav2.experiments.sweep.plan import run_argv
from simbav2.runtime import STOPPED

if TYPE_CHECKING:
    from simbav2.agent import Agent

DEFAULT_TASK = "dmc/walker-stand"
SERVICES = ("tensorboard", "wandb")
_OWN_OPTIONS = ("task", "preset", "ablation")  # options of their own
_COLUMN = 42  # where the help sentences start
COMMON = (
    *("seed", "env_steps", "num_envs", "env_workers", "evaluation_workers"),
    *("warmup_decisions", "updates_per_decision", "drop_bad_steps"),
    *("actor.width", "critic.width", "critic.depth", "critic.num_critics"),
    *("learning_rate.initial", "learning_rate.final", "replay.batch_size", "replay.n_step", "data.passes"),
    *("schedule.log_every", "schedule.evaluate_every", "schedule.evaluation_episodes"),
    "schedule.checkpoint_every",
)


def add(command: AddCommand) -> None:
    parser = command("train", _train, "train an agent: live progress, evaluations, checkpoints, a report")
    parser.usage = (
        "simbav2 train TASK [--preset NAME] [--ablation X] [--seed K | --seeds K ...] [--env-steps N]\n"
        "                     [--out DIR] [--overwrite | --auto-resume] [--keep N] [--track SERVICE ...]\n"
        "                     [--section.field VALUE ...]"
    )
    task = f"a task of `simbav2 tasks` or any Gymnasium id (default: {DEFAULT_TASK})"
    parser.add_argument("task", metavar="TASK", nargs="?", default=DEFAULT_TASK, help=task)
    seeds = "parallel runs, each with its own share of the cores; with --out, in DIR/seed-K"
    add_option(parser, "--seeds K", seeds, int, nargs="+")
    _add_run_options(parser, presets.DEFAULT, hidden=("data.",))

    parser = command("resume", _resume, "resume a stopped run")
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run's folder")
    add_option(parser, "--stop-after N", "stop after N simulator steps in all", int)
    for each in config.settings(Config()):
        if each.name in WORKERS:  # another machine may have other cores
            add_option(parser, f"--{each.name.replace('_', '-')} X", f"{each.help} (default: as before)")
    _add_track_option(parser)

    parser = command("offline", _offline, "train on recorded data, and then in the environment if asked to")
    parser.usage = (
        "simbav2 offline DATASET [--data FILE] [--task TASK] [--download] [--then-online N] [--preset NAME]\n"
        "                       [--ablation X] [--seed K] [--out DIR] [--overwrite | --auto-resume] [--keep N]\n"
        "                       [--track SERVICE ...] [--section.field VALUE ...]"
    )
    names = "d4rl/{halfcheetah,hopper,walker2d}-{medium,medium-replay,medium-expert}-v2, minari/ID, an HDF5 file"
    parser.add_argument("dataset", metavar="DATASET", nargs="?", help=names)
    add_option(parser, "--data FILE", "the data set's file (default: in the cache)", Path)
    add_option(parser, "--task TASK", "the environment (default: the one that the data names)")
    add_option(parser, "--download", "download the data set first; without DATASET, all nine of D4RL")
    online = "then train online for N simulator steps, with batches half from the data, half from replay"
    add_option(parser, "--then-online N", online, int, 0)
    _add_run_options(parser, presets.FOR_DATA, hidden=presets.OF_DATA)


def _add_run_options(parser: Parser, preset: str, hidden: tuple[str, ...]) -> None:
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
    _add_track_option(parser)
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


def _add_track_option(parser: Parser) -> None:
    about = f"also send the curves to: {', '.join(SERVICES)}"
    parser.add_argument("--track", nargs="+", choices=SERVICES, default=[], metavar="SERVICE", help=about)


def _train(options: argparse.Namespace) -> int:
    if options.seeds:
        return _train_seeds(options)
    from simbav2.agent import Agent

    agent = Agent(options.task, preset=options.preset, ablation=options.ablation, **_settings(options))
    return _carry_out(agent, options)


def _train_seeds(options: argparse.Namespace) -> int:
    """One process per seed; returns the highest exit status."""
    from simbav2.experiments.sweep.local import train_seeds

    given = _settings(options)
    if "seed" in given:
        raise InputError("--seed and --seeds were both given; expected one of them")
    if len(set(options.seeds)) < len(options.seeds):
        raise InputError(f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}")
    base = presets.preset(options.preset, options.ablation)
    override(base, given)  # bad settings are reported once
    common = ["--overwrite"] * options.overwrite + ["--auto-resume"] * options.auto_resume
    common += ["--track", *options.track] if options.track else []

    def argv(seed: int) -> list[str]:
        folder = ["--out", str(options.out / f"seed-{seed}")] if options.out else []
        config = replace(base, task=options.task, seed=seed)
        return [*run_argv("train", config, options.stop_after, given), *common, *folder]

    return max(train_seeds({seed: argv(seed) for seed in options.seeds}).values())


def _resume(options: argparse.Namespace) -> int:
    from simbav2.training import run
    from simbav2.training.trackers import trackers

    folder, stop_after, callbacks = options.folder, options.stop_after, trackers(options.track)
    workers = {name: getattr(options, name) for name in WORKERS if getattr(options, name) is not None}
    summary = None if _has_report(folder) else run.finished(folder, stop_after)
    return _conclude(folder, summary or run.resume(folder, stop_after, callbacks=callbacks, workers=workers))


def _offline(options: argparse.Namespace) -> int:
    if options.download:
        from simbav2.datasets.dataset import fetch

        for name in [options.dataset] if options.dataset else D4RL:
            with download_bar() as progress:
                place = fetch(name, progress)
            print(f"{name}: {place}")
    if options.dataset is None:
        if options.download:
            return 0
        raise InputError("no data set given; expected `simbav2 offline DATASET`, see `simbav2 offline --help`")
    from simbav2.training.offline import make_agent

    agent = make_agent(
        options.dataset,
        file=options.data,
        task=options.task,
        then_online=options.then_online,
        preset=options.preset,
        ablation=options.ablation,
        settings=_settings(options),
    )
    return _carry_out(agent, options)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The given settings by their names in the config."""
    kept = {} if options.keep is None else {"schedule.keep": options.keep}
    return {**options.settings, **kept}


def _carry_out(agent: Agent, options: argparse.Namespace) -> int:
    """Start the run, or resume it with `--auto-resume`."""
    from simbav2.training import run
    from simbav2.training.trackers import trackers

    folder, callbacks = options.out or run.default_folder(agent.config), trackers(options.track)
    if options.auto_resume:
        return _conclude(folder, run.start_or_resume(agent, folder, options.stop_after, callbacks))
    return _conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite, callbacks))


def _conclude(folder: Path, summary: dict[str, Any] | None) -> int:
    if summary is None:
        print(f"stopped and saved; resume with: simbav2 resume {folder}")
        return STOPPED
    from simbav2.training.console import diagnostics_table

    _write_missing_report(folder)
    for line in diagnostics_table(summary.get("measures", {})):
        print(line)
    result = f"return {summary['final_return']:.1f}"
    if summary["final_success"] is not None:
        result += f", success {summary['final_success']:.0%}"
    print(f"{printable(summary['task'])}: {result} after {summary['env_steps']:,} steps")
    print(f"report: {folder / 'report' / 'index.html'}")
    return 0


def _has_report(folder: Path) -> bool:
    """Whether there is a report that is not older than the run's result."""
    page, summary = folder / "report" / "index.html", folder / "summary.json"
    return page.exists() and summary.exists() and page.stat().st_mtime >= summary.stat().st_mtime


def _write_missing_report(folder: Path) -> None:
    from simbav2.experiments.report.report import write_report
    from simbav2.experiments.report.runs import read_run
    from simbav2.training.run import exclusive

    with exclusive(folder):
        if not _has_report(folder):
            write_report([read_run(folder)], folder / "report")
