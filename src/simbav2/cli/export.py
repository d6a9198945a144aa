"""`simbav2 export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, print_json
from simbav2.errors import printable


def add(command: AddCommand) -> None:
    parser = command("export", _run, "write a trained policy as a file that runs without JAX")
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    parser.add_argument(
        "--format",
        required=True,
        metavar="NAME",
        help="onnx: a graph for any ONNX runtime; numpy: an .npz file, with simbav2_policy.py to run it",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to (default: policy.onnx or policy.npz in RUN)"
    )
    parser.add_argument(
        "--unit-actions",
        action="store_true",
        help="actions in [-1, 1] instead of the environment's own units; needs no environment",
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.agent import Agent
    from simbav2.export import export_policy, find_format

    out = options.out or options.folder / f"policy{find_format(options.format).suffix}"
    exported = export_policy(Agent.load(options.folder), options.format, out, options.unit_actions)
    if options.json:
        files = [str(file) for file in exported.files]
        return print_json({"files": files, "difference": exported.difference, **exported.metadata})
    print(f"{printable(exported.metadata['task'])}: within {exported.difference:.0e} of the agent's own actions")
    for file in exported.files:
        print(file)
    return 0
