"""Every code block, command and link in the README and docs, and the site.

Python code runs unchanged except for long training. Commands are parsed by the program itself, down to presets,
settings, tasks, data sets and plans; tests/test_docs_commands.py runs them with small networks.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
from doc_pages import PAGES, ROOT, blocks, commands, every_block, hooks, inline_commands

from simbav2 import cli
from simbav2.cli.parser import parse
from simbav2.config import leaves, override, presets
from simbav2.datasets import D4RL, hdf5
from simbav2.envs.tasks import find
from simbav2.experiments.sweep.plan import read_plan

# Pages with Python; that of the tutorial runs with its commands, in tests/test_docs_commands.py.
PYTHON = [page for page in PAGES if blocks(page, "python") and page.name != "tutorial.md"]
WIDTH = 92  # of code that the site shows without a second line


@pytest.mark.parametrize("command", list(commands("simbav2")), ids=str)
def test_commands_parse(command, monkeypatch):
    """Their presets, settings, tasks, data sets and plans must exist."""
    monkeypatch.chdir(ROOT)
    options = parse(command.words, [each.add for each in cli.COMMANDS])
    if options.command in ("train", "offline"):
        settings = {**options.settings, **({} if options.keep is None else {"schedule.keep": options.keep})}
        override(presets.preset(options.preset, options.ablation), settings)
    if options.command == "train":
        assert find(options.task) or gym.spec(options.task)
    if options.command == "offline" and options.dataset:
        assert options.dataset in D4RL or re.search(r"^minari/|\.hdf5$", options.dataset)
    if options.command == "sweep":
        read_plan(options.words[-1])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, with the data set that the pages use."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shapes = (21, 3), (20, 1), (20,)
    columns = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    if find_spec("h5py"):
        hdf5.write(tmp_path / "my-data.hdf5", "Pendulum-v1", [hdf5.Episode(*columns, terminated=False)] * 3)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_not_wider_than_the_page(page):
    wide = [line for _, code in every_block(page) for line in code.splitlines() if len(line) > WIDTH]
    assert not wide


def test_targets_of_make_and_python_files_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for command in commands("make") for word in command.words if re.fullmatch("[a-z-]+", word)}
    text = " ".join(page.read_text() for page in PAGES)
    assert named | set(re.findall(r"`make ([a-z-]+)", text)) <= targets
    for command in commands("python"):
        assert (ROOT / command.words[0]).is_file(), command


def test_extras_exist():
    text = " ".join(page.read_text() for page in PAGES)
    asked = {extra for found in re.findall(r"simbav2\[([a-z,]+)\]", text) for extra in found.split(",")}
    known = re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert asked
    assert asked <= set(known)


@cache
def help_of(command: str) -> str:
    return hooks().help_of(command)


@pytest.mark.parametrize("command", list(dict.fromkeys(inline_commands())), ids=str)
def test_commands_in_the_text_exist_with_their_options(command):
    name, *rest = command.words
    assert f"simbav2 {name}" in help_of(name)
    for option in re.findall(r"--[a-z][a-z0-9.-]*", " ".join(rest)):
        assert option in help_of(name), command


def full_but_readme(page):
    return pytest.param(page, id=page.name, marks=() if page.name == "README.md" else pytest.mark.full)


@pytest.mark.parametrize("page", map(full_but_readme, PYTHON))
def test_python_code_runs(page, here, monkeypatch):
    """The blocks of a page in one namespace; long training is shortened."""
    namespace = {"__name__": page.stem}
    monkeypatch.setattr(sys, "path", list(sys.path))
    for number, code in enumerate(blocks(page, "python")):
        code = re.sub(r"\.learn\(\d\d_000\)", ".learn(40)", code)
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
    sys.modules.pop("simbav2_policy", None)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")], ids=lambda page: page.name)
def test_python_for_other_packages_runs_where_they_are(page, here):
    for code in blocks(page, "py"):
        package = re.search(r"from (stable_baselines3)", code)[1]
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make test-interop` has it")
        exec(compile(code, page.name, "exec"), {"__name__": page.stem})


def test_the_notebook_runs_from_its_first_to_its_last_cell(here, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text())["cells"]
    namespace = {"__name__": "quickstart"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            code = "".join(cell["source"]).replace("STEPS = 6_000", "STEPS = 60")
            exec(compile(code, f"quickstart.ipynb, cell {number}", "exec"), namespace)
    assert namespace["curve"].steps[-6:] == [10, 20, 30, 40, 50, 60]


def test_plans_can_be_read(here):
    for page in PAGES:
        for code in blocks(page, "toml"):
            (here / "plan.toml").write_text(code)
            assert read_plan("plan.toml").runs


# Links and the site. -----------------------------------------------------------------------------------------


def slugs(page) -> set[str]:
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.M), re.M
    )
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """To a file; within a page to a heading; within code to a symbol."""
    site, place = hooks(), page.relative_to(ROOT).as_posix()
    for link in site.links(page.read_text(), place):
        target = ROOT / link.path
        made = {"docs/commands.md", "docs/settings.md", "docs/changelog.md"}
        assert link.path in made or target.is_file(), link
        if link.anchor and target.suffix == ".md":
            assert link.anchor in slugs(target), link
        elif link.anchor:
            assert site.line_of(target.read_text(), link.anchor), link


def test_implementation_details_are_numbered_and_each_has_its_code():
    text = (ROOT / "docs" / "implementation-details.md").read_text()
    items = re.split(r"^(\d+)\. ", text, flags=re.MULTILINE)[1:]
    assert [int(number) for number in items[::2]] == list(range(1, len(items) // 2 + 1))
    for item in items[1::2]:
        named = re.findall(r"\[`([\w.]+)`\]\(\.\./src/[\w/]+\.py#([\w.]+)\)", item)
        assert named, item
        assert all(shown == symbol for shown, symbol in named), item


def test_lines_of_symbols():
    source = "LIMIT = 1\nkind: int = 2\n\n\n@decorated\nclass A:\n    x: int\n\n    def f(self):\n        pass\n"
    found = [hooks().line_of(source, symbol) for symbol in ("LIMIT", "kind", "A", "A.x", "A.f")]
    assert found == [1, 2, 6, 7, 9]
    with pytest.raises(KeyError):
        hooks().line_of(source, "A.g")


def test_the_page_of_commands_has_all_of_them():
    page = hooks().commands()
    names = "train resume evaluate offline dataset sweep report export import-release push pull"
    for name in f"{names} tasks presets bench doctor assets".split():
        assert f"\n## {name}\n\n```text\nusage: simbav2 {name}" in page


def test_the_page_of_settings_has_every_setting_of_every_preset():
    page = hooks().settings()
    for name in presets.PRESETS:
        for setting in leaves(presets.preset(name)):
            shown = setting.replace("actor.architecture.", "critic.architecture.")
            assert f"| `{shown}` | " in page or re.search(f"^## (.* and )?{shown}( and .*)?$", page, re.M), setting
    assert "| `critic.width` | 512 | " in page
    assert "| `value.weight` | 1.0 | factor of the squared error (more than 0) |" in page


@pytest.mark.full
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="no mkdocs; pip install 'simbav2[docs]'")
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={tmp_path / 'site'}"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search("WARNING|ERROR", done.stderr)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        fetched = re.findall(
            r'<(?:script|img|iframe|source)[^>]* src="(?:https?:)?//|<link [^>]*"https?:', page.read_text()
        )
        assert not fetched, page
    details = (tmp_path / "site" / "implementation-details.html").read_text()
    line = hooks().line_of((ROOT / "src/simbav2/learner.py").read_text(), "Learner._update")
    assert f"code/src/simbav2/learner.py.html#__codelineno-0-{line}" in details
    learner = (tmp_path / "site" / "code" / "src" / "simbav2" / "learner.py.html").read_text()
    assert f'id="__codelineno-0-{line}"' in learner
