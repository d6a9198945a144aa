"""The words of XLA_FLAGS; a user's own stay and win. Imports nothing: it serves where JAX is not wanted."""

from __future__ import annotations

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def merged(given: str, flags: tuple[str, ...]) -> str:
    """`given` (of XLA_FLAGS) and those of `flags` whose name it does not hold."""
    names = {flag.partition("=")[0] for flag in given.split()}
    return " ".join([*given.split(), *(flag for flag in flags if flag.partition("=")[0] not in names)])
