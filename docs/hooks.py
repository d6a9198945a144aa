"""MkDocs hooks: what the site adds to the pages in this folder, which can be read in the repository as well.

The README is the first page. The help of all commands and the table of settings are pages made from the code.
A link to a file outside this folder leads to a page with that file. A link to code names a symbol
(`../src/simbav2/learner.py#update_target`); the site looks up its line.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import posixpath
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}  # files of the repository that are pages
_TARGET = re.compile(r'(?<=\]\()(?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?(?=\))|(?<=<img src=")(?!https?:)([^"]+)')
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".toml": "toml", ".cff": "yaml"}


class Link(NamedTuple):
    path: str  # of the file, from the root of the repository; where the link leads within its page, that page
    anchor: str | None


def links(markdown: str, page: str) -> Iterator[Link]:
    """Where the links and images of a page lead; `page` is its place in the repository."""
    for match in _TARGET.finditer(_FENCE.sub("", markdown)):
        yield _link(match, page)


def _link(match: re.Match[str], page: str) -> Link:
    place = match[1] or match[3]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), place)) if place else page
    return Link(path, match[2])


def line_of(source: str, symbol: str) -> int:
    """The line on which a file of Python defines `symbol`, such as `Learner.learn` or a constant."""
    body: list[ast.stmt] = ast.parse(source).body
    for name in symbol.split("."):
        node = next((node for node in body if name in _names(node)), None)
        if node is None:
            raise KeyError(symbol)
        body = getattr(node, "body", [])
    assert node is not None
    return node.lineno


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def commands() -> str:
    """The help of every command, as it is printed."""
    parts = ["# Commands", "As `simbav2 --help` and `simbav2 COMMAND --help` print them."]
    parts.append(f"```text\n{help_of()}\n```")
    names = re.findall(r"^    ([a-z-]+)", help_of(), re.MULTILINE)
    parts += [f"## {name}\n\n```text\n{help_of(name)}\n```" for name in names]
    return "\n\n".join(parts) + "\n"


def help_of(*words: str) -> str:
    """What a command prints about itself, on a terminal as wide as the site's code blocks."""
    from simbav2 import cli

    os.environ["COLUMNS"] = "92"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    return printed.getvalue().rstrip()


def settings() -> str:
    """Every setting with its default and help, every part that a setting may hold, every preset: from the code."""
    from simbav2.config import Config, presets

    parts = ["# Settings", _SETTINGS_INTRO]
    groups: dict[str, list[Any]] = {}
    choices: dict[tuple[str, ...], list[Any]] = {}  # settings that hold one of the same parts
    for each in _own(Config()):
        if each.parts:
            choices.setdefault(each.parts, []).append(each)
        else:
            groups.setdefault(each.name.rpartition(".")[0] or "run", []).append(each)
    for group, members in groups.items():
        parts += [f"## {group}", _table(Config(), members)]
    for members in choices.values():
        parts += _choice(Config(), members, "##")
    rows = [f"| `{name}` | {preset.about} |" for name, preset in presets.PRESETS.items()]
    parts += ["## Presets", _PRESETS_INTRO, "\n".join(["| preset | method |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


_SETTINGS_INTRO = """Made from the fields of the config. Every setting is an option of `simbav2 train`
(`--critic.width 128`), an argument in Python (`Agent(task, **{"critic.width": 128})`) and a key in a
[sweep plan](sweeps.md#plans). Dashes and underscores are the same. Defaults are those of the preset `simbav2`;
*none* is Python's `None`.

Some settings hold a part, such as `value` or `critic.architecture`: `--value Scalar` swaps it, and the part brings
settings of its own."""
_PRESETS_INTRO = """`--preset NAME` starts from one of these. [Methods](methods.md) explains them;
`simbav2 presets NAME` prints every setting in which one differs from `simbav2`."""


def _own(tree: Any, prefix: str = "") -> Iterator[Any]:
    """The settings of a tree without those of parts that could be exchanged for others."""
    from simbav2.config.tree import settings

    exchangeable: list[str] = []
    for each in settings(tree, prefix):
        if not each.name.startswith(tuple(exchangeable)):
            yield each
        if each.parts:
            exchangeable.append(f"{each.name}.")


def _choice(root: Any, members: list[Any], level: str) -> list[str]:
    """A heading for settings that hold one of the same parts, and what each part adds."""
    from simbav2.config.tree import lookup, override

    name, default = members[-1].name, members[-1].value
    text = [f"{level} {' and '.join(each.name for each in members)}"]
    nested: list[str] = []
    for part in members[-1].parts:
        changed = override(root, {name: part})
        value = lookup(changed, name)
        about = (type(value).__doc__ or "").split("\n\n")[0].replace("\n", " ")
        own = list(_own(value, f"{name}."))
        text.append(f"**`{part}`**{' (default)' if part == default else ''}: {about}")
        if own:
            text.append(_table(changed, own))
        for each in own:
            if each.parts:
                nested += _choice(changed, [each], level + "#")
    return text + nested


def _table(root: Any, members: list[Any]) -> str:
    """One row per setting."""
    from simbav2.config.tree import lookup

    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for each in members:
        owner, _, field = each.name.rpartition(".")
        hint = typing.get_type_hints(type(lookup(root, owner) if owner else root))[field]
        options = each.parts or (typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ())
        told = all(option in each.help for option in options)
        limits = str(each.bounds) if told else ", ".join(f"`{option}`" for option in options)
        meaning = (each.help + (f" ({limits})" if limits else "")).replace("|", "\\|")
        rows.append(f"| `{each.name}` | {_shown(each.value)} | {meaning} |")
    return "\n".join(rows)


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:,}" if type(value) is int else str(value)


# What MkDocs calls. ------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    made = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    made |= {"commands.md": commands(), "settings.md": settings()}
    pages = {source: made[page] for source, page in PAGES.items()}
    pages |= {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for page, markdown in pages.items():
        for link in links(markdown, page):
            if not link.path.startswith("docs/") and link.path not in PAGES:
                made[_code_page(link.path)] = _code(link.path)
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of the repository as links of the site."""
    uri = page.file.src_uri
    place = next((source for source, name in PAGES.items() if name == uri), f"docs/{uri}")
    fences = _FENCE.findall(markdown)
    pieces = [
        _TARGET.sub(lambda match: _on_site(_link(match, place), uri), text) for text in _FENCE.split(markdown)
    ]
    return "".join(text + fence for text, fence in zip(pieces, [*fences, ""], strict=True))


def _on_site(link: Link, uri: str) -> str:
    anchor = f"#{link.anchor}" if link.anchor else ""
    if link.path in PAGES:
        target = PAGES[link.path]
    elif link.path.startswith("docs/"):
        target = link.path.removeprefix("docs/")
    else:
        target = _code_page(link.path)
        if link.anchor:
            line = line_of((ROOT / link.path).read_text(encoding="utf-8"), link.anchor)
            anchor = f"#__codelineno-0-{line}"
    if target == uri and anchor:
        return anchor
    return posixpath.relpath(target, posixpath.dirname(uri) or ".") + anchor


def _code_page(path: str) -> str:
    return f"code/{path}.md"


def _code(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    language = _LANGUAGES.get(Path(path).suffix, "text")
    hidden = "---\nsearch:\n  exclude: true\n---\n\n"
    return f'{hidden}# {path}\n\n````{language} linenums="1"\n{text}\n````\n'
