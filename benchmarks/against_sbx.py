"""Our preset `simba` beside SBX's SAC with its Simba policy, at equal sizes, on the same task.

SBX lives in an environment of its own, which also needs what our task is made of:

    python -m venv /tmp/sbx
    /tmp/sbx/bin/pip install torch==2.13.0
    /tmp/sbx/bin/pip install sbx-rl "dm-control>=1.0.38,<1.0.39" "mujoco>=3.6,<3.7" "gymnasium>=1.2,<1.3"
    python benchmarks/against_sbx.py --sbx-python /tmp/sbx/bin/python

Every round runs both, in one order and then in the other, each in a fresh process. Both have two critics of two
blocks, an actor of one block of width 128, batches of 256, and take two updates after every decision; replay
sampling counts as part of an update. The ratios are ours over theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TASK = "dmc/cheetah-run"
WARMUP, UPDATES, BATCH = 300, 2, 256
WIDTHS = {512: 30, 128: 300}  # of the critics, with the decisions that are timed


def ours(width: int, decisions: int) -> dict[str, float]:
    import jax

    from simbav2 import SimbaV2

    settings = {"critic.width": width, "critic.num_critics": 2, "warmup_decisions": WARMUP}
    agent = SimbaV2(TASK, preset="simba", updates_per_decision=UPDATES, **settings)
    return measured(
        learn=lambda count: agent.learn(2 * count),
        update=agent.trainer.update,
        wait=lambda: jax.block_until_ready(agent.state),
        decisions=decisions,
    )


def theirs(width: int, decisions: int) -> dict[str, float]:
    import jax
    from sbx import SAC

    import simbav2

    model = SAC(
        "SimbaPolicy",
        simbav2.make_env(TASK, seed=0),
        policy_kwargs={"net_arch": {"pi": [128], "qf": [width, width]}, "n_critics": 2},
        batch_size=BATCH,
        gradient_steps=UPDATES,
        train_freq=1,
        learning_starts=WARMUP,
    )
    return measured(
        learn=lambda count: model.learn(count, reset_num_timesteps=False),
        update=lambda: model.train(gradient_steps=UPDATES, batch_size=BATCH),
        wait=lambda: jax.block_until_ready((model.policy.qf_state, model.policy.actor_state)),
        decisions=decisions,
    )


def measured(
    learn: Callable[[int], object], update: Callable[[], object], wait: Callable[[], object], decisions: int
) -> dict[str, float]:
    """Rates after everything has been compiled."""
    learn(WARMUP + 10)
    wait()
    start = time.perf_counter()
    for _ in range(decisions):
        update()
    wait()
    updates_per_second = UPDATES * decisions / (time.perf_counter() - start)
    start = time.perf_counter()
    learn(decisions)
    wait()
    return {
        "updates_per_second": updates_per_second,
        "env_steps_per_second": 2 * decisions / (time.perf_counter() - start),
    }


def worker(python: str, method: str, width: int, decisions: int) -> dict[str, float]:
    source = str(Path(__file__).parent.parent / "src")
    words = [python, __file__, "--worker", method, "--width", str(width), "--decisions", str(decisions)]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": source}, stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sbx-python", metavar="FILE", help="the interpreter of SBX's environment")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="each in both orders (default: 3)")
    parser.add_argument("--worker", choices=["ours", "sbx"], help=argparse.SUPPRESS)
    parser.add_argument("--width", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--decisions", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        run = {"ours": ours, "sbx": theirs}[options.worker]
        print(json.dumps(run(options.width, options.decisions)))
        return
    if not options.sbx_python:
        parser.error("--sbx-python is missing; the top of this file tells how to make that environment")
    pythons = {"ours": sys.executable, "sbx": options.sbx_python}
    print(f"{'width':>6} {'rate':<22}{'ours':>9}{'SBX':>9}{'ours first':>12}{'SBX first':>11}")
    for width, decisions in WIDTHS.items():
        orders = {order: [] for order in (("ours", "sbx"), ("sbx", "ours"))}
        for _ in range(options.rounds):
            for order, results in orders.items():
                results.append({name: worker(pythons[name], name, width, decisions) for name in order})
        for rate in ("updates_per_second", "env_steps_per_second"):
            everything = [result for results in orders.values() for result in results]
            medians = [statistics.median(r[name][rate] for r in everything) for name in pythons]
            ratios = [
                statistics.median(r["ours"][rate] / r["sbx"][rate] for r in results) for results in orders.values()
            ]
            print(f"{width:>6} {rate:<22}{medians[0]:>9.1f}{medians[1]:>9.1f}{ratios[0]:>12.2f}{ratios[1]:>11.2f}")


if __name__ == "__main__":
    main()
