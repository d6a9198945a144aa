"""How the cost of an update grows with width, depth, batch and updates per dispatch: four points and an exponent.

The exponent is the slope of a straight line through the logarithms; times are counted in matrix multiplies of the
same round, so that a machine that slows down does not bend the line.
"""

from __future__ import annotations

import numpy as np

from simbav2.experiments.benchmark import Case, updates

AXES: dict[str, list[tuple[int, Case]]] = {
    "critic width": [(width, Case("simbav2", width, 1, 2)) for width in (128, 256, 512, 1024)],
    "critic depth": [(depth, Case("simbav2", 512, 1, 2, (("critic.depth", depth),))) for depth in (1, 2, 4, 8)],
    "batch": [(size, Case("simbav2", 512, 1, 2, (("replay.batch_size", size),))) for size in (64, 128, 256, 512)],
    "updates": [(count, Case("simbav2", 128, 1, count)) for count in (1, 2, 4, 8)],
}


def main() -> None:
    peak, _ = updates([AXES["updates"][0][1]])
    print(f"matrix multiply: {peak:.0f} GFLOP/s; milliseconds at that speed")
    for name, points in AXES.items():
        _, rows = updates([case for _, case in points])
        # One dispatch takes `updates` updates.
        cost = [row.updates * row.gflop / row.fraction_of_peak / peak * 1000 for row in rows]
        per = cost if name == "updates" else [c / row.updates for c, row in zip(cost, rows, strict=True)]
        exponent = np.polyfit(np.log([at for at, _ in points]), np.log(per), 1)[0]
        told = ", ".join(f"{at}: {ms:.1f}" for (at, _), ms in zip(points, per, strict=True))
        print(f"{name}: {told}; exponent {exponent:.2f}")


if __name__ == "__main__":
    main()
