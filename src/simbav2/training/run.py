"""A run from its beginning, or from where it stopped, to its summary and report."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from simbav2.agent import Agent
from simbav2.checkpoint import checkpoint, lock, rotation
from simbav2.checkpoint.files import damage, read_json, summed_up
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.config import Config, other_schedule, to_json
from simbav2.diagnostics import parameter_counts
from simbav2.errors import CheckpointError, Failure, InputError, printable
from simbav2.experiments.report.report import write_report
from simbav2.experiments.report.runs import read_run
from simbav2.training.callbacks import Callback
from simbav2.training.console import Display, Status
from simbav2.training.logger import RunLogger
from simbav2.training.trainer import Loop, train

log = logging.getLogger("simbav2")
Summary = dict[str, Any]


def default_folder(config: Config) -> Path:
    """The same config always has the same folder."""
    return Path("runs") / config.name


def start(
    agent: Agent,
    folder: Path,
    stop_after: int | None = None,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Summary | None:
    """A new run; its summary, or None when it was asked to stop before its end."""
    _until(agent, stop_after)
    with _alone(folder):
        if (folder / "config.json").exists():
            if not overwrite:
                raise InputError(
                    f"{folder} already holds a run; go on with `simbav2 resume {folder}`, "
                    "start anew with --overwrite, or choose another --out"
                )
            _clear(folder)
        return _begin(agent, folder, stop_after, callbacks)


def resume(
    folder: Path, stop_after: int | None = None, env: Any = None, callbacks: Sequence[Callback] = ()
) -> Summary | None:
    """Go on where the run in `folder` stopped, however it stopped; to its own `stop_after` if that lies ahead.

    `env` is needed only where the saved task does not say how to make the environment.
    """
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no run; expected a folder made by `simbav2 train`")
    with _alone(folder):
        own = _stop_after(folder)
        if not rotation.checkpoints(folder):
            if (folder / "summary.json").exists():
                raise InputError(
                    f"{folder} has a result but no checkpoint to go on from; keep it as it is, or start anew with "
                    "`simbav2 train ... --overwrite`"
                )
            # Stopped before its first checkpoint: the beginning is as good, and leads to the same bits.
            config, task = checkpoint.read_description(folder / "config.json")
            agent = Agent.from_config(config, task, checkpoint.source(task, env))
            return _begin(agent, folder, stop_after or own, callbacks)
        agent, loop, replay = rotation.load_run(folder, env)
        if not loop.continued:
            log.warning(
                "simbav2: %s cannot be put back into the middle of an episode: the resumed run starts new "
                "episodes, and its results differ from those of an uninterrupted run",
                printable(agent.config.task),
            )
        if stop_after is None and own is not None and own > agent.env_steps:
            stop_after = own
        until = _until(agent, stop_after)
        if agent.env_steps >= until and summed_up(folder, agent.env_steps) and _page(folder).exists():
            raise InputError(f"{folder} is complete at {agent.env_steps:,} steps; nothing is left to do")
        kept = CheckpointRotation(folder, agent.config.schedule, replay, saved=agent.env_steps)
        recorder = _recorder(agent, folder, until, callbacks, kept)
        recorder.rewind()
        return _go(loop, until, recorder)


def start_or_resume(
    agent: Agent, folder: Path, stop_after: int | None = None, callbacks: Sequence[Callback] = ()
) -> Summary | None:
    """For jobs that are started again and again until they are done: whatever is left to do of this run.

    A run keeps the schedule of logs, evaluations and checkpoints that it was started with.
    """
    if not (folder / "config.json").exists():
        return start(agent, folder, stop_after, callbacks=callbacks)
    config, _ = checkpoint.read_description(folder / "config.json")
    if replace(config, schedule=agent.config.schedule) != agent.config:
        raise InputError(f"{folder} holds a run with other settings; choose another --out or the same settings")
    if other := other_schedule(to_json(config.schedule), agent.config):
        log.warning("simbav2: %s keeps the schedule it was started with: %s", folder, other)
    until = _until(agent, stop_after)
    if summed_up(folder, until):
        if not _page(folder).exists():
            with _alone(folder):
                _report(folder)
        with damage(folder / "summary.json"):
            summary = read_json(folder / "summary.json")
            return {name: summary[name] for name in ("task", "final_return", "final_success", "env_steps")}
    return resume(folder, stop_after, agent.source, callbacks)


def _begin(agent: Agent, folder: Path, stop_after: int | None, callbacks: Sequence[Callback]) -> Summary | None:
    until = _until(agent, stop_after)
    recorder = _recorder(agent, folder, until, callbacks, CheckpointRotation(folder, agent.config.schedule))
    loop = Loop(agent)
    # A new agent can be made again from its config. One that was loaded cannot: saved before the config is written
    # it is there whenever the folder can be resumed.
    recorder.history.save(agent, loop)
    recorder.create(stop_after)
    return _go(loop, until, recorder)


def _until(agent: Agent, stop_after: int | None) -> int:
    if stop_after is None:
        return agent.config.env_steps
    if stop_after < 1:
        raise InputError(f"--stop-after is {stop_after}; expected at least 1")
    return min(stop_after, agent.config.env_steps)


def _stop_after(folder: Path) -> int | None:
    """Where the run was told to end when it began."""
    found = read_json(folder / "config.json").get("stop_after")
    if found is not None and (type(found) is not int or found < 1):
        raise CheckpointError(f"{folder / 'config.json'} is damaged: stop_after is {found!r}")
    return found


def _recorder(
    agent: Agent, folder: Path, until: int, callbacks: Sequence[Callback], kept: CheckpointRotation
) -> RunLogger:
    status = Status(printable(_title(agent.config)), _about(agent), agent.env_steps, until)
    return RunLogger(folder, agent, Display(status), kept, callbacks)


def _title(config: Config) -> str:
    ablation = f" · ablation {config.ablation}" if config.ablation else ""
    return f"{config.task} · {config.preset}{ablation} · seed {config.seed}"


def _about(agent: Agent) -> str:
    """The sizes of the networks, so that runs can be compared with the paper's figures."""
    counts = parameter_counts(agent.config, agent.task.observation_size, agent.task.action_size)
    members = agent.config.critic.num_critics
    times = f"{members} x " if members != 1 else ""
    return (
        f"parameters: actor {counts.actor / 1e6:.2f}M, critic {times}{counts.critic / 1e6:.2f}M "
        f"(between hidden layers, as the paper counts: {counts.critic_hidden / 1e6:.2f}M)"
    )


def _go(loop: Loop, until: int, recorder: RunLogger) -> Summary | None:
    recorder.forget_failure()
    recorder.callbacks.on_start(recorder.agent, recorder.folder)
    try:
        with recorder.display:
            if not train(loop, until, recorder):
                return None
    except (Failure, OSError) as error:
        recorder.failure(error)
        raise
    finally:
        recorder.callbacks.on_end(recorder.agent)
    summary = recorder.finish(loop.dropped_steps)
    _report(recorder.folder)
    return summary


def _report(folder: Path) -> None:
    write_report([read_run(folder)], folder / "report")


def _page(folder: Path) -> Path:
    return folder / "report" / "index.html"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else works on the run; a disk that is full or may not be written to is told in one line."""
    try:
        if not (folder / "config.json").exists() and folder.exists() and any(map(_visible, folder.iterdir())):
            raise InputError(f"{folder} holds other files; choose another --out")
        with lock.hold(folder):
            yield
    except BrokenPipeError:
        raise  # nobody reads what is printed; the disk is well
    except OSError as error:
        raise Failure(
            f"{error.filename or folder} cannot be written: {error.strerror or error}; the last whole checkpoint "
            f"is kept: mend that, then go on with `simbav2 resume {folder}`"
        ) from error


def _clear(folder: Path) -> None:
    """Remove a run, its result first and its config last: a kill in between leaves a run still to be made."""
    order = {"summary.json": -1, "config.json": 1}
    for path in sorted(folder.iterdir(), key=lambda path: order.get(path.name, 0)):
        if path.name != lock.NAME:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _visible(path: Path) -> bool:
    """Not the lock or the temporary file of a process that was killed."""
    return not path.name.startswith(".")
