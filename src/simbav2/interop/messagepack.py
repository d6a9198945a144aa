"""Flax's MessagePack files, read as plain data: nested mappings and lists of numbers, texts and arrays.

The library that wrote them could read them too, but trusts them; here an array must be what its header says, and
nothing in a file can name a type of its own choice.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from simbav2.checkpoint.files import damage, length
from simbav2.errors import CheckpointError

LIMIT = 4 << 30  # bytes
_ARRAY, _SCALAR = 1, 3  # Flax's codes
_KINDS = {np.dtype(kind).name: np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, np.uint32)}


def read(path: Path) -> dict[str, Any]:
    if length(path) > LIMIT:
        raise CheckpointError(f"{path} has more than {LIMIT:,} bytes; that is no checkpoint of this agent")
    with damage(path):
        data = msgpack.unpackb(path.read_bytes(), ext_hook=_extension, strict_map_key=True)
        if not isinstance(data, dict):
            raise ValueError("expected a mapping")
    return data


def _extension(code: int, data: bytes) -> NDArray[Any]:
    if code not in (_ARRAY, _SCALAR):
        raise ValueError(f"it holds data of the unknown kind {code}")
    shape, kind, buffer = msgpack.unpackb(data)
    if kind not in _KINDS:
        raise ValueError(f"it holds an array of {kind!r}")
    dtype = _KINDS[kind]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"it holds an array of shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(buffer):
        raise ValueError(f"an array of {kind}{shape} has {len(buffer):,} bytes")
    return np.frombuffer(buffer, dtype).reshape(shape)
