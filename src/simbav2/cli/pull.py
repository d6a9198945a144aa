"""`simbav2 pull`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, print_json


def add(command: AddCommand) -> None:
    parser = command("pull", _run, "fetch a policy from the Hugging Face hub: plain files, nothing that runs")
    parser.add_argument("repo", metavar="REPO", help="NAMESPACE/NAME")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: NAME under runs/)")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.interop import hub

    out = options.out or Path("runs") / Path(options.repo).name
    pulled = hub.pull(hub.connect(), options.repo, out)
    if options.json:
        return print_json({"folder": str(pulled.folder), "commit": pulled.commit, "bytes": pulled.size})
    print(f"{pulled.folder}: {pulled.size:,} bytes; look at it with: simbav2 evaluate {pulled.folder}")
    return 0
