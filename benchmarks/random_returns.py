"""What a random policy earns, beside the published random scores: the table in docs/environments.md.

Two policies: `independent` draws every joint's action by itself, uniformly; `shared` draws one number a
decision for all joints. The paper measured its HumanoidBench scores over 10 episodes of each of 10 seeds, so z
counts the published mean as one of 100 episodes with the spread seen here.

    python benchmarks/random_returns.py [--episodes 20] [--shared-episodes 100] [TASK ...]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simbav2.envs.make import make_env
from simbav2.envs.tasks import Task, find, tasks

PUBLISHED_EPISODES = 100
Policy = Callable[[np.random.Generator, int], NDArray[np.float32]]


def independent(random: np.random.Generator, size: int) -> NDArray[np.float32]:
    return random.uniform(-1, 1, size).astype(np.float32)


def shared(random: np.random.Generator, size: int) -> NDArray[np.float32]:
    return np.full(size, random.uniform(-1, 1), np.float32)


def returns(task: Task, policy: Policy, episodes: int) -> NDArray[np.float64]:
    random = np.random.default_rng(0)
    totals = np.zeros(episodes)
    with make_env(task.id, seed=0) as env:
        for episode in range(episodes):
            env.reset()
            ended = False
            while not ended:
                _, reward, terminated, truncated, _ = env.step(policy(random, task.action_size))
                totals[episode] += float(reward)
                ended = terminated or truncated
    return totals


def cells(task: Task, totals: NDArray[np.float64]) -> str:
    spread = totals.std(ddof=1)
    error = math.sqrt(1 / len(totals) + 1 / PUBLISHED_EPISODES) * spread
    z = (totals.mean() - task.random_score) / error
    return f"{totals.mean():.2f} ± {spread / math.sqrt(len(totals)):.2f} | {z:+.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--shared-episodes", type=int, default=100)
    options = parser.parse_args()
    print("| task | published | independent | z | shared | z |\n|---|---|---|---|---|---|")
    for task in [found for name in options.tasks if (found := find(name))] or (*tasks("mujoco"), *tasks("hbench")):
        row = [task.id, f"{task.random_score:g}", cells(task, returns(task, independent, options.episodes))]
        if task.family == "hbench":
            row.append(cells(task, returns(task, shared, options.shared_episodes)))
        else:
            row.append("– | –")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
