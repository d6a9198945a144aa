"""Warnings about a run: given once, and not to a healthy run."""

import json

import pytest
from toys import TINY, Chain

from simbav2 import SimbaV2
from simbav2.training import run
from simbav2.training.evaluate import EvaluationEpisode, evaluation_metrics
from simbav2.training.health import CHECKS, HISTORY, HealthMonitor, diagnose

HEALTHY = {
    "clipped_mass": 0.001,
    "entropy_deficit": 0.1,
    "largest_return": 100.0,
    "still_observations": 0.1,
    "critic/encoder/gradient_norm": 0.5,
    "critic/dead_units": 0.3,
    "column_error": 1e-7,
    "evaluation/q": 60.0,
    "evaluation/discounted_return": 50.0,
}
SICK = {
    "support saturated": {"clipped_mass": 0.2},
    "entropy collapsed": {"entropy_deficit": 3.0},
    "statistics not moving": {"still_observations": 0.9},
    "gradient exploding": {"critic/encoder/gradient_norm": 80.0},
    "return far below Q": {"evaluation/q": 120.0, "evaluation/discounted_return": 20.0},
    "units dead": {"critic/dead_units": 0.95},
    "steps dropped": {"dropped_steps": 3},
    "columns off the sphere": {"column_error": 0.01},
}


def warned(*metrics: dict[str, float]) -> list[str]:
    monitor = HealthMonitor()
    return [warning.name for one in metrics for warning in monitor.check(one)]


def test_a_healthy_run_has_no_warnings_nor_has_one_whose_first_values_are_bad():
    new = HEALTHY | {"clipped_mass": 0.2, "entropy_deficit": 2.0}
    assert warned(*[new] * (HISTORY - 1), *[HEALTHY] * 20) == []
    assert warned(HEALTHY | {"largest_return": 0.0}) == ["statistics not moving"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_warning_is_given_once_with_what_to_try(check):
    assert warned(*[HEALTHY] * 20, *[HEALTHY | SICK[check.name]] * 20) == [check.name]
    assert len(check.remedy) > 20


def test_the_metrics_of_an_evaluation_are_means_over_its_episodes():
    episodes = [EvaluationEpisode(9, 5, None, discounted=4.0 * n, q=2.0 * n - 1) for n in (1, 2)]
    assert evaluation_metrics(episodes) == {"evaluation/q": 2.0, "evaluation/discounted_return": 6.0}


class Barren(Chain):
    """No reward ever."""

    def step(self, action):
        observation, _, over, truncated, info = super().step(action)
        return observation, 0.0, over, truncated, info


def test_a_run_writes_its_warnings_and_resumes_with_them(tmp_path):
    settings = {**TINY, "env_steps": 600, "schedule.log_every": 100, "schedule.evaluate_every": 300}
    agent = SimbaV2(lambda: Barren(4), **settings)
    summary = run.start(agent, tmp_path / "run")
    assert summary is not None
    # So short a run may show other symptoms as well.
    assert [warning["name"] for warning in summary["warnings"]].count("statistics not moving") == 1
    lines = (tmp_path / "run" / "warnings.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == summary["warnings"]
    # A trained agent shows the same without the run's history.
    played = [EvaluationEpisode(0, 4, None, discounted=0.0, q=0.0)]
    assert [warning.name for warning in diagnose(agent, played, [])] == ["statistics not moving"]
