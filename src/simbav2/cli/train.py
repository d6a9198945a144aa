"""`simbav2 train`."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simbav2 import presets
from simbav2.cli.parser import AddCommand
from simbav2.cli.runs import add_run_options, carry_out, exit_status, settings
from simbav2.config import override
from simbav2.errors import InputError

if TYPE_CHECKING:
    from simbav2.agent import SimbaV2
    from simbav2.training.callbacks import Callback

DEFAULT_TASK = "dmc/walker-stand"


def add(command: AddCommand) -> None:
    parser = command("train", _run, "train an agent: live progress, evaluations, checkpoints, a report")
    parser.usage = (
        "simbav2 train TASK [--preset NAME] [--design X] [--seed K | --seeds K ...] [--env-steps N]\n"
        "                     [--out DIR] [--overwrite | --auto-resume] [--keep N] [--track SERVICE ...]\n"
        "                     [--section.field VALUE ...]"
    )
    parser.add_argument(
        "task",
        metavar="TASK",
        nargs="?",
        default=DEFAULT_TASK,
        help=f"a task of `simbav2 tasks` or any Gymnasium id (default: {DEFAULT_TASK})",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        metavar="K",
        help="several runs side by side: on CPUs each with its own share of the cores, on a GPU in one program "
        "where that is measured to be faster; with --out in DIR/seed-K",
    )
    add_run_options(parser, presets.DEFAULT, hidden=("data.",))


def _run(options: argparse.Namespace) -> int:
    if options.seeds:
        return _train_seeds(options)
    return carry_out(_agent(options, settings(options)), options)


def _agent(options: argparse.Namespace, given: dict[str, Any]) -> SimbaV2:
    from simbav2.agent import SimbaV2

    return SimbaV2(options.task, preset=options.preset, design=options.design, **given)


def _train_seeds(options: argparse.Namespace) -> int:
    """In one program or as processes; the worst exit status is ours."""
    given = settings(options)
    if "seed" in given:
        raise InputError("--seed and --seeds were both given; expected one of them")
    if len(set(options.seeds)) < len(options.seeds):
        raise InputError(f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}")
    override(presets.preset(options.preset, options.design), given)  # bad settings are told once

    # Processes of ours may have to share the device with this one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from simbav2.sweep.choice import in_one_program

    together = in_one_program(lambda: _agent(options, given), len(options.seeds))
    train = _in_one_program if together else _in_processes
    return max(train(options, given).values())


def _folder(options: argparse.Namespace, seed: int) -> Path | None:
    return options.out / f"seed-{seed}" if options.out else None


def _in_one_program(options: argparse.Namespace, given: dict[str, Any]) -> dict[int, int]:
    from simbav2.sweep import together

    def run(seed: int, seat: Callback) -> int:
        own = argparse.Namespace(**{**vars(options), "out": _folder(options, seed)})
        return exit_status(lambda: carry_out(_agent(own, {**given, "seed": seed}), own, [seat]))

    return together.train({seed: partial(run, seed) for seed in options.seeds})


def _in_processes(options: argparse.Namespace, given: dict[str, Any]) -> dict[int, int]:
    from simbav2.sweep import seeds

    common = [options.task, "--preset", options.preset]
    common += ["--design", options.design] if options.design else []
    common += ["--stop-after", str(options.stop_after)] if options.stop_after else []
    common += ["--overwrite"] if options.overwrite else []
    common += ["--auto-resume"] if options.auto_resume else []
    common += ["--track", *options.track] if options.track else []
    common += [f"--{name}={value}" for name, value in given.items()]

    def run(seed: int) -> seeds.Run:
        folder = _folder(options, seed)
        return seeds.Run(seed, (*common, "--seed", str(seed), *(["--out", str(folder)] if folder else [])))

    return seeds.train([run(seed) for seed in options.seeds])
