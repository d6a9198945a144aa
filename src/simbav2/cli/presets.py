"""`simbav2 presets`."""

from __future__ import annotations

import argparse

from simbav2 import presets
from simbav2.cli.parser import AddCommand, print_json


def add(command: AddCommand) -> None:
    parser = command("presets", _run, "show every preset as its difference from `simbav2`, and the design changes")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    systems = {name: presets.difference(system.config) for name, system in presets.PRESETS.items()}
    if options.json:
        return print_json({
            name: {
                "about": presets.PRESETS[name].about,
                "default": name == presets.DEFAULT,
                "differs": {field: after for field, (_, after) in differs.items()},
                "designs": {
                    letter: presets.DESIGNS[letter].about
                    for letter in presets.DESIGNS
                    if presets.applies(letter, presets.PRESETS[name].config)
                },
            }
            for name, differs in systems.items()
        })  # fmt: skip
    for name, differs in systems.items():
        default = " (default)" if name == presets.DEFAULT else ""
        print(f"{name}{default}: {presets.PRESETS[name].about}")
        for field, (before, after) in differs.items():
            print(f"    --{field.replace('_', '-'):<44} {'' if before is None else before} -> {after}")
    print("\ndesign changes (section 5.5, table 2), on any preset that has the part: --design X")
    for name, design in presets.DESIGNS.items():
        print(f"  {name}  {design.about}")
    return 0
