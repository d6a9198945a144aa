"""`simbav2 train`."""

from __future__ import annotations

import argparse

from simbav2.cli.parser import AddCommand, add_option
from simbav2.cli.runs import add_run_options, carry_out, settings
from simbav2.config import override, presets
from simbav2.errors import InputError

DEFAULT_TASK = "dmc/walker-stand"


def add(command: AddCommand) -> None:
    parser = command("train", _run, "train an agent: live progress, evaluations, checkpoints, a report")
    parser.usage = (
        "simbav2 train TASK [--preset NAME] [--ablation X] [--seed K | --seeds K ...] [--env-steps N]\n"
        "                     [--out DIR] [--overwrite | --auto-resume] [--keep N] [--track SERVICE ...]\n"
        "                     [--section.field VALUE ...]"
    )
    task = f"a task of `simbav2 tasks` or any Gymnasium id (default: {DEFAULT_TASK})"
    parser.add_argument("task", metavar="TASK", nargs="?", default=DEFAULT_TASK, help=task)
    seeds = "parallel runs, each with its own share of the cores; with --out, in DIR/seed-K"
    add_option(parser, "--seeds K", seeds, int, nargs="+")
    add_run_options(parser, presets.DEFAULT, hidden=("data.",))


def _run(options: argparse.Namespace) -> int:
    if options.seeds:
        return _train_seeds(options)
    from simbav2.agent import Agent

    agent = Agent(options.task, preset=options.preset, ablation=options.ablation, **settings(options))
    return carry_out(agent, options)


def _train_seeds(options: argparse.Namespace) -> int:
    """One process per seed; returns the highest exit status."""
    from simbav2.experiments.sweep.local import train_seeds

    given = settings(options)
    if "seed" in given:
        raise InputError("--seed and --seeds were both given; expected one of them")
    if len(set(options.seeds)) < len(options.seeds):
        raise InputError(f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}")
    override(presets.preset(options.preset, options.ablation), given)  # bad settings are reported once

    common = [options.task, "--preset", options.preset]
    common += ["--ablation", options.ablation] if options.ablation else []
    common += ["--stop-after", str(options.stop_after)] if options.stop_after else []
    common += ["--overwrite"] if options.overwrite else []
    common += ["--auto-resume"] if options.auto_resume else []
    common += ["--track", *options.track] if options.track else []
    common += [f"--{name}={value}" for name, value in given.items()]

    def argv(seed: int) -> list[str]:
        folder = ["--out", str(options.out / f"seed-{seed}")] if options.out else []
        return ["train", *common, "--seed", str(seed), *folder]

    return max(train_seeds({seed: argv(seed) for seed in options.seeds}).values())
