"""`simbav2 import-release`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, print_json
from simbav2.errors import Failure


def add(command: AddCommand) -> None:
    parser = command("import-release", _run, "turn a checkpoint of the authors' code into a saved agent")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="holds actor/, critic/, obs_norm/ and so on")
    parser.add_argument("--observation-size", type=int, required=True, metavar="N", help="of the task")
    parser.add_argument("--action-size", type=int, required=True, metavar="M", help="of the task")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="a new folder for the agent")
    parser.add_argument(
        "--task", metavar="TASK", help="what it was trained on; needed to evaluate it and to train it on"
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def _run(options: argparse.Namespace) -> int:
    from simbav2.interop.release import from_release

    agent = from_release(options.folder, options.observation_size, options.action_size, options.task)
    try:
        agent.save(options.out)
    except OSError as error:
        raise Failure(f"{options.out} cannot be written: {error.strerror or error}") from error
    actor, critic = agent.config.actor, agent.config.critic
    if options.json:
        return print_json({
            "task": agent.config.task,
            "updates": agent.updates,
            "actor": {"width": actor.width, "depth": actor.depth},
            "critic": {"width": critic.width, "depth": critic.depth, "num_critics": critic.num_critics},
            "out": str(options.out),
        })  # fmt: skip
    print(
        f"{options.out}: an agent after {agent.updates:,} updates; actor of width {actor.width} and depth "
        f"{actor.depth}, {critic.num_critics} x critic of width {critic.width} and depth {critic.depth}"
    )
    return 0
