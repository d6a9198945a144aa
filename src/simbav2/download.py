"""D4RL's files: fetched into the cache, going on where a download broke off, and checked ever after."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from simbav2.datasets import catalog
from simbav2.datasets.catalog import Dataset
from simbav2.errors import InputError

TIMEOUT = 30.0  # seconds without a byte
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


def cached(dataset: Dataset) -> Path:
    """Its file in the cache, checked."""
    path = dataset.path
    if not path.is_file():
        raise InputError(
            f"{dataset.id} is not in {path.parent}; fetch it with `simbav2 offline {dataset.id} --download`, "
            f"or pass --data {dataset.file}"
        )
    if sha256(path) != dataset.sha256:
        raise InputError(
            f"{path} is damaged: its SHA-256 is not {dataset.sha256[:12]}...; remove it and fetch it again"
        )
    return path


def fetch(dataset: Dataset, progress: Progress | None = None) -> Path:
    """The file from the first mirror that answers, into the cache; nothing to do where it is there already."""
    path = dataset.path
    if path.is_file():
        return cached(dataset)
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in catalog.MIRRORS:
        host = urlsplit(mirror).hostname
        partial = path.with_name(f".{path.name}.{host}.part")
        try:
            _download(mirror + dataset.file, partial, progress)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is a response, too
            failures.append(f"{host}: {getattr(error, 'reason', None) or error}")
            continue
        if sha256(partial) == dataset.sha256:
            os.replace(partial, path)
            return path
        partial.unlink()
        failures.append(f"{host}: another file, its SHA-256 is not {dataset.sha256[:12]}...")
    raise InputError(
        f"{dataset.id} could not be downloaded ({'; '.join(failures)}); check the network and try again, which "
        f"goes on where it broke off, or get {dataset.file} elsewhere and pass --data FILE"
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(url: str, partial: Path, progress: Progress | None) -> None:
    """Append to `partial` what it lacks."""
    done = partial.stat().st_size if partial.is_file() else 0
    headers = {"User-Agent": "simbav2"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if not done or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        return  # all of it is there
    with response, partial.open("ab" if response.status == http.HTTPStatus.PARTIAL_CONTENT else "wb") as file:
        done = file.tell()
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        while block := response.read(1 << 20):
            file.write(block)
            done += len(block)
            if progress:
                progress(done, total)
    if total is not None and done != total:
        raise ConnectionError(f"broke off after {done:,} of {total:,} bytes")
