"""What a checkpoint consists of: the sum of every file, and a sum of the list itself.

Written last, so that a folder with a manifest is whole, and one whose manifest verifies is what was written.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.checkpoint.files import Sum, check, damage, read_json, write_json
from simbav2.checkpoint.replay_segments import Segment
from simbav2.errors import CheckpointError

NAME = "manifest.json"
FORMAT = 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # no way out of the folder


class Manifest(NamedTuple):
    files: dict[str, Sum]  # in the checkpoint's folder
    replay: tuple[Segment, ...]  # in the run's


def write(folder: Path, manifest: Manifest) -> None:
    content: dict[str, Any] = {
        "format": FORMAT,
        "files": {name: entry._asdict() for name, entry in manifest.files.items()},
        "replay": [{"first": part.first, "last": part.last, **part.sum._asdict()} for part in manifest.replay],
    }
    write_json(folder / NAME, {**content, "sha256": _sha256(content)})


def read(folder: Path) -> Manifest:
    """The manifest alone; `verify` looks at the files."""
    path = folder / NAME
    content = read_json(path)
    with damage(path):
        if content.pop("sha256") != _sha256(content):
            raise ValueError("its own SHA-256 does not match")
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, this version reads {FORMAT}")
        files = {_plain(name): _sum(entry) for name, entry in dict(content["files"]).items()}
        replay = tuple(
            Segment(_count(part["first"]), _count(part["last"]), _sum(part)) for part in list(content["replay"])
        )
        if any(part.first >= part.last for part in replay):
            raise ValueError("a replay file without steps")
    return Manifest(files, replay)


def verify(folder: Path, needed: tuple[str, ...]) -> Manifest:
    """The manifest, once every file of the folder agrees with it."""
    manifest = read(folder)
    for name in needed:
        if name not in manifest.files:
            raise CheckpointError(f"{folder / NAME} is damaged: it lacks {name!r}")
    for name, entry in manifest.files.items():
        check(folder / name, entry)
    return manifest


def _sha256(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(name: Any) -> str:
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise ValueError(f"{name!r} is no plain file name")
    return name


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _sum(entry: Any) -> Sum:
    return Sum(_count(entry["size"]), str(entry["sha256"]))
