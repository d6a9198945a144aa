"""A run from its beginning, or from where it stopped, to its summary and report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from simbav2.agent import SimbaV2
from simbav2.analysis.report import write_report
from simbav2.analysis.runs import read_run
from simbav2.config import Config
from simbav2.diagnostics import parameter_counts
from simbav2.errors import InputError
from simbav2.training import checkpoint
from simbav2.training.display import Display, Status
from simbav2.training.online import Loop, train
from simbav2.training.record import Recorder

Summary = dict[str, Any]


def default_folder(config: Config) -> Path:
    """The same config always has the same folder."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", config.task).strip("-.")
    system = f"{config.preset}-{config.design}" if config.design else config.preset
    return Path("runs") / f"{name}-{system}-s{config.seed}-{config.digest()}"


def start(agent: SimbaV2, folder: Path, stop_after: int | None = None, overwrite: bool = False) -> Summary | None:
    """A new run; its summary, or None when it was asked to stop before its end."""
    if (folder / "config.json").exists():
        if not overwrite:
            raise InputError(
                f"{folder} already holds a run; go on with `simbav2 resume {folder}`, "
                "start anew with --overwrite, or choose another --out"
            )
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} holds other files; choose another --out")
    until = _until(agent, stop_after)
    recorder = _recorder(agent, folder, until)
    recorder.create(stop_after)
    return _go(Loop(agent), until, recorder)


def resume(folder: Path, stop_after: int | None = None) -> Summary | None:
    """Go on where the run in `folder` stopped, however it stopped; to its own `stop_after` if that lies ahead."""
    agent = SimbaV2.load(folder)
    if stop_after is None:
        stop_after = checkpoint.read_json(folder / "config.json").get("stop_after")
        if stop_after is not None and stop_after <= agent.env_steps:
            stop_after = None
    until = _until(agent, stop_after)
    if agent.env_steps >= until:
        raise InputError(f"{folder} is complete at {agent.env_steps:,} steps; nothing is left to do")
    recorder = _recorder(agent, folder, until)
    recorder.rewind()
    return _go(checkpoint.load_loop(agent, folder), until, recorder)


def _until(agent: SimbaV2, stop_after: int | None) -> int:
    if stop_after is None:
        return agent.config.env_steps
    if stop_after < 1:
        raise InputError(f"--stop-after is {stop_after}; expected at least 1")
    return min(stop_after, agent.config.env_steps)


def _recorder(agent: SimbaV2, folder: Path, until: int) -> Recorder:
    return Recorder(folder, agent, Display(Status(_title(agent.config), _about(agent), agent.env_steps, until)))


def _title(config: Config) -> str:
    design = f" · design {config.design}" if config.design else ""
    return f"{config.task} · {config.preset}{design} · seed {config.seed}"


def _about(agent: SimbaV2) -> str:
    """The sizes of the networks, so that runs can be compared with the paper's figures."""
    counts = parameter_counts(agent.config, agent.task.observation_size, agent.task.action_size)
    members = agent.config.critic.members
    times = f"{members} x " if members != 1 else ""
    return (
        f"parameters: actor {counts.actor / 1e6:.2f}M, critic {times}{counts.critic / 1e6:.2f}M "
        f"(between hidden layers, as the paper counts: {counts.critic_hidden / 1e6:.2f}M)"
    )


def _go(loop: Loop, until: int, recorder: Recorder) -> Summary | None:
    with recorder.display:
        if not train(loop, until, recorder):
            return None
    summary = recorder.finish()
    write_report([read_run(recorder.folder)], recorder.folder / "report")
    return summary
