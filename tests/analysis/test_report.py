from __future__ import annotations

import csv
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from simbav2.analysis.report import write_report
from simbav2.analysis.runs import read_run
from simbav2.errors import InputError

HOSTILE = "--><script>alert('x')</script>$\\frac{</text>|**\x00\ud800\n\"../../etc"


class Page(HTMLParser):
    """The tags, the addresses and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.text += data


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture
def report(make_run, tmp_path):
    evaluations = {10_000: [700.0, 900.0], 20_000: [900.0, 950.0]}
    folders = [
        make_run(evaluations),
        make_run({10_000: [100.0, 300.0], 20_000: [400.0, 450.0]}, seed=1),
        make_run({10_000: [-3.0, 5.0]}, name="other", task="Odd/Env_v1", finished=False),
    ]
    return write_report(map(read_run, folders), tmp_path / "out")


def test_all_files_are_written(report):
    assert report.name == "index.html"
    assert {path.name for path in report.parent.iterdir()} == {
        "index.html",
        "report.md",
        "results.csv",
        *(f"curve-{task}.{kind}" for task in ("dmc-walker-walk", "Odd-Env_v1") for kind in ("png", "svg")),
    }
    for figure in report.parent.glob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert figure.stat().st_size > 10_000
    for figure in report.parent.glob("*.svg"):
        assert ElementTree.parse(figure).getroot().tag.endswith("svg")
    svg = read(report.parent / "curve-dmc-walker-walk.svg")
    for words in (
        "simulator steps",
        "return, 2 evaluation episodes",
        "SimbaV2 paper, 1M steps: 976",
        "quick (2 seeds)",
    ):
        assert words in svg


def test_the_numbers_are_right(report):
    markdown = read(report.parent / "report.md")
    # 925 is the mean of 900 and 950, of 1000 possible.
    run = "| dmc/walker-walk | quick | 0 | finished | 20,000 "
    assert run + "| 925.0 | 0.925 | 976 (974 to 978) | 81.2 | 8 min 12 s |" in markdown
    assert "| Odd/Env\\_v1 | quick | 0 | unfinished | 10,000 | 1.0 | – | – | 81.2 | – |" in markdown
    # 925 and 425, over the two seeds.
    assert "quick: return 675.0 after 20,000 simulator steps, mean of 2 seeds (425.0 to 925.0)." in markdown
    assert "unfinished: 10,000 of 20,000 simulator steps so far" in markdown
    page = Page(read(report))
    for cell in (
        "925.0",
        "976 (974 to 978)",
        "8 min 12 s",
        "unfinished: 10,000 of 20,000 simulator steps so far",
    ):
        assert cell in page.text


def test_results_are_tidy(report):
    with (report.parent / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 5
    row = next(row for row in rows if row["task"] == "dmc/walker-walk" and row["seed"] == "1")
    del row["run"]
    assert row == {
        "task": "dmc/walker-walk",
        "preset": "quick",
        "seed": "1",
        "env_step": "10000",
        "return": "200.0",
        "success": "",
        "episodes": "2",
    }


def test_the_page_stands_alone(report):
    page = Page(read(report))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "@import" not in page.text
    inside = [address for address in page.addresses if address.startswith("#")]
    files = set(page.addresses) - set(inside)
    assert files == {path.name for path in report.parent.iterdir()} - {"index.html"}
    ids = [part.split('"')[0].split("'")[0] for part in read(report).replace("id='", 'id="').split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in inside} <= set(ids)


def test_the_command_tells_what_was_given(make_run, tmp_path):
    settings = {"critic.width": 64, "critic.architecture.head_bias": True, "discount": None}
    run = read_run(make_run({10_000: [1.0]}, seed=1, settings=settings, stop_after=10_000))
    command = (
        "simbav2 train dmc/walker-walk --preset quick --seed 1 --critic.width 64"
        " --critic.architecture.head-bias true --discount none --stop-after 10000"
    )
    assert command in Page(read(write_report([run], tmp_path / "out"))).text


def test_a_run_stopped_early_is_said(make_run, tmp_path):
    run = read_run(make_run({10_000: [1.0]}))
    page = Page(read(write_report([run], tmp_path / "out")))
    assert "stopped early, at 10,000 of 20,000 simulator steps" in page.text


def test_a_run_without_evaluations_is_shown_as_such(make_run, tmp_path):
    written = write_report([read_run(make_run({}, finished=False))], tmp_path / "out")
    assert "quick: not evaluated yet." in Page(read(written)).text
    assert "return, not evaluated yet" in read(written.parent / "curve-dmc-walker-walk.svg")


def test_the_same_seed_twice_is_doubted(make_run, tmp_path):
    runs = [read_run(make_run({20_000: [1.0]}, name=name)) for name in "ab"]
    assert "they are not independent" in read(write_report(runs, tmp_path / "out"))


def test_hostile_names_do_no_harm(make_run, tmp_path):
    names = {"task": HOSTILE, "preset": HOSTILE, HOSTILE: HOSTILE}
    runs = [
        read_run(make_run({1: [float("nan")], 2: [float("inf")]}, name="a", **names)),
        read_run(make_run({1: [1.0]}, name="b", **{**names, HOSTILE: "_日本"})),
    ]
    written = write_report(runs, tmp_path / "deep" / "out", problems=[HOSTILE])
    assert {path.parent for path in (tmp_path / "deep").rglob("curve-*")} == {written.parent}
    page = Page(read(written))
    assert "script" not in page.tags
    assert "alert('x')" in page.text
    assert "<script>" not in read(written).lower()
    assert "\x00" not in read(written)
    assert "<script" not in read(written.parent / "report.md").replace("\\<", "")
    (figure,) = written.parent.glob("*.svg")
    assert not [node for node in ElementTree.parse(figure).iter() if node.tag.endswith("script")]


def test_tasks_with_names_alike_keep_their_own_figures(make_run, tmp_path):
    tasks = ("a/b", "a-b", "A/B", "///")
    runs = [read_run(make_run({1: [1.0]}, name=str(index), task=task)) for index, task in enumerate(tasks)]
    out = write_report(runs, tmp_path / "out").parent
    assert {path.stem for path in out.glob("*.png")} == {
        "curve-task",
        "curve-A-B",
        "curve-a-b-2",
        "curve-a-b-3",
    }


def test_bad_requests_are_refused(make_run, tmp_path):
    with pytest.raises(InputError, match="no runs were given"):
        write_report([], tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; expected a folder"):
        write_report([read_run(make_run({1: [1.0]}))], tmp_path / "file")


def test_importing_the_report_is_light():
    code = (
        "import sys; from simbav2.analysis import report;"
        "assert not {'jax', 'matplotlib'} & set(sys.modules), 'too heavy';"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
