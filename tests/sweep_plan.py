"""A plan of short runs, and what must not depend on how they were made."""

from pathlib import Path

from short_runs import results

RUNS = 12
PLAN = """
about = "{count} runs of seconds, all of one compiled program"
tasks = {tasks}
presets = ["sac"]
seeds = {count}

[settings]
env_steps = 600
warmup_decisions = 100
actor.width = 16
critic.width = 16
actor.depth = 1
critic.depth = 1
critic.members = 1
replay.batch_size = 32
replay.capacity = 5_000
schedule.log_every = 100
schedule.evaluate_every = 600
schedule.evaluation_episodes = 1
schedule.checkpoint_every = 100
"""


def write(folder: Path, count: int = RUNS, tasks: str = '["Pendulum-v1"]') -> Path:
    path = folder / "short.toml"
    path.write_text(PLAN.format(count=count, tasks=tasks))
    return path


def outcomes(out: Path) -> dict[str, object]:
    """Every run's results by its name."""
    return {path.parent.name: results(path.parent) for path in sorted(out.glob("*/summary.json"))}
