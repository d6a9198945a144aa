"""A policy as one `.npz` file, run by `simbav2_policy.py`, which needs nothing but NumPy."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simbav2.export import simbav2_policy
from simbav2.export.program import Operation

SUFFIX = ".npz"
BESIDE = (Path(simbav2_policy.__file__),)


def encode(operations: Sequence[Operation], metadata: Mapping[str, Any]) -> bytes:
    """The bytes of the `.npz` file: the list of operations, their arrays, the metadata. No pickles."""
    arrays: dict[str, Any] = {
        f"{number}.{field}": np.asarray(value, np.float32)
        for number, operation in enumerate(operations)
        for field, value in operation._asdict().items()
    }
    program = [[type(operation).__name__, *operation._fields] for operation in operations]
    file = io.BytesIO()
    np.savez(file, program=json.dumps(program), metadata=json.dumps(metadata), **arrays)
    return file.getvalue()


def act(model: bytes, observations: NDArray) -> NDArray:
    return simbav2_policy.Policy(io.BytesIO(model))(observations)
