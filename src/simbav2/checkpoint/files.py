"""Files that are written all or nothing, and never trusted when read.

Writing: under a temporary name, synced to the disk, then renamed (power may fail at any moment). Reading: sizes
are compared before anything is allocated, and every kind of damage is one `CheckpointError`.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open

from simbav2.errors import CheckpointError

PACKAGES = ("simbav2", "jax", "flax", "optax", "numpy", "gymnasium", "mujoco", "dm-control", "myosuite")
JSON_LIMIT = 16 << 20  # bytes; ten times what a run of a thousand checkpoints needs
_NAMES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint32": "U32", "bool": "BOOL"}

Arrays = dict[str, NDArray[Any]]


class Checksum(NamedTuple):
    """What a file must be to count as undamaged."""

    size: int
    sha256: str


class Spec(NamedTuple):
    """What an array in a file must be; None stands for any length."""

    shape: tuple[int | None, ...]
    dtype: DTypeLike

    @property
    def kind(self) -> str:
        return _NAMES[np.dtype(self.dtype).name]

    def fits(self, shape: list[int], kind: str) -> bool:
        alike = [own is None or own == other for own, other in zip(self.shape, shape, strict=False)]
        return kind == self.kind and len(shape) == len(self.shape) and all(alike)


def versions() -> dict[str, str]:
    """What a result was made with: physics differs between MuJoCo releases."""
    found = {}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


# Writing. -------------------------------------------------------------------------------------------------


def write(path: Path, parts: Iterable[bytes | memoryview]) -> Checksum:
    """`parts` one after the other, durable under its name or not there at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    digest, size = hashlib.sha256(), 0
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                size += len(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)  # a full disk does not say where it was met
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)
    return Checksum(size, digest.hexdigest())


def write_text(path: Path, text: str) -> Checksum:
    return write(path, [text.encode()])


def write_json(path: Path, data: Any) -> Checksum:
    return write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: Arrays) -> Checksum:
    """A safetensors file. Written here and not by its library, which needs a copy of all in memory, does not wait
    for the disk, and reports a full one without its error number."""
    header: dict[str, Any] = {}
    end = 0
    # Largest alignment first, as the format asks of writers.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        kind = Spec(array.shape, array.dtype).kind
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for _, array in ordered)
    return write(path, [len(text).to_bytes(8, "little"), text, *data])


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    windows = os.name == "nt"
    if windows and path.is_dir():
        return  # a folder cannot be opened there
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)  # only what may be written is synced there
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems do not sync folders
            raise
    finally:
        os.close(descriptor)


# Reading. -------------------------------------------------------------------------------------------------


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Whatever unfit data gives rise to in the block is a `CheckpointError` that names `path`."""
    try:
        yield
    except CheckpointError:
        raise
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except KeyError as error:
        raise CheckpointError(f"{path} is damaged: it lacks {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def length(path: Path) -> int:
    """The size of a plain file; a link could lead out of its folder, a pipe would never end."""
    with damage(path):
        status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} is not a plain file")
    return status.st_size


def check(path: Path, expected: Checksum) -> None:
    """Refuse a file that is not, to the bit, the one that `expected` was taken from."""
    size = length(path)
    if size != expected.size:
        raise CheckpointError(f"{path} is damaged: it has {size:,} bytes, expected {expected.size:,}")
    with damage(path), open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    if digest.hexdigest() != expected.sha256:
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not the one noted when it was written")


def read_json(path: Path) -> dict[str, Any]:
    if length(path) > JSON_LIMIT:
        raise CheckpointError(f"{path} has more than {JSON_LIMIT:,} bytes; not a simbav2 file")
    with damage(path):
        data = json.loads(path.read_bytes(), parse_constant=_finite, parse_float=_finite)
        if not isinstance(data, dict):
            raise ValueError("expected a JSON object")
    return data


def is_finished(run: Path, until: int) -> bool:
    """Whether a run got to `until` simulator steps and to its summary."""
    return (run / "summary.json").exists() and read_json(run / "summary.json").get("env_steps", 0) >= until


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


def read_arrays(path: Path, expected: Mapping[str, Spec]) -> Arrays:
    """The arrays of a safetensors file, which must be exactly the `expected` ones.

    The library compares the header with the file's size; names, types and shapes are compared here, before
    anything is allocated.
    """
    length(path)
    with damage(path), safe_open(path, framework="numpy") as file:
        for name in sorted(expected.keys() ^ set(file.keys())):
            raise ValueError(f"{name} is {'missing' if name in expected else 'unknown'}")
        for name, spec in expected.items():
            part = file.get_slice(name)
            if not spec.fits(part.get_shape(), part.get_dtype()):
                expected_kind = f"{spec.kind}{list(spec.shape)}"
                raise ValueError(f"{name} is {part.get_dtype()}{part.get_shape()}, expected {expected_kind}")
        return {name: file.get_tensor(name) for name in expected}


def array_names(path: Path) -> list[str]:
    length(path)
    with damage(path), safe_open(path, framework="numpy") as file:
        return list(file.keys())


def specs(arrays: Mapping[str, Any]) -> dict[str, Spec]:
    """What a file must hold to take the place of `arrays`, which need only have a shape and a type."""
    return {name: Spec(tuple(array.shape), array.dtype) for name, array in arrays.items()}


def _lines(path: Path) -> list[str]:
    """A last line without its newline is still being written and is left out."""
    with damage(path):
        text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()


def read_table(path: Path) -> dict[str, NDArray[np.float64]]:
    """The columns of a CSV file of numbers such as `evaluations.csv`; an empty cell is NaN."""
    header, *rows = list(csv.reader(_lines(path))) or [[]]
    numbers = np.empty((len(rows), len(header)))
    with damage(path):
        if not header:
            raise ValueError("it is empty, expected a header line")
        for line, row in enumerate(rows, start=2):
            if len(row) != len(header):
                raise ValueError(f"line {line} has {len(row)} cells, expected {len(header)}")
            try:
                numbers[line - 2] = [float(cell) if cell else np.nan for cell in row]
            except ValueError as error:
                raise ValueError(f"line {line}: {error}") from error
    return dict(zip(header, numbers.T, strict=True))


def read_lines(path: Path) -> Iterator[Any]:
    """What the lines of a file of one JSON value per line hold, such as `metrics.jsonl`; NaN is allowed."""
    for number, line in enumerate(_lines(path), start=1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: line {number}: {error}") from error
