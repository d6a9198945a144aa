"""What it takes to load a million transitions of 17 observations and 6 actions: `python benchmarks/loading.py`.

Seconds and the growth of the process, beside the bytes of the file's arrays; for a plain file and for one that is
compressed as D4RL's are.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from simbav2.datasets import dataset, hdf5

ROWS = 1_000_000


def write(path: Path) -> None:
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((ROWS + 1, 17), np.float32)
    columns = {
        "observations": observations[:-1],
        "next_observations": observations[1:],
        "actions": rng.uniform(-1, 1, (ROWS, 6)).astype(np.float32),
        "rewards": rng.standard_normal(ROWS, np.float32),
        "terminals": np.zeros(ROWS, np.bool_),
        "timeouts": np.arange(ROWS) % 1000 == 999,
    }
    compression = "gzip" if path.stem == "compressed" else None
    with h5py.File(path, "w") as file:
        for key, column in columns.items():
            file.create_dataset(key, data=column, compression=compression)


def load(path: Path) -> None:
    """In a process of its own, as `write` is: the peak of its memory is the loader's."""
    before, began = _peak(), time.perf_counter()
    with hdf5.opened(path) as source:
        replay = dataset.read(source, 0.99).replay
        seconds, grown = time.perf_counter() - began, _peak() - before
        arrays = sum(column.nbytes for column in source.columns.values())
    print(
        f"{path.stem:<12}{seconds:.2f} s, {grown / 1e6:.0f} MB more at its peak, {replay.nbytes / 1e6:.0f} MB kept"
        f"; the file's arrays have {arrays / 1e6:.0f} MB: {grown / arrays:.2f} times"
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    if len(sys.argv) > 1:
        {"write": write, "load": load}[sys.argv[1]](Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("plain", "compressed"):
            for step in ("write", "load"):
                subprocess.run([sys.executable, __file__, step, f"{folder}/{name}.hdf5"], check=True)


if __name__ == "__main__":
    main()
