"""`make chaos`: everything that can befall a run, with the figures of docs/reliability.md in one JSON file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import disk
import kills
import soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("chaos.json"))
    parser.add_argument("--scratch", type=Path, default=Path(".chaos"))
    parser.add_argument("--minutes", type=float, default=30, help="of the soak (default: 30)")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    kills.share_compilations(options.scratch)
    import mutations  # imports JAX, which must know of the shared cache first

    figures: dict[str, Any] = {"mutations": mutations.campaign(options.scratch, 500, seed=1)}
    if os.geteuid() == 0:
        figures["full disk"] = disk.main(options.scratch)
    figures["kills"] = kills.main(options.scratch)
    figures["soak"] = soak.main(options.scratch, options.minutes)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    passed = (
        not figures["mutations"]["wrong"]
        and all(run["identical"] and run["kills"] == kills.KILLS for run in figures["kills"])
        and figures.get("full disk", {"identical": True})["identical"]
        and figures["soak"]["flat"]
    )
    print(f"{'all survived' if passed else 'NOT all survived'}; figures in {options.out}")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
