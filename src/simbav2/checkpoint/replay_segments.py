"""The replay on disk: files of consecutive steps, each written once.

A checkpoint adds one file with the steps since the last, and lists those it needs, which are not those whose steps
the ring has overwritten. The newest step is in the checkpoint itself: until the next one is taken it may still
become the last of its episode (`Replay.truncate_episode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simbav2.checkpoint.files import Arrays, Checksum, Spec, array_names, damage, read_arrays, write_arrays
from simbav2.errors import CheckpointError
from simbav2.replay import Replay


class Segment(NamedTuple):
    """The steps [first, last)."""

    first: int
    last: int
    checksum: Checksum

    @property
    def name(self) -> str:
        return segment_name(self.first, self.last)


def segment_name(first: int, last: int) -> str:
    return f"{first:012}-{last:012}.safetensors"


def extend(replay: Replay, segments: Sequence[Segment], folder: Path) -> tuple[Segment, ...]:
    """`segments` without what the ring has overwritten, and with a new file of what they lack."""
    needed = [segment for segment in segments if segment.last > replay.oldest]
    first = needed[-1].last if needed else replay.oldest
    if first < replay.sealed:
        folder.mkdir(exist_ok=True)
        path = folder / segment_name(first, replay.sealed)
        needed.append(Segment(first, replay.sealed, write_arrays(path, replay.export_rows(first, replay.sealed))))
    return tuple(needed)


def restore(replay: Replay, added: int, segments: Sequence[Segment], folder: Path, newest: Path) -> None:
    """Fill an empty replay with the steps of `segments` and with the newest, which the file `newest` holds."""
    replay.added = added
    first = segments[0].first if segments else replay.sealed
    ends = [first, *(segment.last for segment in segments)]
    if first > replay.oldest or ends[-1] != replay.sealed or ends[:-1] != [segment.first for segment in segments]:
        raise CheckpointError(f"{newest.parent} is damaged: its replay files do not hold the steps it needs")
    for segment in segments:
        _read(replay, segment.first, segment.last, folder / segment.name)
    head = _read(replay, replay.sealed, replay.added, newest, head=Spec(replay.head.shape, np.float32))["head"]
    replay.head[:] = head


def write_newest(replay: Replay, path: Path) -> Checksum:
    """The newest step, and the observations that will be acted on next."""
    return write_arrays(path, {**replay.export_rows(replay.sealed, replay.added), "head": replay.head})


def _read(replay: Replay, first: int, last: int, path: Path, **more: Spec) -> Arrays:
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
    if "dropped" in array_names(path):
        expected["dropped"] = Spec((None,), np.int64)
    arrays = read_arrays(path, expected | more)
    with damage(path):
        replay.import_rows(first, arrays)
    return arrays
