"""Fixtures around synthetic run folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from synthetic import write_small_run


class MakeRun(Protocol):
    def __call__(self, evaluations: Mapping[int, Sequence[float]], **settings: Any) -> Path: ...


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A function that writes a run folder from {env_step: returns of the episodes} and returns its path."""
    return partial(write_small_run, tmp_path)
