"""Where the time of an update goes: the compiled program's operations on one core, multiplies apart from the rest.

    taskset -c 0 python benchmarks/profile_update.py [WIDTH ...]

One thread, so that operations do not overlap and their times add up. Every operation counts with the lowest decile
of its times, since whatever else the machine does only ever adds. The last line tells what the multiplies would
take at the speed of a large square one: what they lose to it is the price of their shapes.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()

import jax
import numpy as np

from simbav2.experiments.benchmark import Case, Program, multiply

_MULTIPLY = re.compile(r'op_name="[^"]*(dot_general|UnitDense_\d+/transpose|Dense_\d+/transpose)"')


def operations(program: Program, dispatches: int) -> dict[str, tuple[float, float]]:
    """Microseconds and calls per update of every operation."""
    spent: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(dispatches):
                program.milliseconds()
        (trace,) = Path(folder).rglob("*.trace.json.gz")
        events: list[dict[str, Any]] = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    for event in events:
        name = event.get("args", {}).get("hlo_op")
        if name is not None:
            spent[name].append(event["dur"])
    updates = dispatches * program.inputs[1].reward.shape[0]
    return {
        name: (float(np.quantile(us, 0.1)) * len(us) / updates, len(us) / updates) for name, us in spent.items()
    }


def multiplies(program: Program) -> set[str]:
    """The names of the compiled operations that are matrix multiplies, alone or with something fused to them."""
    text = program.learner.learn.lower(program.state, *program.inputs).compile().as_text()
    return {
        match[1]
        for line in text.splitlines()
        if _MULTIPLY.search(line) and (match := re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line))
    }


def main() -> None:
    for width in map(int, sys.argv[1:] or ("512", "128")):
        program = Program(Case("simbav2", width, 1, 2))
        names = multiplies(program)
        found = operations(program, dispatches=12 if width > 256 else 60)
        groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for name, (us, calls) in found.items():
            kind = "matrix multiplies" if name in names else re.sub(r"[.\d]+$", "", name)
            groups[kind][0] += us
            groups[kind][1] += calls
        total = sum(us for us, _ in groups.values())
        print(f"width {width}: {total / 1000:.1f} ms, {sum(calls for _, calls in groups.values()):.0f} operations")
        for kind, (us, calls) in sorted(groups.items(), key=lambda item: -item[1][0])[:12]:
            print(f"  {kind:<32}{us / 1000:>8.2f} ms{us / total:>7.1%}{calls:>7.0f} calls")
        speed = multiply()
        peak = max(speed() for _ in range(9))
        print(f"  the multiplies at {peak:.0f} GFLOP/s: {1000 * program.gflop / peak:.2f} ms")


if __name__ == "__main__":
    main()
