"""The paper's numbers: they add up, and where they do not it is written down."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from simbav2.envs.tasks import SUITES
from simbav2.experiments.report import statistics
from simbav2.experiments.report.methods import read_curves
from simbav2.experiments.report.published import (
    ABLATIONS,
    FOLDER,
    aggregates,
    method_names,
    normalized_mean,
    offline_scores,
    published_score,
    successors,
    task_scores,
)
from simbav2.experiments.report.scores import suite_tasks

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
DOCUMENT = (ROOT / "docs" / "published-numbers.md").read_text(encoding="utf-8")


def test_published_values_are_found_by_task_id():
    assert published_score("dmc/cheetah-run")[:3] == (920, 918, 922)
    assert published_score("dmc/dog-run")[:3] == (562, 516, 608)
    in_percent_there = published_score("myosuite/myo-key-turn-hard")[:3]
    assert in_percent_there == pytest.approx((0.62, 0.427, 0.813))
    assert published_score("hbench/h1-walk")[:3] == (845, 840, 850)  # printed as h1-walk-v0
    assert published_score("Pendulum-v1") is None


@pytest.mark.parametrize(
    ("utd", "means"),
    [("2", (1.617, 0.874, 0.729, 0.847, 0.776, 0.892)), ("8", (1.598, 0.876, 0.769, 0.866, 0.822, 0.911))],
)
def test_values_task_by_task_give_the_means_of_table_1(utd, means):
    values = task_scores("utd", variant=utd)
    found = [normalized_mean(values, suite_tasks(suite)) for suite in (*SUITES, "all")]
    assert found == pytest.approx(means, abs=0.003)
    printed = aggregates("online", "low" if utd == "2" else "high")["SimbaV2"]
    assert [printed[suite].mean for suite in (*SUITES, "all")] == list(means)


def disagreements():
    """Printed means of a suite that differ from the mean of their task rows by more than 0.003."""
    tables = [("full", name, "") for name in method_names("full")]
    tables += [("utd", "SimbaV2", utd) for utd in "1248"] + [
        ("ablation_full", "SimbaV2", letter) for letter in ("", *ABLATIONS)
    ]
    for table, method, variant in tables:
        for suite, printed in aggregates(table, variant).get(method, {}).items():
            found = normalized_mean(task_scores(table, method, variant), suite_tasks(suite))
            if abs(found - printed.mean) > 0.003:
                yield table, method, variant, suite, found, printed


def test_every_mean_that_does_not_add_up_says_so():
    found = list(disagreements())
    assert len(found) == 8
    for *_, mean, printed in found:
        assert f"the mean of the task rows is {mean:.3f}" in printed.note


def doubts():
    """Every row with a note, as (where, value, note)."""
    names = ("table", "method", "variant", "task", "suite", "statistic", "dataset", "mean")
    for file in ("tasks.csv", "aggregates.csv", "offline.csv"):
        with (FOLDER / file).open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["note"]:
                    *where, value = (row[name] for name in row if name in names and row[name])
                    yield ", ".join(where), value, row["note"]


def test_every_doubt_is_documented():
    for where, value, note in doubts():
        if "median" not in where:
            assert f"| {where} | {value} | {note} |" in DOCUMENT, where
    assert all("runs and tasks exchanged" in note for where, _, note in doubts() if where.endswith("median"))
    assert re.search(r"\| 2 updates per decision, printed \| 1\.617 .* 0\.892 \|", DOCUMENT)


def test_every_successor_has_a_task_and_a_protocol():
    found = [(task, each) for task in suite_tasks("all") for each in successors(task, 1_000_000)]
    assert {each.method for _, each in found} == {"FlashSAC", "XQC", "DR.Q", "FoG", "MR.Q", "TD-MPC2", "PPO"}
    # The closed form of SimbaV2's rule, which XQC follows, with FlashSAC's own discounts beside it.
    for task, discounts in (("mujoco/Ant-v4", (0.99, 0.995)), ("myosuite/myo-reach", (0.95, 0.95))):
        known = {each.method: each.protocol.discount for each in successors(task, 1_000_000)}
        assert (known["FlashSAC"], known["XQC"]) == discounts
    assert successors("dmc/dog-run", 12_345) == successors("Pendulum-v1", 1_000_000) == ()


def test_offline_averages_add_up_or_say_so():
    for values in offline_scores().values():
        mean = np.mean([value.mean for name, value in values.items() if name != "average"])
        average = values["average"]
        assert len(values) == 10
        assert abs(mean - average.mean) <= 0.051 or f"{mean:.1f}" in average.note


@pytest.mark.skipif(not (SHARED / "published" / "curves").is_dir(), reason="the released curves are not here")
def test_the_released_curves_give_table_1():
    (method,) = read_curves(SHARED / "published" / "curves" / "simbaV2_utd2.csv")
    scores = method.scores(suite_tasks("all"))
    assert scores.shape == (10, 57)
    assert float(statistics.mean(scores)) == pytest.approx(0.892, abs=0.001)
    low, high = statistics.normal_interval(scores)
    assert (high - low) / 2 == pytest.approx(0.032, abs=0.001)
    dmc_hard = method.scores(suite_tasks("dmc-hard"))
    assert float(statistics.iqm(dmc_hard)) == pytest.approx(0.808, abs=0.002)  # as printed
