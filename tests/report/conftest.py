from __future__ import annotations

from functools import partial

import pytest
from synthetic import write_small_run


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run folder from {env_step: returns of the episodes} and returns its path."""
    return partial(write_small_run, tmp_path)
