"""Tables: what they show, what they highlight, and how they are written."""

from __future__ import annotations

import csv
import io
import math

from synthetic import write_run

from simbav2.envs.tasks import find, tasks
from simbav2.experiments.report import tables
from simbav2.experiments.report.methods import methods
from simbav2.experiments.report.paper_tables import all_tables
from simbav2.experiments.report.published import aggregates, task_scores
from simbav2.experiments.report.report import report
from simbav2.experiments.report.runs import read_runs
from simbav2.experiments.report.tables import BEST, GOOD, Cell, Row, Table, change_mark

HOSTILE = "=<script>$\\x{}|_~%"


def made(folder):
    return {table.name: table for table in all_tables(methods(read_runs([folder])[0]))}


def cells(table, label, group=None):
    (row,) = [row for row in table.rows if row.label == label and group in (None, row.group)]
    return dict(zip(table.headings[1:], row.cells, strict=True))


def test_changes_are_highlighted_as_in_the_paper():
    names = ("mild positive change", "positive change", "large positive change")
    names += ("mild negative change", "damaging change", "catastrophic change")
    for value, name in zip((1.02, 1.05, 1.10, 0.98, 0.95, 0.90), names, strict=True):
        assert change_mark(value, 1.0).name == name
    assert change_mark(1.019, 1.0) is change_mark(0.981, 1.0) is None
    # (a) to (m) of table 2 in the column of all tasks, as printed there.
    base = aggregates("ablation")["SimbaV2"]["all"].mean
    marks = [change_mark(aggregates("ablation", x)["SimbaV2"]["all"].mean, base) for x in "abcdefghijklm"]
    short = {None: "-", "mild negative change": "b", "damaging change": "w"}
    assert "".join(short[mark and mark.name] for mark in marks) == "ww--wbb-b----"


def test_table_1_has_our_row_beside_the_published(tmp_path):
    for task in tasks("mujoco"):
        for seed in range(2):
            write_run(tmp_path / f"{task.name}-{seed}", task, seed, evaluations=2, lines=5)
    write_run(tmp_path / "half", find("dmc/dog-run"), 0, evaluations=2, lines=5)
    table, low = made(tmp_path)["online"], "(a) Low UTD (≤ 2)"
    published = cells(table, "SimbaV2", low)["MuJoCo (5)"]
    assert (published.text, published.mark) == ("1.617 ± 0.103", BEST)
    assert cells(table, "TD7", low)["MuJoCo (5)"].mark == GOOD
    assert cells(table, "SAC", low)["MuJoCo (5)"].mark is None
    ours = cells(table, "paper")
    assert 0.5 < ours["MuJoCo (5)"].value < 1.2
    assert ours["DMC-Hard (7)"].text.endswith("(1 of 7)")
    assert ours["DMC-Hard (7)"].mark is None
    assert ours["All (57)"].text.endswith("(6 of 57)")
    assert ours["HBench (14)"].text == "–"


def test_captions_tell_what_an_update_costs(tmp_path):
    for task in ("dmc/dog-run", "mujoco/Hopper-v4"):
        write_run(tmp_path / "runs" / task, find(task), 0, evaluations=2, lines=5)
    page, _, _ = report([tmp_path / "runs"], tmp_path / "out")
    text = (page.parent / "report.md").read_text()
    dog, hopper = (run.compute for run in read_runs([tmp_path / "runs"])[0])
    # Two updates per decision; a decision is two simulator steps on dog-run, one on Hopper-v4.
    for compute, updates in ((dog, 1), (hopper, 2)):
        weights = (compute.actor_weights + compute.critic_weights) / 1e6
        counted = f"paper: {compute.update / 1e9:.3g} GFLOP per update, {weights:.3g}M weights"
        measured = f"updates per simulator step: {updates}, measured per second: 80.5, compiled in 12.5 s."
        assert f"{counted}, {measured}" in text
    low, high = sorted(each.update / 1e9 for each in (dog, hopper))
    assert f"paper: {low:.3g} to {high:.3g} GFLOP per update" in text  # the figure of compute has both


def test_an_ablation_is_compared_with_its_own_default(tmp_path):
    for seed in range(2):
        write_run(tmp_path / f"base-{seed}", find("dmc/dog-run"), seed, evaluations=2, lines=5)
        weaker = {"strength": 0.4, "ablation": "a"}
        write_run(tmp_path / f"a-{seed}", find("dmc/dog-run"), seed, evaluations=2, lines=5, **weaker)
    table = made(tmp_path)["ablation"]
    (ours,) = [row for row in table.rows if row.ours]
    assert ours.label.startswith("(a) L2 Normalize")
    assert ours.group == "Ours, against paper"
    assert ours.cells[2].mark.name == "catastrophic change"
    published = cells(table, "(a) L2 Normalize → No L2 Normalize")
    assert published["MuJoCo (5)"].mark.name == "catastrophic change"
    assert published["DMC-Hard (7)"].mark.name == "mild negative change"


def test_offline_runs_stand_in_the_offline_table(make_run, tmp_path):
    task = {"task": "mujoco/Hopper-v4", "preset": "offline"}
    # Scores of 97 and 99. The larger data set takes more updates: that makes no other method of it.
    for seed, total in enumerate((3136.662831, 3201.754277)):
        data = {"source": "d4rl/hopper-medium-v2", "transitions": 51_200, "sha256": "a"}
        make_run({20_000: [total]}, name=f"s{seed}", seed=seed, data=data, **task)
    data = {"source": "d4rl/hopper-medium-expert-v2", "transitions": 102_400, "sha256": "b"}
    make_run({40_000: [3234.3]}, name="me", data=data, env_steps=40_000, **task)
    # A run that went on to train online has no offline score.
    online = {"settings": {"then_online": 1_000}, "env_steps": 41_000}
    make_run({41_000: [1.0]}, name="on", data=data, **online, **task)
    table = made(tmp_path)["offline"]
    assert [row.label for row in table.rows if row.ours] == ["offline"]
    ours = cells(table, "offline")
    assert ours["hopper-medium"].text == "98.0 ± 1.4"
    assert ours["hopper-medium-expert"].text.startswith("100.0")
    assert ours["hopper-medium"].mark == GOOD  # the best is 98.1
    assert ours["average"].text == "–"
    assert cells(table, "SimbaV2+BC")["hopper-medium"].mark == BEST
    assert cells(table, "DQL")["walker2d-medium-replay"].mark == GOOD  # without a variance of its own


def test_tables_by_task_have_all_tasks_rates_and_aggregates(tmp_path):
    for utd in (1.0, 4.0):
        given = {"updates_per_decision": utd}
        write_run(tmp_path / f"utd-{utd}", find("dmc/dog-run"), 0, given=given, evaluations=2, lines=5)
    write_run(tmp_path / "run", find("myosuite/myo-reach"), 0, preset="simba", evaluations=2, lines=5)
    found = made(tmp_path)
    published = tuple(f"published, {utd} per decision" for utd in "1248")
    assert found["utd"].headings[1:] == (*published, "paper, 1 per decision", "paper, 4 per decision")
    at_eight = cells(found["utd"], "dmc/dog-run")["published, 8 per decision"].value
    assert at_eight == task_scores("utd", variant="8")["dmc/dog-run"].mean
    table = found["full-myosuite"]
    assert [row.label for row in table.rows][-3:] == ["IQM", "Median", "Mean"]
    assert len(table.rows) == 13
    assert cells(table, "myosuite/myo-key-turn-hard")["SimbaV2"].text == "62.0 [42.7, 81.3]"
    assert cells(table, "Mean")["SimbaV2"].text == "0.847 [0.782, 0.906]"
    assert cells(table, "Mean")["simba"].text.endswith("(1 of 10)")


TABLE = Table(
    name="odd",
    title="Odd & ends",
    caption="100 % of it.",
    headings=("method", HOSTILE, "plain"),
    rows=(
        Row(HOSTILE, (Cell("1.0 ± 0.1", 1.0, 0.9, 1.1, BEST, "a_note"), Cell()), group="first", ours=True),
        Row("other", (Cell("0.5", 0.5, mark=GOOD), Cell("2", 2.0))),
    ),
)


def test_names_are_escaped_and_highlights_shown_in_every_format():
    text = tables.markdown(TABLE)
    assert "| **=\\<script\\>$\\\\x{}\\|\\_\\~%** (ours) | **1.0 ± 0.1** (1) | – |" in text
    assert "| other | *0.5* | 2 |" in text
    assert "1. a\\_note" in text
    text = tables.latex(TABLE)
    assert r"=\textless{}script\textgreater{}\$\textbackslash{}x\{\}\textbar{}\_\textasciitilde{}\%" in text
    assert r"\cellcolor{green!35} 1.0 $\pm$ 0.1$^{1}$" in text
    assert r"\textbf{Odd \& ends.} 100 \% of it." in text
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    rows = list(csv.DictReader(io.StringIO(tables.tidy(TABLE))))
    assert len(rows) == 3  # the empty cell is left out
    expected = {"row": f"'{HOSTILE}", "value": "1", "low": "0.9", "high": "1.1", "highlight": "highest"}
    assert {name: rows[0][name] for name in expected} == expected  # no spreadsheet takes the name for a formula
    assert (rows[1]["low"], rows[1]["ours"]) == ("", "0")
    assert tables.interval(0.5, math.nan, math.nan) == "0.500"
    assert tables.plus_minus(1234.5, 2.0, 1) == "1,234.5 ± 2.0"


def test_methods_published_since_stand_beside_runs_of_the_same_budget(tmp_path):
    small, short, half = {"evaluations": 2, "lines": 5}, {"env_steps": 30_000}, {"env_steps": 500_000}
    for seed in range(2):
        write_run(tmp_path / f"million-{seed}", find("dmc/dog-run"), seed, **small)
    write_run(tmp_path / "short", find("dmc/dog-walk"), 0, given=short, **small)
    write_run(tmp_path / "half", find("myosuite/myo-reach"), 0, given=half, **small)
    table = made(tmp_path)["successors"]
    dog, reach = "dmc/dog-run, 1,000,000 simulator steps", "myosuite/myo-reach, 500,000 simulator steps"
    assert table.groups == (dog, reach)
    ours = cells(table, "paper", dog)
    assert [ours[name].text for name in ("seeds", "action repeat", "updates per simulator step")] == [
        "2",
        "2",
        "1",
    ]
    flash = cells(table, "FlashSAC", dog)
    assert (flash["batch size"].text, flash["seeds"].text) == ("512", "5")
    assert flash["protocol differs in"].text == (
        "action repeat 1 (ours 2); batch size 512 (ours 256); evaluation episodes 50 (ours 10)"
    )
    assert cells(table, "XQC", dog)["protocol differs in"].text == "nothing"
    unknown = cells(table, "MR.Q", dog)
    assert unknown["discount"].text == "not stated"
    assert unknown["protocol differs in"].text.startswith("not stated: action repeat, discount")
    assert 0 < cells(table, "FlashSAC", reach)["return or success"].value <= 1  # success, not the return
    assert not [row for row in table.rows if "mean" in row.label.lower()]  # nothing is averaged over tasks
