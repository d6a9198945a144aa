"""Ray nodes on this machine: prints the address, kills one when told to.

A program of its own, since Ray belongs to whatever process starts it; `started` starts it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def started(nodes: int, cpus: int, gpus: int = 0) -> Iterator[subprocess.Popen]:
    """The program with `nodes` nodes of `cpus` and `gpus` each, whatever this machine has; with its `address`."""
    command = [sys.executable, __file__, *map(str, (nodes, cpus, gpus))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.address = process.stdout.readline().strip()
        yield process
        process.stdin.close()


def main() -> None:
    from ray.cluster_utils import Cluster

    nodes, cpus, gpus = map(int, sys.argv[1:])
    size = {"num_cpus": cpus, "num_gpus": gpus, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    others = [cluster.add_node(**size) for _ in range(nodes - 1)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(others.pop(), allow_graceful=False)
        print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
