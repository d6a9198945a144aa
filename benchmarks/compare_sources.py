"""One update with two versions of the source, interleaved: `python benchmarks/compare_sources.py OLD_SRC NEW_SRC`.

Each version runs in a process of its own, one after the other, several times; the ratio of the medians is printed
for the default critic at widths 512 and 128.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

MEASURE = """
import sys, time
import jax, numpy as np
from simbav2.config import override, presets
from simbav2.envs.tasks import tasks
from simbav2.learner import Learner
from simbav2.types import Normalizer, Transition

task = next(task for task in tasks() if task.id == "dmc/cheetah-run")
preset, width, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = override(presets.preset(preset), {"critic.width": width} if width else {}).resolve(task)
sizes = task.observation_size, task.action_size
learner = Learner(config, *sizes)
state = learner.init(jax.random.PRNGKey(0))
rng = np.random.default_rng(0)
shapes = ((sizes[0],), (sizes[1],), (), (), (sizes[0],))
batches = Transition(*(rng.uniform(-1, 1, (2, config.replay.batch_size, *shape)).astype("f") for shape in shapes))
normalizer = Normalizer(np.zeros(sizes[0], "f"), np.ones(sizes[0], "f"), np.float32(1))
times = []
for _ in range(2 + updates // 2):
    start = time.perf_counter()
    state, _ = jax.block_until_ready(learner.learn(state, normalizer, batches))
    times.append((time.perf_counter() - start) / 2)
print(sorted(times[2:])[len(times[2:]) // 2])
"""


def measure(source: str, preset: str, width: int, updates: int) -> float:
    """Seconds of one update; width 0 leaves the preset's own."""
    environment = os.environ | {"PYTHONPATH": source}
    command = [sys.executable, "-c", MEASURE, preset, str(width), str(updates)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main(old: str, new: str, rounds: int = 3) -> None:
    for width, updates in ((512, 16), (128, 100)):
        found: dict[str, list[float]] = {old: [], new: []}
        for _ in range(rounds):
            for source in (old, new):
                found[source].append(measure(source, "simbav2", width, updates))
        before, after = (statistics.median(found[source]) for source in (old, new))
        print(
            f"width {width}: {before * 1e3:.1f} ms before, {after * 1e3:.1f} ms after, ratio {after / before:.3f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3])
