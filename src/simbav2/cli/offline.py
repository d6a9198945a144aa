"""`simbav2 offline`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, add_option, download_bar
from simbav2.cli.runs import add_run_options, carry_out, settings
from simbav2.config import presets
from simbav2.datasets.catalog import D4RL
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("offline", _run, "train on recorded data, and then in the environment if asked to")
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
    add_run_options(parser, presets.FOR_DATA, hidden=presets.OF_DATA)


def _run(options: argparse.Namespace) -> int:
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
        settings=settings(options),
    )
    return carry_out(agent, options)
