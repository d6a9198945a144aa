"""Finds and installs HumanoidBench's model files, which we may not ship.

Our own list of names and SHA-256 checksums (`SHA256SUMS` in this folder) decides what is written, not an archive:
a name with `..` in it has no effect, and a model file with any other content is refused.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from simbav2 import download, runtime
from simbav2.errors import InputError

# 791405f (May 2025) is the state our tasks were compared with.
UPSTREAM = "https://github.com/carlosferrazza/humanoid-bench/archive/791405f.zip"
VARIABLE = "SIMBAV2_HUMANOID_BENCH_ASSETS"
COMMAND = "simbav2 assets humanoid-bench"

INSIDE = "humanoid_bench/assets"  # where upstream's repository keeps the files
ANCHOR = "envs/h1_pos_walk.xml"  # the file a folder is recognised by
NOTICES = ("LICENSE", "h1/LICENSE")  # copied where a source has them, unchecked: upstream edits its own
LARGEST_FILE = 16 << 20  # bytes read of one file; the largest mesh has 2.3 million
LARGEST_ARCHIVE = 2 << 30  # bytes; upstream's holds hands, kitchens and more, some 400 million

Traversable = Path | zipfile.Path


@functools.cache
def checksums() -> dict[str, str]:
    """SHA-256 by file name, relative to the folder of the files."""
    lines = (Path(__file__).parent / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def cache_folder() -> Path:
    """Where `install` puts the files."""
    return runtime.cache_folder("humanoid-bench")


def find() -> Path:
    """The folder of the files: that of the variable, else our cache, else of a package `humanoid_bench`."""
    if chosen := os.environ.get(VARIABLE):
        folder = _locate(Path(chosen).expanduser())
        if folder is None:
            raise InputError(f"{VARIABLE}={chosen} holds no HumanoidBench files ({ANCHOR}); correct or unset it")
        return folder
    for place in (cache_folder(), *_packages()):
        if folder := _locate(place):
            return folder
    raise InputError(f"the HumanoidBench model files are not on this machine; fetch them: {COMMAND}")


def differing(folder: Path) -> tuple[str, ...]:
    """The files of `folder` that are missing or not the benchmark's."""

    def differs(name: str) -> bool:
        try:
            return hashlib.sha256((folder / name).read_bytes()).hexdigest() != checksums()[name]
        except OSError:
            return True

    return tuple(filter(differs, checksums()))


def verify() -> Path:
    """The folder that `find` finds; an InputError unless all its files are the benchmark's."""
    folder = find()
    if names := differing(folder):
        count = f"{len(names)} of the {len(checksums())} HumanoidBench files in {folder}"
        raise InputError(f"{count} are missing or altered, such as {names[0]}; fetch them again: {COMMAND}")
    return folder


def install(source: str | Path | None = None, progress: download.Progress | None = None) -> Path:
    """Copy the files from a folder, a zip file or an address (upstream's by default); returns their folder.

    All or nothing: every file is checked before one rename installs them.
    """
    target = cache_folder()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".installing-", dir=target.parent) as work:
            fresh = Path(work) / "fresh"
            origin = str(source or UPSTREAM)
            with _open_source(origin, Path(work), progress) as folder:
                _copy_all(folder, origin, fresh)
            _replace_folder(fresh, target, old=Path(work) / "old")
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a writable folder"
        raise InputError(f"cannot install into {target} ({error}); {advice}") from error
    return target


def _packages() -> list[Path]:
    """Where `humanoid_bench` is installed. It is not imported: that would import torch and brax."""
    try:
        spec = importlib.util.find_spec("humanoid_bench")
    except ValueError:  # an imported module of that name without a spec
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _locate(folder: Path) -> Path | None:
    """The folder of the files in a folder that is, or holds, them, their package or its unpacked archive."""
    places = (folder, folder / "assets", folder / INSIDE, *folder.glob(f"*/{INSIDE}"))
    return next((place for place in places if (place / ANCHOR).is_file()), None)


@contextmanager
def _open_source(source: str, work: Path, progress: download.Progress | None) -> Iterator[Traversable]:
    """The folder of the files in a source, while it is open."""
    path = Path(source).expanduser()
    if source.startswith(("http://", "https://")):
        otherwise = f"pass a folder or zip file: {COMMAND} --from PATH"
        path = download.fetch(
            work / "archive.zip", [source], source, otherwise, largest=LARGEST_ARCHIVE, progress=progress
        )
    if path.is_dir():
        yield _locate(path) or path
    elif path.is_file():
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise InputError(f"{source} is not a complete zip file ({error}); fetch it again") from error
        with archive:
            anchors = (name for name in archive.namelist() if f"/{name}".endswith(f"/{ANCHOR}"))
            yield zipfile.Path(archive, min(anchors, key=len, default=ANCHOR).removesuffix(ANCHOR))
    else:
        raise InputError(f"no source {source!r}; expected a folder, a zip file or an http(s) address")


def _copy_all(folder: Traversable, source: str, to: Path) -> None:
    """Write the files of `folder` into the new folder `to`, every model file checked."""
    missing = [name for name in checksums() if not (folder / name).is_file()]
    if missing:
        lacks = f"lacks {len(missing)} of the {len(checksums())} HumanoidBench files, such as {missing[0]}"
        raise InputError(f"{source} {lacks}; expected what {UPSTREAM} holds")
    files = {name: folder / name for name in (*NOTICES, *checksums())}
    if not files["LICENSE"].is_file() and Path(str(folder)).as_posix().endswith(f"/{INSIDE}"):
        files["LICENSE"] = cast(Path, folder).parent.parent / "LICENSE"  # at the root of the repository
    for name, file in files.items():
        if name in NOTICES and not file.is_file():
            continue
        try:
            with file.open("rb") as stream:
                content = stream.read(LARGEST_FILE)
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"cannot read {name} in {source} ({error}); fetch it again") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != checksums().get(name, digest):
            found = f"SHA-256 {digest[:12]}..., expected {checksums()[name][:12]}..."
            raise InputError(f"{name} in {source} is damaged or of another version ({found}); use {UPSTREAM}")
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _replace_folder(fresh: Path, target: Path, old: Path) -> None:
    """Rename `fresh` to `target`. The folder that was there moves to `old`, and back if the rename fails."""
    with suppress(FileNotFoundError):
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if not differing(target):  # another process has just installed the same files
            return
        if old.exists() and not target.exists():
            old.rename(target)
        raise
