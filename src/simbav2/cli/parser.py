"""How commands are added, read and answered.

`--section.field VALUE` is read by `config.override`, the same function that serves Python, so that both give the
same one-line errors; a parser library would only stand between.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from simbav2 import __version__
from simbav2.errors import InputError

Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, and with settings where a command asks for them."""

    takes_settings = False
    everything = ""  # the epilog of `--help-all`

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.takes_settings:
            return super().parse_known_args(args, namespace)
        words, settings = self._take_settings(args)
        options, unknown = super().parse_known_args(words, namespace)
        options.settings = settings
        return options, unknown

    def _take_settings(self, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Take `--name value` and `--name=value` out of the words, all but the command's own options."""
        rest: list[str] = []
        settings: dict[str, str] = {}
        queue = iter(words)
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


class HelpAll(argparse.Action):
    """`--help` with every setting."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **more)

    def __call__(self, parser: Any, *_: Any) -> None:
        parser.epilog = parser.everything
        parser.print_help()
        parser.exit()


class AddCommand(Protocol):
    """Adds a command by its name, what runs it, and what it is about."""

    def __call__(self, name: str, run: Run, about: str, **more: Any) -> Parser: ...


def parse(words: Sequence[str], commands: Iterable[Callable[[AddCommand], None]]) -> argparse.Namespace:
    top = Parser(
        prog="simbav2", description="SimbaV2: soft actor-critic on the unit hypersphere.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"simbav2 {__version__}")
    top.set_defaults(run=lambda options: _print_help(top))
    parsers = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, run: Run, about: str, **more: Any) -> Parser:
        added: Parser = parsers.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **more,
        )
        added.set_defaults(run=run)
        return added

    for add in commands:
        add(command)
    return top.parse_args(words)


def _print_help(parser: Parser) -> int:
    parser.print_help()
    return 0


def print_json(data: Any) -> int:
    print(json.dumps(data, indent=2))
    return 0
