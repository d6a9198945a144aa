"""What the training measures cost at their default interval, as a share of the updates between them."""

from __future__ import annotations

import statistics
import sys
import time

import jax

from simbav2 import SimbaV2

ROUNDS = 5
DISPATCHES = 10  # per round
TASK = "dmc/cheetah-run"


def seconds(call) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def main() -> None:
    for preset in sys.argv[1:] or ("simbav2", "simba", "sac"):
        for width in (512, 128):
            agent = SimbaV2(TASK, preset=preset, warmup_decisions=300, **{"critic.width": width})
            agent.learn(2 * 302)
            agent.trainer.diagnostics()  # compiled here
            rounds = []
            for _ in range(ROUNDS):
                update = sum(seconds(agent.trainer.update) for _ in range(DISPATCHES)) / DISPATCHES
                rounds.append((seconds(agent.trainer.diagnostics), update))
            interval = agent.config.schedule.diagnostics_every / agent.config.action_repeat  # decisions
            share = statistics.median(measure / (update * interval) for measure, update in rounds)
            print(f"{preset:<12} width {width:>4}: measures take {share:.3%} of the time of the updates")


if __name__ == "__main__":
    main()
