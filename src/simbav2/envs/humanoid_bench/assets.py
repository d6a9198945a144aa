"""Where HumanoidBench's model files are, and how they get there. They are not ours to ship; their sums are.

`find` looks, `install` fetches. What lands on disk is decided by our own list of names and SHA-256 sums
(`SHA256SUMS` beside this file), never by an archive's: a name that climbs out of its folder has no effect,
and a model file of any other content is refused.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import importlib.util
import os
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from simbav2 import runtime
from simbav2.errors import InputError

# 791405f (May 2025) is the state our tasks were compared with.
UPSTREAM = "https://github.com/carlosferrazza/humanoid-bench/archive/791405f.zip"
VARIABLE = "SIMBAV2_HUMANOID_BENCH_ASSETS"
COMMAND = "simbav2 assets humanoid-bench"

INSIDE = "humanoid_bench/assets"  # where upstream's repository keeps the files
ANCHOR = "envs/h1_pos_walk.xml"  # the file a folder is recognised by
NOTICES = ("LICENSE", "h1/LICENSE")  # taken along where a source has them, unchecked: upstream edits its own
LARGEST_FILE = 16 << 20  # bytes read of one file; the largest mesh has 2.3 million
LARGEST_ARCHIVE = 2 << 30  # bytes; upstream's holds hands, kitchens and more, some 400 million
TIMEOUT = 30.0  # seconds without a byte

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known
Files = dict[str, Callable[[], IO[bytes]]]  # how to open each file a source has, by its name in SHA256SUMS


@functools.cache
def sums() -> dict[str, str]:
    """SHA-256 by file name, relative to the folder of the files."""
    lines = (Path(__file__).parent / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def cache_folder() -> Path:
    """Where `install` puts the files."""
    return runtime.cache_folder("humanoid-bench")


def find() -> Path:
    """The folder of the files: what the variable names, else our cache, else a package `humanoid_bench`."""
    if chosen := os.environ.get(VARIABLE):
        folder = _locate(Path(chosen).expanduser())
        if folder is None:
            raise InputError(f"{VARIABLE}={chosen} holds no HumanoidBench files ({ANCHOR}); mend or unset it")
        return folder
    for place in (cache_folder(), *_packages()):
        if folder := _locate(place):
            return folder
    raise InputError(f"the HumanoidBench model files are not on this machine; fetch them: {COMMAND}")


def differing(folder: Path) -> tuple[str, ...]:
    """The files of `folder` that are missing or not the benchmark's; empty when all is well."""

    def differs(name: str) -> bool:
        try:
            return hashlib.sha256((folder / name).read_bytes()).hexdigest() != sums()[name]
        except OSError:
            return True

    return tuple(filter(differs, sums()))


def verify() -> Path:
    """The folder that `find` finds, if all its files are the benchmark's."""
    folder = find()
    if names := differing(folder):
        count = f"{len(names)} of the {len(sums())} HumanoidBench files in {folder}"
        raise InputError(f"{count} are missing or altered, such as {names[0]}; fetch them anew: {COMMAND}")
    return folder


def install(source: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Fetch the files from a folder, a zip file or an address (upstream's by default); return their folder.

    All or nothing: every file is checked before one rename puts them in place.
    """
    target = cache_folder()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".installing-", dir=target.parent) as work:
            fresh = Path(work) / "fresh"
            origin = str(source or UPSTREAM)
            with _open_source(origin, Path(work), progress) as files:
                _copy_all(files, origin, fresh)
            _put_in_place(fresh, target, aside=Path(work) / "old")
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a folder you can write"
        raise InputError(f"cannot install into {target} ({error}); {advice}") from error
    return target


def _packages() -> list[Path]:
    """Where `humanoid_bench` is installed. It is not imported: that would bring torch and brax along."""
    try:
        spec = importlib.util.find_spec("humanoid_bench")
    except ValueError:  # a module of that name without a spec, made by hand
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _locate(folder: Path) -> Path | None:
    """The folder of the files in a folder that is, or holds, them, their package or its unpacked archive."""
    places = (folder, folder / "assets", folder / INSIDE, *folder.glob(f"*/{INSIDE}"))
    return next((place for place in places if (place / ANCHOR).is_file()), None)


@contextmanager
def _open_source(source: str, work: Path, progress: Progress | None) -> Iterator[Files]:
    """What a source holds, while it is open."""
    path = Path(source).expanduser()
    if source.startswith(("http://", "https://")):
        path = work / "archive.zip"
        _download(source, path, progress)
    if path.is_dir():
        folder = _locate(path) or path
        yield _files(f"{folder.as_posix()}/", os.path.isfile, _open_file)
    elif path.is_file():
        with _open_zip(path, source) as archive:
            names = set(archive.namelist())
            anchors = (name for name in names if f"/{name}".endswith(f"/{ANCHOR}"))
            prefix = min(anchors, key=len, default=ANCHOR).removesuffix(ANCHOR)
            yield _files(prefix, names.__contains__, archive.open)
    else:
        raise InputError(f"no source {source!r}; expected a folder, a zip file or an http(s) address")


def _open_file(path: str) -> IO[bytes]:
    return open(path, "rb")


def _open_zip(path: Path, source: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{source} is no zip file, or not a whole one ({error}); fetch it again") from error


def _files(prefix: str, has: Callable[[str], bool], read: Callable[[str], IO[bytes]]) -> Files:
    """The files we want and a source has. Its own licence may lie at the root of the repository."""
    paths = {name: prefix + name for name in (*sums(), *NOTICES)}
    if not has(paths["LICENSE"]):
        paths["LICENSE"] = prefix.removesuffix(f"{INSIDE}/") + "LICENSE"
    return {name: functools.partial(read, path) for name, path in paths.items() if has(path)}


def _download(url: str, to: Path, progress: Progress | None) -> None:
    advice = f"check the network, or pass a folder or zip file: {COMMAND} --from PATH"
    request = urllib.request.Request(url, headers={"User-Agent": "simbav2"})
    done = 0
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response, to.open("wb") as file:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while chunk := response.read(1 << 20):
                done += len(chunk)
                if done > LARGEST_ARCHIVE:
                    raise InputError(f"{url} sends more than {LARGEST_ARCHIVE:,} bytes; is it the right one?")
                file.write(chunk)
                if progress:
                    progress(done, total)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is a response, too
        reason = getattr(error, "reason", None) or error
        raise InputError(f"could not download {url} ({reason}); {advice}") from error
    if total is not None and done != total:
        raise InputError(f"the download of {url} broke off after {done:,} of {total:,} bytes; {advice}")


def _copy_all(files: Files, source: str, to: Path) -> None:
    """Write what `files` holds into the new folder `to`, every model file checked."""
    missing = [name for name in sums() if name not in files]
    if missing:
        lacks = f"lacks {len(missing)} of the {len(sums())} HumanoidBench files, such as {missing[0]}"
        raise InputError(f"{source} {lacks}; expected what {UPSTREAM} holds")
    for name, open_file in files.items():
        try:
            with open_file() as stream:
                content = stream.read(LARGEST_FILE)
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"cannot read {name} in {source} ({error}); fetch it again") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != sums().get(name, digest):
            found = f"SHA-256 {digest[:12]}..., expected {sums()[name][:12]}..."
            raise InputError(f"{name} in {source} is damaged or of another version ({found}); use {UPSTREAM}")
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _put_in_place(fresh: Path, target: Path, aside: Path) -> None:
    """Rename `fresh` to `target`. What was there steps aside, and back if the rename fails."""
    with suppress(FileNotFoundError):
        target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        if not differing(target):  # another process has just installed the same files
            return
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise
