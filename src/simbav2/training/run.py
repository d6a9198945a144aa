"""A run from its start, or from where it stopped, to its summary. The command line adds a report."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from simbav2.agent import Agent
from simbav2.checkpoint import checkpoint, lock, rotation
from simbav2.checkpoint.files import damage, is_finished, read_json, write_json
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.config import Config, other_schedule, override, to_json
from simbav2.diagnostics import parameter_counts
from simbav2.errors import CheckpointError, Failure, InputError, printable
from simbav2.runtime import stop_signals
from simbav2.training.callbacks import Callback
from simbav2.training.console import Display, Status
from simbav2.training.logger import FAILURE, RunLogger
from simbav2.training.trainer import Trainer

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
    _until(agent.config, stop_after)
    with exclusive(folder):
        if (folder / "config.json").exists():
            if not overwrite:
                raise InputError(
                    f"{folder} already holds a run; continue it with `simbav2 resume {folder}`, "
                    "start again with --overwrite, or choose another --out"
                )
            _clear(folder)
        return _start(agent, folder, stop_after, callbacks)


def resume(
    folder: Path,
    stop_after: int | None = None,
    env: Any = None,
    callbacks: Sequence[Callback] = (),
    workers: Mapping[str, Any] | None = None,
) -> Summary | None:
    """Continue the run in `folder`, however it stopped; to its own `stop_after` if that lies ahead.

    `env` is needed only where the saved task does not say how to make the environment; `workers` are settings
    (`env_workers` and so on) in the place of its own.
    """
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no run; expected a folder made by `simbav2 train`")
    with exclusive(folder):
        own = _stop_after(folder)
        if not rotation.checkpoints(folder):
            if (folder / "summary.json").exists():
                raise InputError(
                    f"{folder} has a result but no checkpoint to resume from; keep it, or start again with "
                    "`simbav2 train ... --overwrite`"
                )
            # Stopped before its first checkpoint: a new start leads to the same bits.
            config, task = checkpoint.read_description(folder / "config.json")
            agent = Agent.from_config(override(config, workers or {}), task, checkpoint.env_source(task, env))
            return _start(agent, folder, stop_after or own, callbacks)
        saved, segments = rotation.load_run(folder)
        agent = Agent.from_checkpoint(replace(saved, config=override(saved.config, workers or {})), env)
        if not agent.trainer.restore(saved):
            log.warning(
                "simbav2: %s cannot be put back into the middle of an episode: the resumed run starts new "
                "episodes, and its results differ from those of an uninterrupted run",
                printable(agent.config.task),
            )
        if stop_after is None and own is not None and own > agent.env_steps:
            stop_after = own
        until = _until(agent.config, stop_after)
        if agent.env_steps >= until and is_finished(folder, agent.env_steps):
            raise InputError(f"{folder} is complete at {agent.env_steps:,} steps; nothing is left to do")
        kept = CheckpointRotation(folder, agent.config.schedule, segments, saved=agent.env_steps)
        logger = _logger(agent, folder, until, callbacks, kept)
        logger.rewind()
        return _train(agent.trainer, until, logger)


def start_or_resume(
    agent: Agent, folder: Path, stop_after: int | None = None, callbacks: Sequence[Callback] = ()
) -> Summary | None:
    """Start the run, resume it, or return its result if it is complete: for jobs that may be killed and restarted.

    A run keeps the schedule of logs, evaluations and checkpoints that it was started with; the workers of its
    environments are those of `agent`.
    """
    if not (folder / "config.json").exists():
        return start(agent, folder, stop_after, callbacks=callbacks)
    config, _ = checkpoint.read_description(folder / "config.json")
    if config.essential() != agent.config.essential():
        raise InputError(f"{folder} holds a run with other settings; choose another --out or the same settings")
    if other := other_schedule(to_json(config.schedule), agent.config):
        log.warning("simbav2: %s keeps the schedule it was started with: %s", folder, other)
    until = _until(agent.config, stop_after)
    if (summary := _result(folder, until)) is not None:
        return summary
    agent.trainer.close_envs()
    return resume(folder, stop_after, agent.source, callbacks, agent.config.workers)


def finished(folder: Path, stop_after: int | None = None) -> Summary | None:
    """The result of the run in `folder` if `resume` would find nothing left to do."""
    if not (folder / "summary.json").exists():
        return None
    config, _ = checkpoint.read_description(folder / "config.json")
    own = _stop_after(folder)
    if stop_after is None and own is not None and not is_finished(folder, own):
        stop_after = own
    return _result(folder, _until(config, stop_after))


def _result(folder: Path, until: int) -> Summary | None:
    if not is_finished(folder, until):
        return None
    with damage(folder / "summary.json"):
        summary = read_json(folder / "summary.json")
        return {name: summary[name] for name in ("task", "final_return", "final_success", "env_steps")}


def _start(agent: Agent, folder: Path, stop_after: int | None, callbacks: Sequence[Callback]) -> Summary | None:
    until = _until(agent.config, stop_after)
    logger = _logger(agent, folder, until, callbacks, CheckpointRotation(folder, agent.config.schedule))
    agent.trainer.begin()
    # A new agent can be made again from its config. One that was loaded cannot: saved before the config is written
    # it is there whenever the folder can be resumed.
    logger.rotation.save(agent.trainer.checkpoint(episodes=True))
    logger.create(stop_after)
    return _train(agent.trainer, until, logger)


def _until(config: Config, stop_after: int | None) -> int:
    if stop_after is None:
        return config.env_steps
    if stop_after < 1:
        raise InputError(f"--stop-after is {stop_after}; expected at least 1")
    return min(stop_after, config.env_steps)


def _stop_after(folder: Path) -> int | None:
    """The `stop_after` that the run was started with."""
    found = read_json(folder / "config.json").get("stop_after")
    if found is not None and (type(found) is not int or found < 1):
        raise CheckpointError(f"{folder / 'config.json'} is damaged: stop_after is {found!r}")
    return found


def _logger(
    agent: Agent, folder: Path, until: int, callbacks: Sequence[Callback], kept: CheckpointRotation
) -> RunLogger:
    status = Status(printable(_title(agent.config)), _about(agent), agent.env_steps, until)
    return RunLogger(folder, agent.trainer, Display(status), kept, callbacks)


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


def _train(trainer: Trainer, until: int, logger: RunLogger) -> Summary | None:
    agent, evaluate_every = trainer.agent, trainer.config.schedule.evaluate_every
    (logger.folder / FAILURE).unlink(missing_ok=True)
    logger.call("on_start", logger.folder)
    try:
        with logger.display, stop_signals() as stop, trainer.make_evaluation_envs() as envs:
            if agent.env_steps == 0:
                logger.evaluation(trainer.evaluate(envs, evaluate_every))
            trainer.train(until, logger, evaluate_every, envs, stop)
            logger.checkpoint()
    except (Failure, OSError) as error:
        with suppress(OSError):  # the disk may be full
            write_json(logger.folder / FAILURE, {"error": str(error), "env_step": agent.env_steps})
        raise
    finally:
        logger.call("on_end")
    return logger.finish() if agent.env_steps >= until else None


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Nobody else works on the run; a full or read-only disk is one line of error."""
    try:
        if not (folder / "config.json").exists() and folder.exists() and any(map(_visible, folder.iterdir())):
            raise InputError(f"{folder} holds other files; choose another --out")
        with lock.hold(folder):
            yield
    except BrokenPipeError:
        raise  # nobody reads what is printed; the disk is fine
    except OSError as error:
        raise Failure(
            f"{error.filename or folder} cannot be written: {error.strerror or error}; the last whole checkpoint "
            f"is kept: fix that, then continue with `simbav2 resume {folder}`"
        ) from error


def _clear(folder: Path) -> None:
    """Remove a run, its result first and its config last: a kill in between leaves an unfinished run."""
    order = {"summary.json": -1, "config.json": 1}
    for path in sorted(folder.iterdir(), key=lambda path: order.get(path.name, 0)):
        if path.name != lock.NAME:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _visible(path: Path) -> bool:
    """Not the lock or the temporary file of a process that was killed."""
    return not path.name.startswith(".")
