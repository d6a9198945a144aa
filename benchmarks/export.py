"""How long one action takes, by every way to run a policy: the agent, NumPy, ONNX.

    python benchmarks/export.py [--width 128] [--task dmc/humanoid-run]

One thread for all; medians over 2,000 calls with one observation each.
"""

import argparse
import io
import os
import statistics
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

from simbav2 import SimbaV2
from simbav2.export import describe, operations
from simbav2.export.formats import FORMATS
from simbav2.export.simbav2_policy import Policy

CALLS = 2_000


def microseconds(act, observation) -> float:
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        act(observation)
        took.append(time.perf_counter() - began)
    return statistics.median(took[CALLS // 10 :]) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=128, help="of the actor")
    parser.add_argument("--task", default="dmc/humanoid-run")
    options = parser.parse_args()

    import onnxruntime

    agent = SimbaV2(options.task, **{"actor.width": options.width, "critic.width": 16})
    listed, metadata = operations(agent, agent.trainer.envs.actions), describe(agent, agent.trainer.envs.actions)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        FORMATS["onnx"].encode(listed, metadata), settings, providers=["CPUExecutionProvider"]
    )
    policy = Policy(io.BytesIO(FORMATS["numpy"].encode(listed, metadata)))
    observation = np.random.default_rng(0).normal(size=agent.task.observation_size).astype(np.float32)
    times = {
        "agent.predict": microseconds(agent.predict, observation),
        "NumPy": microseconds(policy, observation),
        "ONNX": microseconds(lambda x: session.run(None, {"observation": x}), observation[None]),
    }
    print(f"{options.task}, actor width {options.width}, microseconds an action:")
    for name, took in times.items():
        print(f"  {name:<14}{took:8.1f}")


if __name__ == "__main__":
    main()
