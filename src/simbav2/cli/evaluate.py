"""`simbav2 evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, add_option, print_json
from simbav2.errors import InputError, printable


def add(command: AddCommand) -> None:
    parser = command("evaluate", _run, "evaluate a policy; record a video", json=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    add_option(parser, "--episodes N", "number of episodes", int, 10)
    add_option(parser, "--seed K", "seed of the episodes (default: the run's own evaluation seed)", int)
    add_option(parser, "--video FILE", "record the first episodes as an .mp4 file", Path)


def _run(options: argparse.Namespace) -> int:
    from simbav2.agent import Agent
    from simbav2.training.evaluate import evaluate, mean_success, mean_total
    from simbav2.training.health import as_json, diagnose
    from simbav2.training.logger import read_metrics

    if options.episodes < 1:
        raise InputError(f"--episodes is {options.episodes}; expected at least 1")
    agent = Agent.load(options.folder)
    if options.video:
        from simbav2.training.video import record_video

        record_video(agent, options.video, options.episodes, options.seed)
    with agent.trainer.make_evaluation_envs(options.seed) as envs:
        episodes = evaluate(agent, envs, options.episodes)
    total, success = mean_total(episodes), mean_success(episodes)
    warnings = diagnose(agent, episodes, read_metrics(options.folder))
    if options.json:
        return print_json({
            "task": agent.config.task,
            "env_steps": agent.env_steps,
            "return": total,
            "success": success,
            "episodes": [{"return": e.total, "length": e.length, "success": e.success} for e in episodes],
            "video": str(options.video) if options.video else None,
            "warnings": [as_json(warning, agent.env_steps) for warning in warnings],
        })  # fmt: skip
    for number, episode in enumerate(episodes):
        solved = "" if episode.success is None else f"  success {episode.success:.0f}"
        print(f"episode {number:>3}  return {episode.total:>10.1f}  length {episode.length:>5}{solved}")
    solved = "" if success is None else f", success {success:.0%}"
    print(f"{printable(agent.config.task)} after {agent.env_steps:,} steps: return {total:.1f}{solved}")
    if options.video:
        print(f"video: {options.video}")
    for warning in warnings:
        print(f"warning: {warning.name}: {warning.text}\n    → {warning.remedy}")
    return 0
