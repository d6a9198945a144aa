"""The checkpoints of a run: when one is due, how many are kept, which one to load, and the replay they share.

The newest may be damaged by what stopped the run; then the one before it is loaded.

The replay is in files of consecutive steps, each written once. A checkpoint adds one file with the steps since the
last, and lists those it needs, which are not those whose steps the ring has overwritten. The newest step is in the
checkpoint itself: until the next one is taken it may still become the last of its episode
(`Replay.truncate_episode`).
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simbav2.checkpoint import checkpoint, files
from simbav2.checkpoint.checkpoint import Checkpoint, Segment, count
from simbav2.checkpoint.files import Arrays, Checksum, Spec, damage
from simbav2.config import Schedule
from simbav2.errors import CheckpointError, InputError
from simbav2.replay import Replay

log = logging.getLogger("simbav2")
Loaded = TypeVar("Loaded")


def checkpoints(run: Path) -> list[Path]:
    """Of a run folder, the newest first; not all need be whole."""
    return sorted((path for path in (run / "checkpoints").glob("[0-9]*") if path.is_dir()), reverse=True)


# Loading. -------------------------------------------------------------------------------------------------


def load(folder: Path) -> Checkpoint:
    """The agent saved in `folder`; of a run, its newest whole checkpoint."""
    if checkpoints(folder):
        return _newest(folder, checkpoint.load)[0]
    check_saved(folder)
    return checkpoint.load(folder)[0]


def check_saved(folder: Path) -> None:
    if not (folder / checkpoint.MANIFEST).exists() and not (folder / checkpoint.LEARNER).exists():
        raise InputError(f"{folder} holds no saved agent; expected a run or a folder written by `agent.save`")


def newest_whole(run: Path) -> Path:
    """The newest checkpoint whose files are what was written."""
    return _newest(run, lambda path: (checkpoint.verify(path), path))[1]


def load_run(run: Path) -> tuple[Checkpoint, tuple[Segment, ...]]:
    """All that the run needs to continue, from its newest whole checkpoint, and the files of its replay."""
    return _newest(run, lambda path: _load_run(path, run / "replay"))


def _newest(run: Path, read: Callable[[Path], Loaded]) -> Loaded:
    *newer, oldest = checkpoints(run)
    for path in newer:
        try:
            return read(path)
        except CheckpointError as error:
            log.warning("simbav2: %s; loading the checkpoint before it", error)
    return read(oldest)


def _load_run(folder: Path, replay_folder: Path) -> tuple[Checkpoint, tuple[Segment, ...]]:
    saved, state, manifest = checkpoint.load(folder, (*checkpoint.AGENT, checkpoint.NEWEST))
    for segment in manifest.replay:
        files.check(replay_folder / segment.name, segment.checksum)
    with damage(folder / checkpoint.STATE):
        if int(folder.name) != saved.env_steps:
            raise ValueError(f"its steps are {saved.env_steps:,}, the folder is of {int(folder.name):,}")
        # Checkpoints without the field are of runs that began with a new agent.
        added = count(state.get("replay_steps", saved.decisions // saved.config.num_envs))
        episodes = _snapshot(state["loop"], saved.config.num_envs, added)
    with damage(folder / checkpoint.CONFIG):
        replay = Replay.make(saved.config, saved.task)
    _restore(replay, added, manifest.replay, replay_folder, folder / checkpoint.NEWEST)
    return replace(saved, episodes=episodes, replay=replay), manifest.replay


def _snapshot(data: dict[str, Any], num_envs: int, added: int) -> dict[str, Any]:
    """What `Trainer.snapshot` gave, every entry checked."""
    for name in ("episodes", "totals", "lengths", "successes"):
        if len(data[name]) != num_envs:
            raise ValueError(f"{len(data[name])} {name} of {num_envs} environments")
    for name in ("episodes", "lengths"):
        data[name] = [count(value) for value in data[name]]
    if max(data["lengths"]) > added:
        raise ValueError("an episode is longer than the run")
    for name in ("dropped_steps", "cut_episodes"):  # not in checkpoints of earlier versions
        data[name] = count(data.get(name, 0))
    data["totals"] = [float(value) for value in data["totals"]]
    data["successes"] = [None if value is None else float(value) for value in data["successes"]]
    for total, decisions, success in data["ended"]:
        if type(total) is not float or type(decisions) is not int or not isinstance(success, float | None):
            raise ValueError("an episode that ended is not an episode")
    return data


def _restore(replay: Replay, added: int, segments: tuple[Segment, ...], folder: Path, newest: Path) -> None:
    """Fill an empty replay with the steps of `segments` and with the newest, which the file `newest` holds."""
    replay.added = added
    first = segments[0].first if segments else replay.sealed
    ends = [first, *(segment.last for segment in segments)]
    if first > replay.oldest or ends[-1] != replay.sealed or ends[:-1] != [segment.first for segment in segments]:
        raise CheckpointError(f"{newest.parent} is damaged: its replay files do not hold the steps it needs")
    for segment in segments:
        _read_rows(replay, segment.first, segment.last, folder / segment.name)
    head = Spec(replay.head.shape, np.float32)
    replay.head[:] = _read_rows(replay, replay.sealed, replay.added, newest, head=head)["head"]


def _read_rows(replay: Replay, first: int, last: int, path: Path, **more: Spec) -> Arrays:
    """Put the steps [first, last) of a file into `replay`; returns all of its arrays."""
    rows, size = (last - first) * replay.num_envs, replay.observation.shape[1]
    expected = {
        "observation": Spec((rows, size), np.float32),
        "action": Spec((rows, replay.action.shape[1]), np.float32),
        "reward": Spec((rows,), np.float32),
        "terminated": Spec((rows,), np.bool_),
        "ended": Spec((None,), np.int64),
        "final_observation": Spec((None, size), np.float32),
    }
    if "dropped" in files.array_names(path):
        expected["dropped"] = Spec((None,), np.int64)
    arrays = files.read_arrays(path, expected | more)
    with damage(path):
        replay.import_rows(first, arrays)
    return arrays


# Saving. --------------------------------------------------------------------------------------------------


class CheckpointRotation:
    """Saves a run's checkpoints, each once the one before it need not be relied on any more."""

    def __init__(self, run: Path, schedule: Schedule, segments: tuple[Segment, ...] = (), saved: int = 0) -> None:
        self.run = run
        self.schedule = schedule
        self._segments = segments
        self._saved = saved  # the step of the newest checkpoint; a run without one starts again, to the same bits
        self._at = time.monotonic()

    def due(self, before: int, now: int) -> bool:
        """Whether a checkpoint belongs between these steps, or the last is too long ago."""
        every, minutes = self.schedule.checkpoint_every, self.schedule.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self._at >= 60 * minutes
        return now // every > before // every or late

    def save(self, content: Checkpoint) -> Path | None:
        """Where the checkpoint is now; None where this step has one already."""
        if content.env_steps == self._saved:
            return None
        assert content.replay is not None
        folder = self.run / "checkpoints" / f"{content.env_steps:012}"
        segments = self._extend(content.replay)
        if folder.exists():  # left by a process that got further, then damaged
            shutil.rmtree(folder)
        checkpoint.save(content, folder, segments)
        self._segments, self._saved, self._at = segments, content.env_steps, time.monotonic()
        self._remove_old(folder)
        return folder

    def _extend(self, replay: Replay) -> tuple[Segment, ...]:
        """The segments without what the ring has overwritten, and with a new file of what they lack."""
        needed = [segment for segment in self._segments if segment.last > replay.oldest]
        new = Segment(needed[-1].last if needed else replay.oldest, replay.sealed, Checksum(0, ""))
        if new.first < new.last:
            path = self.run / "replay" / new.name
            path.parent.mkdir(exist_ok=True)
            rows = replay.export_rows(new.first, new.last)
            needed.append(new._replace(checksum=files.write_arrays(path, rows)))
        return tuple(needed)

    def _remove_old(self, newest: Path) -> None:
        """Remove what no kept checkpoint needs: older ones, those of an abandoned future, halves."""
        kept: list[Path] = []
        needed: set[str] = set()
        for path in checkpoints(self.run):
            if path <= newest and len(kept) < self.schedule.keep:
                try:
                    needed |= {segment.name for segment in checkpoint.read_manifest(path).replay}
                except CheckpointError:
                    continue
                kept.append(path)
        for path in set((self.run / "checkpoints").iterdir()) - set(kept):
            if not path.name.startswith("."):
                # Renamed first, so that no half of it is ever taken for a checkpoint.
                path = path.rename(path.with_name(f".{path.name}.gone"))
            shutil.rmtree(path)
        for path in (self.run / "replay").glob("*"):
            if path.name not in needed:
                path.unlink()
