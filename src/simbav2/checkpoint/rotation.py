"""The checkpoints of a run: when one is due, how many are kept, and which one to load.

The newest may be damaged by what stopped the run; then the one before it is loaded.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from simbav2.checkpoint import checkpoint, replay_segments
from simbav2.checkpoint.checkpoint import Checkpoint
from simbav2.checkpoint.replay_segments import Segment
from simbav2.config import Schedule
from simbav2.errors import CheckpointError, InputError

log = logging.getLogger("simbav2")
Loaded = TypeVar("Loaded")


def checkpoints(run: Path) -> list[Path]:
    """Of a run folder, the newest first; not all need be whole."""
    return sorted((path for path in (run / "checkpoints").glob("[0-9]*") if path.is_dir()), reverse=True)


def load(folder: Path) -> Checkpoint:
    """The agent saved in `folder`; of a run, its newest whole checkpoint."""
    if checkpoints(folder):
        return _newest(folder, checkpoint.load)
    check_saved(folder)
    return checkpoint.load(folder)


def check_saved(folder: Path) -> None:
    if not (folder / checkpoint.MANIFEST).exists() and not (folder / checkpoint.LEARNER).exists():
        raise InputError(f"{folder} holds no saved agent; expected a run or a folder written by `agent.save`")


def load_run(run: Path) -> tuple[Checkpoint, tuple[Segment, ...]]:
    """All that the run needs to continue, from its newest whole checkpoint, and the files of its replay."""
    return _newest(run, lambda path: checkpoint.load_run(path, run / "replay"))


def newest_whole(run: Path) -> Path:
    """The newest checkpoint whose files are what was written."""

    def verified(path: Path) -> Path:
        checkpoint.verify(path)
        return path

    return _newest(run, verified)


def _newest(run: Path, read: Callable[[Path], Loaded]) -> Loaded:
    *newer, oldest = checkpoints(run)
    for path in newer:
        try:
            return read(path)
        except CheckpointError as error:
            log.warning("simbav2: %s; loading the checkpoint before it", error)
    return read(oldest)


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
        segments = replay_segments.extend(content.replay, self._segments, self.run / "replay")
        if folder.exists():  # left by a process that got further, then damaged
            shutil.rmtree(folder)
        checkpoint.save(content, folder, segments)
        self._segments, self._saved, self._at = segments, content.env_steps, time.monotonic()
        self._remove_old(folder)
        return folder

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
