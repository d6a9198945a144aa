"""How a download looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def download_bar() -> Iterator[Callable[[int, int | None], None]]:
    """On a terminal, a bar; called with the bytes so far and in all."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    console = Console(stderr=True)
    with Progress(
        "fetching", BarColumn(), DownloadColumn(), console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        download = bar.add_task("", total=None)
        yield lambda done, total: bar.update(download, completed=done, total=total)
