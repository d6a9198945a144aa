"""What a checkpoint costs: bytes and seconds with 100,000 transitions of Humanoid-v4, and its share of training.

The networks are the defaults (two critics of width 512). The first checkpoint writes the whole replay, every later
one what came since; at the default cadence that is what ten minutes of training bring.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from simbav2 import SimbaV2
from simbav2.checkpoint import rotation
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.envs.vector import Step

TRANSITIONS = 100_000


def take(agent: SimbaV2, decisions: int, rng: np.random.Generator) -> None:
    """Experience of no meaning but of the right size, an episode's end every hundred steps."""
    replay, no = agent.trainer.replay, np.zeros(1, np.bool_)
    for number in range(decisions):
        observation = rng.standard_normal((1, agent.task.observation_size), np.float32)
        ended = np.array([number % 100 == 99])
        step = Step(observation, observation, np.ones(1), no, ended, np.ones(1), no)
        replay.add(replay.head.copy(), np.zeros((1, agent.task.action_size), np.float32), step)
    agent.decisions += decisions


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    rng = np.random.default_rng(0)
    agent = SimbaV2("mujoco/Humanoid-v4")
    trainer = agent.trainer
    trainer.begin()
    take(agent, TRANSITIONS - 1, rng)
    trainer.step()  # compiles
    took = []
    for _ in range(15):
        began = time.perf_counter()
        trainer.step()
        jax.block_until_ready(agent.state)
        took.append(time.perf_counter() - began)
    decision = statistics.median(took)
    schedule = agent.config.schedule
    minutes = schedule.checkpoint_minutes or float("inf")
    between = round(min(60 * minutes / decision, schedule.checkpoint_every))
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        kept = CheckpointRotation(Path(scratch), schedule)
        (Path(scratch) / "checkpoints").mkdir()

        def save() -> tuple[float, int]:
            before = size(Path(scratch) / "replay")
            began = time.perf_counter()
            kept.save(trainer.checkpoint(episodes=True))
            seconds = time.perf_counter() - began
            new = size(Path(scratch) / "replay") - before + size(rotation.checkpoints(Path(scratch))[0])
            return seconds, new

        first = save()
        later = []
        for _ in range(5):
            take(agent, between, rng)
            later.append(save())
        began = time.perf_counter()
        rotation.load_run(Path(scratch))
        load = time.perf_counter() - began
    seconds = statistics.median(seconds for seconds, _ in later)
    print(
        json.dumps(
            {
                "transitions": TRANSITIONS,
                "seconds_per_decision": round(decision, 4),
                "first_seconds": round(first[0], 2),
                "first_megabytes": round(first[1] / 1e6, 1),
                "decisions_between": between,
                "later_seconds": round(seconds, 2),
                "later_megabytes": round(later[-1][1] / 1e6, 1),
                "load_seconds": round(load, 2),
                "share_of_training_percent": round(100 * seconds / (between * decision), 3),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
