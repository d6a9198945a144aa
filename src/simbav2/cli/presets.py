"""`simbav2 presets`."""

from __future__ import annotations

import argparse

from simbav2.cli.parser import AddCommand, print_json
from simbav2.config import presets


def add(command: AddCommand) -> None:
    parser = command(
        "presets", _run, "show every preset as its difference from `simbav2`, and the ablation changes"
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    methods = {name: presets.difference(method.config) for name, method in presets.PRESETS.items()}
    if options.json:
        return print_json({
            name: {
                "about": presets.PRESETS[name].about,
                "default": name == presets.DEFAULT,
                "differs": {field: after for field, (_, after) in differs.items()},
                "ablations": {
                    letter: presets.ABLATIONS[letter].about
                    for letter in presets.ABLATIONS
                    if presets.applies(letter, presets.PRESETS[name].config)
                },
            }
            for name, differs in methods.items()
        })  # fmt: skip
    for name, differs in methods.items():
        default = " (default)" if name == presets.DEFAULT else ""
        print(f"{name}{default}: {presets.PRESETS[name].about}")
        for field, (before, after) in differs.items():
            print(f"    --{field.replace('_', '-'):<44} {'' if before is None else before} -> {after}")
    print("\nablations (section 5.5, table 2), on any preset that has the part: --ablation X")
    for name, ablation in presets.ABLATIONS.items():
        print(f"  {name}  {ablation.about}")
    return 0
