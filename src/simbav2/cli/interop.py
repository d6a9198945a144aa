"""Commands that carry a trained policy out and in: `export`, `import-release`, `push`, `pull`."""

from __future__ import annotations

import argparse
from pathlib import Path

from simbav2.cli.parser import AddCommand, add_option, print_facts
from simbav2.errors import Failure, printable


def add(command: AddCommand) -> None:
    parser = command("export", _export, "write a trained policy to a file that runs without JAX", json=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    formats = "onnx: a graph for any ONNX runtime; numpy: an .npz file, and simbav2_policy.py to run it"
    add_option(parser, "--format NAME", formats, required=True)
    add_option(parser, "--out FILE", "the file to write (default: policy.onnx or policy.npz in RUN)", Path)
    units = "actions in [-1, 1] instead of the environment's units; needs no environment"
    add_option(parser, "--unit-actions", units)

    about = "convert a checkpoint of the authors' code to a saved agent"
    parser = command("import-release", _import_release, about, json=True)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="holds actor/, critic/, obs_norm/ and so on")
    add_option(parser, "--observation-size N", "size of an observation", int, required=True)
    add_option(parser, "--action-size M", "size of an action", int, required=True)
    add_option(parser, "--out RUN", "a new folder for the agent", Path, required=True)
    add_option(parser, "--task TASK", "the task it was trained on; needed to evaluate it or to train it further")

    parser = command("push", _push, "upload a policy with a model card to the Hugging Face hub", json=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    parser.add_argument("repo", metavar="REPO", help="NAMESPACE/NAME; created if it does not exist")
    add_option(parser, "--private", "make a new repository private")

    parser = command("pull", _pull, "download a policy from the Hugging Face hub: files, no code", json=True)
    parser.add_argument("repo", metavar="REPO", help="NAMESPACE/NAME")
    add_option(parser, "--out DIR", "a new folder (default: NAME under runs/)", Path)


def _export(options: argparse.Namespace) -> int:
    from simbav2.agent import Agent
    from simbav2.export import export_policy, find_format

    out = options.out or options.folder / f"policy{find_format(options.format).suffix}"
    exported = export_policy(Agent.load(options.folder), options.format, out, options.unit_actions)
    files = [str(file) for file in exported.files]
    task = printable(exported.metadata["task"])
    text = f"{task}: within {exported.difference:.0e} of the agent's own actions"
    facts = {"files": files, "difference": exported.difference, **exported.metadata}
    return print_facts(options, facts, text, *files)


def _import_release(options: argparse.Namespace) -> int:
    from simbav2.interop.release import from_release

    agent = from_release(options.folder, options.observation_size, options.action_size, options.task)
    try:
        agent.save(options.out)
    except OSError as error:
        raise Failure(f"{options.out} cannot be written: {error.strerror or error}") from error
    actor, critic = agent.config.actor, agent.config.critic
    facts = {
        "task": agent.config.task,
        "updates": agent.updates,
        "actor": {"width": actor.width, "depth": actor.depth},
        "critic": {"width": critic.width, "depth": critic.depth, "num_critics": critic.num_critics},
        "out": str(options.out),
    }
    text = (
        f"{options.out}: an agent after {agent.updates:,} updates; actor of width {actor.width} and depth "
        f"{actor.depth}, {critic.num_critics} x critic of width {critic.width} and depth {critic.depth}"
    )
    return print_facts(options, facts, text)


def _push(options: argparse.Namespace) -> int:
    from simbav2.experiments.model_card import write_card
    from simbav2.interop import hub

    address = hub.push(hub.connect(), options.folder, options.repo, options.private, write_card)
    facts = {"repo": options.repo, "commit": address}
    return print_facts(options, facts, f"{options.folder} is on the hub: {address}")


def _pull(options: argparse.Namespace) -> int:
    from simbav2.interop import hub

    out = options.out or Path("runs") / Path(options.repo).name
    pulled = hub.pull(hub.connect(), options.repo, out)
    text = f"{pulled.folder}: {pulled.size:,} bytes; evaluate it with: simbav2 evaluate {pulled.folder}"
    facts = {"folder": str(pulled.folder), "commit": pulled.commit, "bytes": pulled.size}
    return print_facts(options, facts, text)
