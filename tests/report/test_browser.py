"""The page in a real browser: it sorts, toggles, shows runs, complains about nothing and fetches nothing."""

from __future__ import annotations

import json

import pytest
from browser import chromium, find_chromium
from synthetic import write_benchmark, write_run

from simbav2.envs.tasks import find
from simbav2.experiments.report.report import report

pytestmark = [pytest.mark.full, pytest.mark.skipif(find_chromium() is None, reason="no Chromium here")]
HOSTILE = "<script>document.title = 'harmed'</script>"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for task, strength in (("dog-run", 0.3), ("walker-walk", 0.9), ("fish-swim", 0.6)):
        write_run(folder / "runs" / task, find(f"dmc/{task}"), 0, strength=strength, evaluations=5, lines=10)
    odd, versions = folder / "runs" / "odd", {"mujoco": "3.6.0", "name": HOSTILE}
    given = {"critic.width": 64}
    write_run(odd, find("dmc/dog-run"), 0, given=given, evaluations=5, lines=10, versions=versions)
    (odd / "summary.json").unlink()
    (odd / "failure.json").write_text(json.dumps({"error": HOSTILE, "env_step": 7}))
    warning = {"env_step": 3, "name": "dead-units", "text": HOSTILE, "remedy": "reset"}
    (odd / "warnings.jsonl").write_text(json.dumps(warning) + "\n")
    return report([folder / "runs"], folder / "out")[0]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser, written):
    browser.complaints.clear()
    browser.open(written)
    yield browser
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.requests == [written.resolve().as_uri()]
    assert browser.evaluate("document.title") == "SimbaV2 results"


def cells(page, column):
    rows = f"[...document.querySelectorAll('#runs-table tbody tr')].map(row => row.cells[{column}])"
    return page.evaluate(f"{rows}.map(cell => [cell.dataset.value ?? '', cell.textContent])")


def test_a_table_is_sorted_by_a_press(page):
    heads = page.evaluate("[...document.querySelectorAll('#runs-table thead th')].map(head => head.textContent)")
    column = heads.index("final return")
    press = f"document.querySelectorAll('#runs-table thead button')[{column}].click()"
    before = cells(page, 0)
    page.evaluate(press)
    falling = [float(value) for value, _ in cells(page, column)]
    assert falling == sorted(falling, reverse=True)
    assert cells(page, 0)[0][1] == "dmc/walker-walk"
    page.evaluate(press)
    assert [float(value) for value, _ in cells(page, column)] == sorted(falling)
    assert sorted(cells(page, 0)) == sorted(before)


def test_curves_are_toggled_by_their_name_and_show_values_under_the_pointer(page):
    parts = "document.querySelectorAll('#curve-figures g[id*=\"-series-1-\"]')"
    drawn = f"[...{parts}].map(g => getComputedStyle(g).display)"
    press = "document.querySelectorAll('#legend button')[1].click()"
    assert set(page.evaluate(drawn)) == {"inline"}
    page.evaluate(press)
    assert set(page.evaluate(drawn)) == {"none"}
    assert page.evaluate("document.querySelectorAll('#legend button')[1].getAttribute('aria-pressed')") == "false"
    page.evaluate(press)
    assert set(page.evaluate(drawn)) == {"inline"}
    svg = "document.querySelector('#figure-curve-dmc-dog-run svg')"
    page.evaluate(f"{svg}.scrollIntoView({{block: 'center'}})")
    x, y, width, height = page.evaluate(f"(b => [b.x, b.y, b.width, b.height])({svg}.getBoundingClientRect())")
    page.move(x + 0.9 * width, y + 0.4 * height)
    tip = page.evaluate("document.querySelector('#figure-curve-dmc-dog-run .tip:not([hidden])').textContent")
    assert tip.startswith("step ")
    assert "paper" in tip


def test_runs_are_filtered_by_words(page):
    page.evaluate("document.getElementById('filter').value = 'failed dog'")
    page.evaluate("document.getElementById('filter').dispatchEvent(new Event('input'))")
    rows = "[...document.querySelectorAll('#runs-table tbody tr:not([hidden])')]"
    (shown,) = page.evaluate(f"{rows}.map(row => row.innerText)")
    assert "failed" in shown


def test_a_failed_run_tells_all_and_hostile_words_stay_words(page):
    index = page.evaluate("data.runs.findIndex(run => run.failure)")
    page.evaluate(f"(location.hash = '#run-{index}', new Promise(done => setTimeout(done, 200)))")
    text = page.evaluate("document.querySelector('#run[open]').innerText")
    assert f"Failed: {HOSTILE} (at simulator step 7)" in text
    assert f"dead-units {HOSTILE} (step 3). reset" in text
    assert "critic/encoder/feature_norm" in text
    assert "--critic.width 64" in text
    assert "mujoco 3.6.0" in text
    config = page.evaluate("document.querySelector('#run details pre').textContent")
    assert '"width": 64' in config
    page.evaluate("document.querySelector('#run .close').click()")
    assert page.evaluate("document.querySelector('#run').open") is False


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_wider_than_a_phone(page, written, dark):
    page.open(written, width=400, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(18, 21, 25)" if dark else "rgb(244, 245, 247)")


def test_the_whole_benchmark_is_reported_and_opens(browser, tmp_path):
    write_benchmark(tmp_path / "runs")  # 57 tasks, ten seeds
    page, problems, _ = report([tmp_path / "runs"], tmp_path / "out")
    assert problems == ()
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('#runs-table tbody tr').length") == 570
