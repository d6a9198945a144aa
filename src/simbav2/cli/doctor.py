"""`simbav2 doctor`."""

from __future__ import annotations

import argparse
import dataclasses

from simbav2.cli.parser import AddCommand, print_json


def add(command: AddCommand) -> None:
    parser = command("doctor", _run, "tell what is installed, what works here, and how to mend the rest")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.experiments import doctor

    findings = doctor.examine()
    if options.json:
        return print_json([dataclasses.asdict(finding) for finding in findings])
    doctor.show(findings)
    return 0
