"""The one way to fetch a file from a server: resumed after a break, checked, complete or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from simbav2.errors import InputError

TIMEOUT = 30.0  # seconds without a byte
LARGEST = 4 << 30  # bytes
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


def fetch(
    path: Path,
    addresses: Iterable[str],
    what: str,
    otherwise: str,
    sha256: str | None = None,
    largest: int = LARGEST,
    progress: Progress | None = None,
) -> Path:
    """Download `path` from the first of `addresses` that has it, with the given SHA-256.

    A later call resumes a download that broke off. An error names `what` was wanted and what to do `otherwise`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for address in addresses:
        host = urlsplit(address).hostname
        partial = path.with_name(f".{path.name}.{host}.part")
        try:
            _download(address, partial, largest, progress)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is a response, too
            failures.append(f"{host}: {getattr(error, 'reason', None) or error}")
            continue
        if sha256 is None or file_sha256(partial) == sha256:
            os.replace(partial, path)
            return path
        partial.unlink()
        failures.append(f"{host}: another file, its SHA-256 is not {sha256[:12]}...")
    raise InputError(
        f"{what} could not be downloaded ({'; '.join(failures)}); check the network and try again, or {otherwise}"
    )


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(address: str, partial: Path, largest: int, progress: Progress | None) -> None:
    """Append to `partial` what it lacks."""
    done = partial.stat().st_size if partial.is_file() else 0
    headers = {"User-Agent": "simbav2"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if not done or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        return  # it is complete already
    with response, partial.open("ab" if response.status == http.HTTPStatus.PARTIAL_CONTENT else "wb") as file:
        done = file.tell()
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        while block := response.read(1 << 20):
            file.write(block)
            done += len(block)
            if done > largest:
                partial.unlink()
                raise ConnectionError(f"sends more than {largest:,} bytes")
            if progress:
                progress(done, total)
    if total is not None and done != total:
        raise ConnectionError(f"broke off after {done:,} of {total:,} bytes")
