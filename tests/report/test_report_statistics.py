"""Statistics against cases worked by hand, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simbav2.experiments.report import statistics
from simbav2.experiments.report.statistics import Sample

NAN = math.nan
SCORES = np.array([[0.0, 1.0, 2.0], [0.4, 0.6, 4.0]])  # two runs of three tasks
HOLED = np.array([[1.0, 5.0], [3.0, NAN]])


@pytest.mark.parametrize(
    ("statistic", "scores", "expected"),
    [
        (statistics.mean, SCORES, 4 / 3),  # of the tasks' means 0.2, 0.8, 3
        (statistics.median, SCORES, 0.8),
        (statistics.iqm, SCORES, (0.4 + 0.6 + 1 + 2) / 4),  # a quarter of six, rounded down, is one at either end
        (statistics.optimality_gap, SCORES, 1 / 3),  # tasks miss 0.8, 0.2 and 0
        # A median is over tasks: transposed, the middle of the runs' means would be 5.5.
        (statistics.median, np.array([[0.0, 0.0, 15.0], [0.0, 3.0, 15.0]]), 1.5),
        # Holes weigh nothing.
        (statistics.mean, HOLED, 3.5),  # of 2 and 5
        (statistics.median, HOLED, 3.5),
        (statistics.iqm, HOLED, 3.0),  # of 1, 3, 5: a quarter of three is none
        (statistics.optimality_gap, np.array([[0.5, 1.0], [NAN, 0.0]]), 0.5),
        (statistics.iqm, np.random.default_rng(0).permutation(np.arange(400.0)).reshape(10, 40), 199.5),
    ],
)
def test_aggregates_worked_by_hand(statistic, scores, expected):
    assert statistic(scores) == pytest.approx(expected)


def test_a_profile_counts_runs_above_each_threshold():
    profile = statistics.performance_profile(SCORES, np.array([0.0, 0.5, 1.0, 4.0]))
    np.testing.assert_allclose(profile, [5 / 6, 4 / 6, 2 / 6, 0])
    holed = statistics.performance_profile(np.array([[1.0, NAN]]), np.array([0.5]))
    np.testing.assert_array_equal(holed, [1.0])


def test_probability_of_improvement_counts_pairs():
    # Task 1: 2 beats 1, ties 2; 3 beats both: 3.5 of 4. Task 2: 0 and 0 beat none: 0.
    ours, theirs = np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 5.0], [2.0, 5.0]])
    assert statistics.probability_of_improvement(ours, theirs) == pytest.approx((3.5 / 4 + 0) / 2)
    assert statistics.probability_of_improvement(theirs, ours) == pytest.approx(1 - 3.5 / 8)
    # P(X > Y) = Phi(d / sqrt 2) for unit normals a distance d apart; here d = 1.
    x, y = (np.random.default_rng(k).standard_normal((400, 20)) for k in (1, 2))
    expected = 0.5 * (1 + math.erf(1 / 2))
    assert statistics.probability_of_improvement(x + 1, y) == pytest.approx(expected, abs=0.01)


def test_runs_are_drawn_within_their_task():
    drawn = statistics.resample(np.arange(6.0).reshape(3, 2), 7, 500)
    assert drawn.shape == (500, 2, 2)  # one run less than there are
    assert set(drawn[..., 0].flat) == {0.0, 2.0, 4.0}
    assert set(drawn[..., 1].flat) == {1.0, 3.0, 5.0}
    # Tasks are drawn on their own: the runs of one row need not belong together.
    assert (drawn[..., 1] - drawn[..., 0] != 1).any()
    holed = statistics.resample(np.array([[NAN, 1.0], [7.0, 2.0], [NAN, 3.0]]), 7, 100)
    np.testing.assert_array_equal(np.isfinite(holed).sum(1), np.full((100, 2), [1, 2]))
    assert set(holed[np.isfinite(holed)]) == {7.0, 1.0, 2.0, 3.0}


def test_the_bootstrap_has_the_variance_of_its_closed_form():
    # The mean over T tasks of n runs has variance sum(s^2) / (n T^2), with the unbiased s^2.
    scores = np.random.default_rng(3).standard_normal((10, 57))
    means = statistics.mean(statistics.resample(scores, 7, 20_000))
    expected = scores.var(axis=0, ddof=1).sum() / (10 * 57**2)
    assert means.var() == pytest.approx(expected, rel=0.05)


def test_one_run_has_no_interval():
    assert all(map(math.isnan, statistics.bootstrap_interval(np.ones((1, 5)), statistics.mean)))
    assert all(map(math.isnan, statistics.normal_interval(np.ones((1, 1)))))
    assert all(map(math.isnan, statistics.bootstrap_improvement(np.ones((1, 5)), np.ones((3, 5)))))


@pytest.mark.parametrize("name", ["mean", pytest.param("IQM", marks=pytest.mark.full)])
def test_ninety_five_percent_means_about_that(name):
    """Ten runs of 57 tasks, as in the paper: the interval holds the truth in 93 to 97 % of experiments."""
    statistic, random = statistics.STATISTICS[name], np.random.default_rng(11)
    levels = np.linspace(0.2, 1.2, 57)
    truth = float(statistic(levels + 0.2 * random.standard_normal((20_000, 57))))
    held = 0
    for _ in range(1_000):
        scores = levels + 0.2 * random.standard_normal((10, 57))
        low, high = statistics.bootstrap_interval(scores, statistic, random, samples=300)
        held += low <= truth <= high
    assert 0.93 <= held / 1_000 <= 0.97


def test_the_band_is_the_range_of_two_runs_and_of_the_mean_of_tasks():
    band = statistics.bootstrap_band([np.array([[0.0, 1.0], [2.0, 5.0]])])
    np.testing.assert_array_equal(band, [[0.0, 1.0], [2.0, 5.0]])
    np.testing.assert_allclose(
        statistics.bootstrap_band([np.array([[0.0], [2.0]]), np.array([[10.0]])]), [[5.0], [6.0]]
    )


def test_the_papers_interval_is_its_formula():
    # 1, 2, 3, 4: mean 2.5, deviation sqrt(5/3), n = 4.
    half = 1.96 * math.sqrt(5 / 3) / 2
    found = statistics.normal_interval(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert found == pytest.approx((2.5 - half, 2.5 + half))


def test_welch_worked_by_hand():
    # Means 2 and 5; variances 1 and 4 over 3 and 5 runs: t = -3 / sqrt(1/3 + 4/5), 5.9588 degrees of freedom.
    one, other = Sample.of(np.array([1.0, 2.0, 3.0])), Sample.of(np.array([3.0, 3.0, 5.0, 7.0, 7.0]))
    assert other == pytest.approx((5.0, math.sqrt(4 / 5), 5))
    assert statistics.welch(one, other) == pytest.approx(0.0304, abs=5e-4)


def test_what_is_not_known_to_be_worse_is_not_worse():
    best = Sample(1.0, 0.01, 10)
    assert not statistics.not_worse(Sample(0.9, 0.01, 10), best)
    assert statistics.not_worse(Sample(0.99, 0.01, 10), best)
    assert statistics.not_worse(Sample(0.9, NAN, 10), best)
    assert not statistics.not_worse(Sample(0.9, 0.0, 10), Sample(1.0, 0.0, 10))
