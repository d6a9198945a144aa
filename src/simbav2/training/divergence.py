"""Numbers that are no longer numbers: noticed, kept for a look, and the end of the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from simbav2.checkpoint import checkpoint
from simbav2.errors import Diverged

if TYPE_CHECKING:
    from simbav2.agent import Agent


def check(agent: Agent, metrics: dict[str, Any] | None, run: Path) -> None:
    """Stop a run with a non-finite loss or parameter; its state goes to `inspect/`, where no resume looks."""
    losses = {name: value for name, value in (metrics or {}).items() if name.endswith("loss")}
    for path, leaf in jax.tree_util.tree_flatten_with_path((losses, agent.state))[0]:
        array = np.asarray(leaf)
        if jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
            folder = run / "inspect" / f"{agent.env_steps:012}"
            shutil.rmtree(folder, ignore_errors=True)
            checkpoint.save(agent, folder)
            name = jax.tree_util.keystr(path[1:], simple=True, separator="/")
            raise Diverged(
                f"{agent.config.task}: {name} is not finite after {agent.env_steps:,} steps; saved for inspection "
                f"in {folder}. To resume would lead here again: start anew with a lower learning_rate.initial, "
                "with another seed, or after a look at the environment's rewards"
            )
