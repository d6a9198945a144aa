"""Aggregates of many runs on many tasks, with their confidence intervals.

Scores are [runs, tasks], as everywhere; NaN marks a hole that was allowed. A statistic takes arrays
[..., runs, tasks] and gives [...], so that all bootstrap samples go through it at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind_from_stats

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
Random = np.random.Generator | int
Band = tuple[Floats, Floats]  # lower and upper bounds


class Interval(NamedTuple):
    low: float
    high: float


def task_means(scores: Floats) -> Floats:
    """The mean over runs, [..., tasks]."""
    counts = np.isfinite(scores).sum(-2)
    return np.nansum(scores, axis=-2) / np.where(counts, counts, np.nan)


def mean(scores: Floats) -> Floats:
    """Over tasks of the mean over runs: tasks weigh the same however often they were run."""
    return task_means(scores).mean(-1)


def median(scores: Floats) -> Floats:
    """Over tasks, of the mean over runs."""
    return np.median(task_means(scores), axis=-1)


def iqm(scores: Floats) -> Floats:
    """The interquartile mean over all runs of all tasks: a quarter of the scores, rounded down, is cut off at
    either end."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # holes come last
    count = int(np.isfinite(scores).sum((-2, -1)).max(initial=0))
    cut = count // 4
    return flat[..., cut : count - cut].mean(-1)


def optimality_gap(scores: Floats) -> Floats:
    """How far scores stay below 1 on average; what lies above 1 does not make up for it."""
    return mean(np.where(np.isfinite(scores), np.maximum(1.0 - scores, 0.0), np.nan))


STATISTICS: dict[str, Statistic] = {"mean": mean, "median": median, "IQM": iqm, "optimality gap": optimality_gap}


def performance_profile(scores: Floats, thresholds: Floats) -> Floats:
    """The share of runs, over all tasks, that score more than each threshold: [..., thresholds]."""
    flat = scores.reshape(*scores.shape[:-2], -1, 1)
    return (flat > thresholds).sum(-2) / np.isfinite(flat).sum(-2)


def probability_of_improvement(ours: Floats, theirs: Floats) -> Floats:
    """That a run of `ours` beats one of `theirs` on a task drawn at random; a tie counts half. Tasks agree."""
    ours, theirs = ours[..., :, None, :], theirs[..., None, :, :]
    known = np.isfinite(ours) & np.isfinite(theirs)
    wins = np.where(known, (ours > theirs) + 0.5 * (ours == theirs), 0.0)
    return (wins.sum((-3, -2)) / known.sum((-3, -2))).mean(-1)


# Intervals of 95 %. A number in place of a generator is a seed: the same data give the same interval ----------


def resample(scores: Floats, generator: Random, samples: int) -> Floats:
    """Bootstrap samples [samples, runs - 1, tasks]: runs are drawn with replacement, for each task on its own.

    Of n runs n - 1 are drawn (Rao and Wu's rescaled bootstrap). Drawing n would make the variance of a mean too
    small by (n - 1) / n, a factor of one half with two runs.
    """
    counts = np.isfinite(scores).sum(0)
    draws = np.maximum(counts - 1, np.minimum(counts, 1))
    runs, tasks = int(draws.max(initial=0)), scores.shape[1]
    dense = np.take_along_axis(scores, np.argsort(~np.isfinite(scores), axis=0, kind="stable"), axis=0)
    drawn = (np.random.default_rng(generator).random((samples, runs, tasks)) * counts).astype(np.intp)
    picked = dense[drawn, np.arange(tasks)]
    holes = np.arange(runs)[:, None] >= draws
    if holes.any():
        picked[:, holes] = np.nan
    return picked


def bootstrap_interval(
    scores: Floats, statistic: Statistic, generator: Random = 0, samples: int = 2_000
) -> Interval:
    """The percentile interval of `statistic`, by the stratified bootstrap over runs.

    Unknown (NaN) where no task has two runs: one run says nothing about the next. Over many tasks it holds the
    truth about as often as it says; of a single task with few runs less often (`docs/report.md` has the figures).
    """
    if np.isfinite(scores).sum(0).max(initial=0) < 2:
        return Interval(math.nan, math.nan)
    return Interval(*map(float, _percentiles(statistic(resample(scores, generator, samples)))))


def bootstrap_improvement(ours: Floats, theirs: Floats, generator: Random = 0, samples: int = 2_000) -> Interval:
    """The interval of the probability of improvement; both sides are resampled."""
    if min(np.isfinite(side).sum(0).max(initial=0) for side in (ours, theirs)) < 2:
        return Interval(math.nan, math.nan)
    generator = np.random.default_rng(generator)
    pairs = (resample(side, generator, samples) for side in (ours, theirs))
    return Interval(*map(float, _percentiles(probability_of_improvement(*pairs))))


def bootstrap_profile(scores: Floats, thresholds: Floats) -> Band:
    """The interval of the performance profile at each threshold."""
    return _percentiles(performance_profile(resample(scores, 0, 500), thresholds))


def bootstrap_band(curves: Sequence[Floats], generator: Random = 0, samples: int = 1_000) -> Band:
    """The interval, at every point, of the mean over tasks of `curves`, each [runs, points] of one task.

    Whole runs are drawn, so that a band holds together over time. Of two or three runs it is their range; a
    single run is its own band.
    """
    generator = np.random.default_rng(generator)
    means: Floats = np.zeros(1)
    for runs in curves:
        count = len(runs)
        draws = max(count - 1, 1)  # as in `resample`
        weights = generator.multinomial(draws, np.full(count, 1 / count), size=samples) / draws
        means = means + weights @ runs / len(curves)
    return _percentiles(means)


def _percentiles(samples: Floats) -> Band:
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return low, high


def normal_interval(scores: Floats) -> Interval:
    """The paper's interval (appendix, "Confidence Interval"): mean ± 1.96 s / √n over all runs of all tasks.

    It takes the spread between tasks for noise, so for an aggregate it is wider than the truth.
    """
    flat = scores[np.isfinite(scores)]
    if len(flat) < 2:
        return Interval(math.nan, math.nan)
    half = 1.96 * float(flat.std(ddof=1)) / math.sqrt(len(flat))
    return Interval(float(flat.mean()) - half, float(flat.mean()) + half)


# Welch's t-test ---------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """What the test needs to know of a sample; published values come as nothing more."""

    mean: float
    standard_error: float
    size: int

    @classmethod
    def of(cls, values: Floats) -> Sample:
        flat = values[np.isfinite(values)]
        deviation = float(flat.std(ddof=1)) if len(flat) > 1 else math.nan
        return cls(float(flat.mean()), deviation / math.sqrt(max(len(flat), 1)), len(flat))


def welch(one: Sample, other: Sample) -> float:
    """The two-sided p-value for equal means with unequal variances; NaN where a variance is unknown."""
    if min(one.size, other.size) < 2:
        return math.nan
    if one.standard_error == other.standard_error == 0:
        return float(one.mean == other.mean)
    deviations = (sample.standard_error * math.sqrt(sample.size) for sample in (one, other))
    first, second = ((s.mean, deviation, s.size) for s, deviation in zip((one, other), deviations, strict=True))
    return float(ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def not_worse(sample: Sample, best: Sample, level: float = 0.05) -> bool:
    """The paper's "not statistically worse than the highest"; an unknown variance proves nothing either way."""
    return not welch(sample, best) < level
