"""`simbav2 push`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, print_json


def add(command: AddCommand) -> None:
    parser = command(
        "push", _run, "put a trained policy on the Hugging Face hub, with a card that tells what it is"
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    parser.add_argument("repo", metavar="REPO", help="NAMESPACE/NAME; made where it does not exist")
    parser.add_argument("--private", action="store_true", help="for your eyes only, where the repository is new")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.experiments.model_card import write_card
    from simbav2.interop import hub

    address = hub.push(hub.connect(), options.folder, options.repo, options.private, write_card)
    if options.json:
        return print_json({"repo": options.repo, "commit": address})
    print(f"{options.folder} is on the hub: {address}")
    return 0
