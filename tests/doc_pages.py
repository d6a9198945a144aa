"""Code blocks and commands in the README and the pages of docs/."""

import re
import shlex
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Placeholders, and values for them.
PLACEHOLDERS = {"TASK": "dmc/walker-walk", "PLAN": "smoke", "RUN": "run", "HEAD:6379": "head:6379"}
VARIABLES = {"$preset": "paper", "$seed": "0"}


class Command(NamedTuple):
    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


class Script(NamedTuple):
    """One block of shell code: its lines, each with the program first."""

    page: str
    number: int  # on its page
    lines: list[list[str]]

    def __str__(self) -> str:
        return f"{self.page}: block {self.number}"


def hooks():
    """The module docs/hooks.py."""
    spec = spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def every_block(page: Path) -> list[tuple[str, str]]:
    """Language and code of every block, in order."""
    return _BLOCK.findall(page.read_text())


def blocks(page: Path, *languages: str) -> list[str]:
    return [code for language, code in every_block(page) if language in languages]


def scripts() -> Iterator[Script]:
    """All blocks of shell code, with placeholders filled in."""
    for page in PAGES:
        for number, block in enumerate(blocks(page, "bash")):
            lines = [[words[0].removeprefix(".venv/bin/"), *map(_filled, words[1:])] for words in _lines(block)]
            yield Script(page.name, number, lines)


def commands(program: str) -> Iterator[Command]:
    """All commands of `program` in blocks of shell code."""
    for script in scripts():
        for name, *words in script.lines:
            if name == program:
                yield Command(script.page, tuple(words))


def programs() -> set[str]:
    return {name for script in scripts() for name, *_ in script.lines}


def inline_commands() -> Iterator[Command]:
    """Commands `simbav2 ...` in the text."""
    for page in PAGES:
        text = _BLOCK.sub("", page.read_text())
        for found in re.findall(r"`simbav2 ([a-z][^`]*)`", text):
            yield Command(page.name, tuple(found.replace("\\|", "|").split()))


def _lines(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]  # a variable for one command
        if words and words[0] not in ("for", "done"):
            yield words


def _filled(word: str) -> str:
    for name, value in VARIABLES.items():
        word = word.replace(name, value)
    return PLACEHOLDERS.get(word, word)
