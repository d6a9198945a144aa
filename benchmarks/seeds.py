"""Two seeds in one program or in processes with a core each: `python benchmarks/seeds.py`.

Milliseconds of act and learn for a decision of both seeds, in interleaved rounds; a row for each critic width.
"""

import os
import statistics
import subprocess
import sys

SEEDS = 2
ROUNDS = 3
WIDTHS = (128, 512)


def cost(width: int) -> None:
    """In a process of its own: the cost alone and together, with the cores that it was given."""
    from simbav2 import SimbaV2
    from simbav2.sweep.choice import measure

    found = measure(SimbaV2("dmc/cheetah-run", preset="simbav2", **{"critic.width": width}), SEEDS)
    print(1e3 * found.alone, 1e3 * found.together)


def start(width: int, cores: set[int]) -> subprocess.Popen[str]:
    flags = "--xla_cpu_multi_thread_eigen=false" if len(cores) == 1 else ""
    return subprocess.Popen(
        [sys.executable, __file__, str(width)],
        env={**os.environ, "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def read(processes: list[subprocess.Popen[str]]) -> list[list[float]]:
    return [list(map(float, process.communicate()[0].split())) for process in processes]


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))[:SEEDS]
    print(
        "| critic width | processes, a core each | one program on all cores | one after the other on all cores |"
    )
    print("|---|---|---|---|")
    for width in WIDTHS:
        rounds = []
        for _ in range(ROUNDS):
            apart = read([start(width, {core}) for core in cores])
            ((alone, together),) = read([start(width, set(cores))])
            rounds.append((max(each[0] for each in apart), together, SEEDS * alone))
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"| {width} | " + " | ".join(f"{value:.1f} ms" for value in medians) + " |")


if __name__ == "__main__":
    cost(int(sys.argv[1])) if len(sys.argv) > 1 else main()
