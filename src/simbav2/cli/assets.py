"""`simbav2 assets`."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from simbav2.cli.downloads import download_bar
from simbav2.cli.parser import AddCommand, print_json
from simbav2.errors import InputError


def add(command: AddCommand) -> None:
    parser = command("assets", _run, "fetch model files that are not ours to ship")
    parser.add_argument("name", choices=["humanoid-bench"], help="the HumanoidBench models, for the suite hbench")
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help="a folder, a zip file or an address (default: upstream's)"
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.envs.humanoid_bench import assets

    folder = None
    if options.source is None:
        with suppress(InputError):  # not there yet, or not whole
            folder = assets.verify()
    fetched = folder is None
    if folder is None:
        folder = _install(options.source)
        if assets.find() != folder:
            raise InputError(f"installed in {folder}, but {assets.VARIABLE} names another folder; unset it")
    if options.json:
        return print_json({"folder": str(folder), "files": len(assets.checksums()), "fetched": fetched})
    print(f"{len(assets.checksums())} HumanoidBench files {'installed' if fetched else 'already there'}: {folder}")
    return 0


def _install(source: str | None) -> Path:
    from simbav2.envs.humanoid_bench import assets

    with download_bar() as progress:
        return assets.install(source, progress)
