"""How commands are added and parsed, and how they print.

`--section.field VALUE` is read by `config.override`, which Python uses too, so that both give the same one-line
errors.
"""

from __future__ import annotations

import argparse
import json as json_text
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from simbav2 import __version__
from simbav2.errors import InputError

AddCommand = Callable[..., "Parser"]  # takes the name, the function that runs it, a line of help, json: bool


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, and with settings for the commands that take them."""

    takes_settings = False
    all_settings = ""  # the epilog of `--help-all`

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message.removeprefix('argument ').replace(': is ', ' is ')}; see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.takes_settings:
            return super().parse_known_args(args, namespace)
        if "--help-all" in args:
            self.epilog = self.all_settings
        argv, settings = self._take_settings(args)
        options, unknown = super().parse_known_args(argv, namespace)
        options.settings = settings
        return options, unknown

    def _take_settings(self, argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Split `--name value` and `--name=value` from the command's own options."""
        rest: list[str] = []
        settings: dict[str, str] = {}
        queue = iter(argv)
        for word in queue:
            option, equals, value = word.partition("=")
            if not word.startswith("--") or option in self._option_string_actions:
                rest.append(word)
                continue
            if not equals:
                value = next(queue, "")
                if not value or value.startswith("--"):
                    raise InputError(f"{option} has no value; expected {option} VALUE")
            settings[option[2:]] = value
        return rest, settings


def parse(argv: Sequence[str], commands: Iterable[Callable[[AddCommand], None]]) -> argparse.Namespace:
    about = "SimbaV2: soft actor-critic on the unit hypersphere."
    top = Parser(prog="simbav2", description=about, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"simbav2 {__version__}")
    parsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str, json: bool = False) -> Parser:
        added: Parser = parsers.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        if json:
            add_option(added, "--json", "print facts as JSON")
        return added

    for add in commands:
        add(command)
    return top.parse_args(argv or ["--help"])


def add_option(
    to: argparse._ActionsContainer,
    name: str,
    help: str,
    type: Any = None,
    default: Any = None,
    least: float | None = None,
    **more: Any,
) -> None:
    """Add `--name VALUE`, or the flag `--name`, to a parser or a group; the help ends with the default."""

    def at_least(text: str) -> Any:
        value = type(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"is {text}; expected at least {least}")
        return value

    option, _, value = name.partition(" ")
    if not value:
        to.add_argument(option, action="store_true", help=help)
        return
    text = help if default is None else f"{help} (default: {default})"
    to.add_argument(
        option, metavar=value, help=text, type=type if least is None else at_least, default=default, **more
    )


def print_json(data: Any) -> int:
    print(json_text.dumps(data, indent=2))
    return 0


def print_facts(options: argparse.Namespace, data: Any, *lines: str) -> int:
    """Print `data` with `--json`, else the lines."""
    if options.json:
        return print_json(data)
    print("\n".join(lines))
    return 0


@contextmanager
def download_bar() -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on a terminal; call it with the bytes so far and the bytes in all."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    console = Console(stderr=True)
    columns = ("fetching", BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        download = bar.add_task("", total=None)
        yield lambda done, total: bar.update(download, completed=done, total=total)
