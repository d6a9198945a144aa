"""Measure how far the bounds of the learning tests are from what is learned: `python tests/margins.py`.

Exits with 1 when a bound is less than four standard deviations away from the mean.
`XLA_FLAGS=--xla_cpu_max_isa=AVX2` (or SSE4_2, AVX512) stands in for other processors.
"""

import argparse
import os
import sys

from simbav2.runtime import ONE_THREAD, merge_xla_flags

os.environ["XLA_FLAGS"] = merge_xla_flags(os.environ.get("XLA_FLAGS", ""), (ONE_THREAD,))

import numpy as np
from learning import EXPERIMENTS

NEAREST = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}; a deviation needs at least 2")
    chosen = {name: experiment for name, experiment in EXPERIMENTS.items() if options.only in name}
    if not chosen:
        parser.error(f"no experiment contains {options.only!r}; they are {', '.join(EXPERIMENTS)}")
    near = 0
    print(f"{options.seeds} seeds; the margin is the distance from the mean to the nearer bound, in deviations\n")
    print("| experiment | quantity | mean | deviation | bounds | margin |")
    print("|---|---|---|---|---|---|")
    for name, experiment in chosen.items():
        found = [experiment.run(seed) for seed in range(options.seeds)]
        for quantity, (low, high) in experiment.bounds.items():
            values = np.array([one[quantity] for one in found])
            mean, deviation = values.mean(), values.std(ddof=1)
            distance = min(mean - low, high - mean) / max(deviation, 1e-12)
            far = distance >= NEAREST  # and not NaN
            near += not far
            print(
                f"| {name} | {quantity} | {mean:.3f} | {deviation:.4f} | {low:.3g} to {high:.3g} "
                f"| {distance:.1f}{'' if far else ' TOO NEAR'} |",
                flush=True,
            )
    return 1 if near else 0


if __name__ == "__main__":
    sys.exit(main())
