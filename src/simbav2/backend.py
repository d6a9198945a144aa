"""How XLA is set up before it starts. Import this before the first JAX computation; a user's own settings win.

Flags are read once, when JAX first touches a device: a program that has computed with JAX before it imports
`simbav2` goes on with its own, and is merely slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from simbav2 import download
from simbav2.xla_flags import merged

# One pass over memory writes both moments of Adam, instead of one pass each (docs/performance.md).
_FLAGS = ("--xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true",)

_jax_config: Any = jax.config
wait: Callable[[Any], Any] = jax.block_until_ready


def cache_folder() -> Path:
    """Where compiled programs are kept from run to run."""
    return download.cache_folder("compiled")


def compiled_folder() -> str | None:
    """The folder that JAX keeps compiled programs in at present."""
    folder: str | None = _jax_config.jax_compilation_cache_dir
    return folder


def keep_compiled(folder: str | None) -> None:
    _jax_config.update("jax_compilation_cache_dir", folder)


os.environ["XLA_FLAGS"] = merged(os.environ.get("XLA_FLAGS", ""), _FLAGS)
if compiled_folder() is None:  # JAX_COMPILATION_CACHE_DIR would be there already
    keep_compiled(str(cache_folder()))
