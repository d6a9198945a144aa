from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from synthetic import write_small_run

from simbav2.errors import InputError
from simbav2.experiments.report.report import report as report_of
from simbav2.experiments.report.report import watch, write_report
from simbav2.experiments.report.runs import command, read_run

HOSTILE = "--><script>alert('x')</script>$\\frac{</text>|**\x00\ud800\n\"../../etc"


class Page(HTMLParser):
    """The tags, the addresses, the text and the data of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.html = file.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(self.html)
        self.data = json.loads(self.html.split('id="data">')[1].split("</script>")[0])

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.text += data


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """One report, only looked at by the tests that share it."""
    folder = tmp_path_factory.mktemp("shared")
    make_run = partial(write_small_run, folder)
    evaluations = {10_000: [700.0, 900.0], 20_000: [900.0, 950.0]}
    folders = [
        make_run(evaluations),
        make_run({10_000: [100.0, 300.0], 20_000: [400.0, 450.0]}, seed=1),
        make_run({10_000: [-3.0, 5.0]}, name="other", task="Odd/Env_v1", finished=False),
    ]
    return write_report(map(read_run, folders), folder / "out")


def test_all_files_are_written(report):
    assert report.name == "index.html"
    names = {path.relative_to(report.parent).as_posix() for path in report.parent.rglob("*") if path.is_file()}
    figures = ("curve-dmc-walker-walk", "curve-Odd-Env_v1", "profile", "summary")
    tables = ("summary", "online", "full-dmc-easy")
    assert names == {
        *("index.html", "report.md", "results.csv", "curves.csv"),
        *(f"figures/{name}.{kind}" for name in figures for kind in ("png", "svg")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("md", "tex", "csv")),
    }
    for figure in report.parent.rglob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert figure.stat().st_size > 10_000
    for figure in report.parent.rglob("*.svg"):
        assert ElementTree.parse(figure).getroot().tag.endswith("svg")
    svg = read(report.parent / "figures" / "curve-dmc-walker-walk.svg")
    for words in ("simulator steps", "return", "SimbaV2 paper, 1M steps: 976", "quick (2 seeds)"):
        assert words in svg


def test_the_numbers_are_right(report):
    markdown = read(report.parent / "report.md")
    # 925 is the mean of 900 and 950, of 1000 possible.
    run = "| **dmc/walker-walk** (ours) | quick | 0 | finished | – | 20,000 "
    assert run + "| 925.0 | – | 0.925 | 976 \\[974, 978\\] | 81.2 | 8 min 12 s |" in markdown
    other = "| **Odd/Env\\_v1** (ours) | quick | 0 | unfinished | – | 10,000 | 1.0 | – | – | – | 81.2 | – |"
    assert other in markdown
    # 925 and 425, over the two seeds.
    assert "| **quick** (ours) | 1 | 2 | 0.675 \\[0.425, 0.925\\] " in markdown
    assert "unfinished: 10,000 of 20,000 simulator steps so far" in markdown
    page = Page(report)
    for cell in ("925.0", "976 [974, 978]", "8 min 12 s"):
        assert cell in page.text
    assert page.data["runs"][0]["caveats"] == []
    with (report.parent / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 5
    row = next(row for row in rows if row["task"] == "dmc/walker-walk" and row["seed"] == "1")
    expected = {"method": "quick", "preset": "quick", "env_step": "10000", "return": "200.0", "episodes": "2"}
    assert {name: row[name] for name in expected} == expected


def test_the_values_of_curves_come_with_their_place_in_the_figure(report):
    data = Page(report).data
    (panel,) = data["panels"]["curve-dmc-walker-walk"]
    assert panel["place"]["last_step"] == 20_000
    assert 0 < panel["place"]["left"] < panel["place"]["left"] + panel["place"]["width"] < 1
    (series,) = panel["series"]
    assert data["grids"][series["x"]] == [10_000, 20_000]
    assert (series["y"], series["low"], series["high"]) == ([500, 675], [200, 425], [800, 925])
    assert panel["published"]["mean"] == 976
    svg = read(report.parent / "figures" / "curve-dmc-walker-walk.svg")
    for part in ("mean", "band", "seed-0", "seed-1"):  # what a press on the name hides
        assert f'id="panel-0-series-0-{part}"' in svg


def test_the_tasks_of_a_suite_share_a_figure_and_others_have_their_own(make_run, tmp_path):
    tasks = ("dmc/walker-walk", "dmc/walker-run", "mujoco/Ant-v4", "a/b", "a-b", "A/B", "///")
    runs = [read_run(make_run({1: [1.0]}, name=str(index), task=task)) for index, task in enumerate(tasks)]
    page = write_report(runs, tmp_path / "out")
    panels = {name: len(each) for name, each in Page(page).data["panels"].items()}
    alike = ("curve-task", "curve-A-B", "curve-a-b-2", "curve-a-b-3")
    assert panels == {"curves-dmc-easy": 3, "curve-mujoco-Ant-v4": 1, **dict.fromkeys(alike, 1)}
    assert "mean of 2 tasks" in read(page.parent / "figures" / "curves-dmc-easy.svg")


def test_steps_on_recorded_data_are_called_updates(make_run, tmp_path):
    data = {"source": "d4rl/hopper-medium-v2", "transitions": 51_200, "sha256": "a"}
    offline = {"task": "mujoco/Hopper-v4", "preset": "offline", "data": data}
    folders = (
        make_run({10_000: [1.0]}, name="learns", finished=False, **offline),
        make_run({20_000: [1.0]}, name="goes-on", settings={"then_online": 1_000}, env_steps=21_000, **offline),
    )
    report = write_report(map(read_run, folders), tmp_path / "out")
    svg = read(report.parent / "figures" / "curve-d4rl-hopper-medium-v2.svg")
    assert "updates, then simulator steps" in svg
    learns, goes_on = Page(report).data["runs"]
    assert (learns["step_unit"], goes_on["step_unit"]) == ("updates", "updates, then simulator steps")
    assert learns["caveats"] == ["unfinished: 10,000 of 20,000 updates so far"]


def test_the_page_stands_alone(report):
    page = Page(report)
    assert not {"img", "iframe", "object", "embed"} & set(page.tags)
    assert "@import" not in page.text
    inside = [address for address in page.addresses if address.startswith("#")]
    files = set(page.addresses) - set(inside) - {"data:,"}
    assert files
    for file in files:
        assert (report.parent / file).is_file(), file
    runs = {f"run-{index}" for index in range(len(page.data["runs"]))}  # shown by the script
    assert {address[1:] for address in inside} <= set(page.ids) | runs
    assert len(page.ids) == len(set(page.ids))
    # No script but our own may run.
    (script,) = re.findall(r"<script>(.*?)</script>", read(report), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in read(report)


def test_the_command_tells_what_was_given(make_run):
    settings = {"critic.width": 64, "critic.architecture.head_bias": True, "discount": None}
    online = make_run({10_000: [1.0]}, seed=1, settings=settings, stop_after=10_000)
    assert command(read_run(online)) == (
        "simbav2 train dmc/walker-walk --preset quick --seed 1 --critic.width 64"
        " --critic.architecture.head-bias true --discount none --stop-after 10000"
    )
    data = {"source": "d4rl/hopper-medium-v2", "file": "/data/a b.hdf5", "transitions": 51_200}
    settings = {"data.passes": 50.0, "then_online": 1_000}
    offline = make_run({10_000: [1.0]}, preset="offline", data=data, settings=settings)
    assert command(read_run(offline)) == (
        "simbav2 offline d4rl/hopper-medium-v2 --data '/data/a b.hdf5' --task dmc/walker-walk --preset offline"
        " --seed 0 --data.passes 50.0 --then-online 1000"
    )


@pytest.mark.parametrize(
    ("evaluations", "options", "caveat"),
    [
        ({10_000: [1.0]}, {}, "stopped early, at 10,000 of 20,000 simulator steps"),
        ({}, {"finished": False}, "not evaluated yet"),
        ({1: [float("nan")]}, {}, "some returns are not finite numbers"),
        ({20_000: [1.0]}, {"seeds": (0, 0)}, "they are not independent"),
        ({20_000: [1.0]}, {"versions": {"simbav2": "0.2.0"}, "seeds": (0, 1)}, "simbav2 0.1.0 and 0.2.0"),
    ],
)
def test_caveats_are_said_at_the_run(make_run, tmp_path, evaluations, options, caveat):
    seeds = options.pop("seeds", (0,))
    versions = [options.pop("versions", None), None]
    runs = [
        read_run(make_run(evaluations, name=str(index), seed=seed, versions=versions[index], **options))
        for index, seed in enumerate(seeds)
    ]
    page = write_report(runs, tmp_path / "out")
    assert caveat in "; ".join(Page(page).data["runs"][0]["caveats"])
    assert caveat in read(page.parent / "report.md")


def test_hostile_names_do_no_harm(make_run, tmp_path):
    names = {"task": HOSTILE, "preset": HOSTILE, "settings": {HOSTILE: HOSTILE}}
    warning = {"env_step": 1, "name": HOSTILE, "text": HOSTILE, "remedy": HOSTILE}
    bad = {1: [float("nan")], 2: [float("inf")]}
    runs = [
        read_run(make_run(bad, name="a", summary={"warnings": [warning]}, **names)),
        read_run(make_run({1: [1.0]}, name="b", **{**names, "settings": {HOSTILE: "_日本"}})),
    ]
    written = write_report(runs, tmp_path / "deep" / "out", problems=[HOSTILE])
    assert {path.parent for path in (tmp_path / "deep").rglob("curve-*")} == {written.parent / "figures"}
    page = Page(written)
    assert page.tags.count("script") == 2  # the data and our own
    assert "alert('x')" in page.text
    assert "<script>alert" not in read(written).lower()
    assert "\x00" not in read(written)
    assert "<script" not in read(written.parent / "report.md").replace("\\<", "")
    for table in (written.parent / "tables").glob("*.tex"):
        assert "<script" not in read(table)
    for figure in (written.parent / "figures").glob("*.svg"):
        assert not [node for node in ElementTree.parse(figure).iter() if node.tag.endswith("script")]


def test_a_damaged_run_is_reported_and_the_others_are_shown(make_run, tmp_path):
    make_run({1: [1.0]}, name="good")
    bad = make_run({1: [1.0]}, name="bad", seed=1)
    (bad / "config.json").write_text("{")
    torn = make_run({1: [1.0]}, name="torn", seed=2)
    (torn / "metrics.jsonl").write_text("nonsense\n")
    page, problems, unfinished = report_of([tmp_path / "runs"], tmp_path / "out")
    assert len(problems) == 1
    assert not unfinished
    shown = Page(page)
    assert f"Could not be read: {bad / 'config.json'} is damaged" in shown.text
    assert len(shown.data["runs"]) == 2
    assert "metrics.jsonl is damaged: line 1" in shown.data["runs"][1]["caveats"][-1]
    with pytest.raises(InputError, match=r"config\.json is damaged"):  # nothing else to show
        report_of([bad], tmp_path / "out")


def test_curves_of_others_stand_beside_ours(make_run, tmp_path):
    make_run({20_000: [900.0]})
    (tmp_path / "simba.csv").write_text(
        "exp_name,env_name,seed,metric,env_step,value\nsimba,walker_walk,0,avg_return,20000,800\n"
    )
    page, _, _ = report_of([tmp_path / "runs"], tmp_path / "out", curves=[tmp_path / "simba.csv"])
    data = Page(page).data
    assert data["methods"] == ["quick", "simba"]
    (panel,) = data["panels"]["curve-dmc-walker-walk"]
    assert [series["y"] for series in panel["series"]] == [[900.0], [800.0]]
    assert "| quick | simba | 1 | 1.000 |" in read(page.parent / "report.md")
    assert "dmc/walker-walk,simba,simba,0,20000,800.0,,," in read(page.parent / "results.csv")
    # What is written is read again, also without a run.
    written = page.parent / "curves.csv"
    again, _, _ = report_of([written], tmp_path / "again")
    assert Page(again).data["methods"] == ["quick", "simba"]
    assert read(again.parent / "curves.csv") == read(written)


def test_watching_ends_with_the_last_run(make_run, tmp_path):
    folder = make_run({10_000: [1.0]}, finished=False)
    seen = []
    for page, _ in watch([tmp_path / "runs"], tmp_path / "out", seconds=1):
        seen.append('http-equiv="refresh"' in read(page))
        summary = {"env_steps": 20_000, "seconds": 1.0, "updates_per_second": 1.0}
        (folder / "summary.json").write_text(json.dumps(summary))
    assert seen == [True, False]


def test_a_video_becomes_part_of_the_page_unless_it_is_large(make_run, tmp_path, monkeypatch):
    folder = make_run({1: [1.0]})
    (folder / "small.mp4").write_bytes(b"video")
    (folder / "zlarge.mp4").write_bytes(b"a longer video")
    monkeypatch.setattr("simbav2.experiments.report.page.EMBEDDED", 5)
    page = write_report([read_run(folder)], tmp_path / "out")
    (small, large) = Page(page).data["runs"][0]["videos"]
    assert small == ["small.mp4", "data:video/mp4;base64,dmlkZW8="]
    assert (page.parent / large[1]).resolve() == folder / "zlarge.mp4"


def test_bad_requests_are_refused(make_run, tmp_path):
    with pytest.raises(InputError, match="no runs were given"):
        write_report([], tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; expected a folder"):
        write_report([read_run(make_run({1: [1.0]}))], tmp_path / "file")
