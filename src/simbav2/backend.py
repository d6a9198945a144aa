"""How XLA is set up before it starts. Import this before the first JAX computation; a user's own settings win.

Flags are read once, when JAX first touches a device: a program that has computed with JAX before it imports
`simbav2` keeps its own flags and is merely slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax

from simbav2.runtime import cache_folder, merge_xla_flags

# One pass over memory writes both moments of Adam, instead of one pass each (docs/performance.md).
_FLAGS = ("--xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true",)

_jax_config: Any = jax.config
wait: Callable[[Any], Any] = jax.block_until_ready


def compiled_folder() -> str | None:
    """The folder that JAX keeps compiled programs in at present."""
    folder: str | None = _jax_config.jax_compilation_cache_dir
    return folder


def keep_compiled(folder: str | None) -> None:
    _jax_config.update("jax_compilation_cache_dir", folder)


class CompileClock:
    """Seconds that this process has spent compiling, or reading what was compiled before."""

    seconds = 0.0

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.seconds += duration_secs


compile_clock = CompileClock()
jax.monitoring.register_event_duration_secs_listener(compile_clock)
os.environ["XLA_FLAGS"] = merge_xla_flags(os.environ.get("XLA_FLAGS", ""), _FLAGS)
if compiled_folder() is None:  # JAX_COMPILATION_CACHE_DIR would be there already
    keep_compiled(str(cache_folder("compiled")))
