"""The training doctor: trouble is told, once, and health is not."""

import json

import pytest
from toys import TINY, Chain

from simbav2 import SimbaV2
from simbav2.training import run
from simbav2.training.evaluate import EvaluationEpisode
from simbav2.training.health import CHECKS, HISTORY, HealthMonitor, diagnose, evaluation_metrics

pytestmark = pytest.mark.usefixtures("empty_reports")

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


def told(*signs: dict[str, float]) -> list[str]:
    watch = HealthMonitor()
    return [warning.name for one in signs for warning in watch.check(one)]


def test_a_healthy_run_has_no_symptoms():
    assert told(*[HEALTHY] * 20) == []


def test_every_symptom_has_a_case():
    assert [symptom.name for symptom in CHECKS] == list(SICK)


@pytest.mark.parametrize("name", SICK)
def test_a_symptom_is_told_once_with_what_to_try(name):
    watch = HealthMonitor()
    for _ in range(20):
        watch.check(HEALTHY)
    warnings = [warning for _ in range(20) for warning in watch.check(HEALTHY | SICK[name])]
    assert [warning.name for warning in warnings] == [name]
    assert len(warnings[0].remedy) > 20


def test_what_a_fresh_network_shows_is_no_symptom():
    fresh = HEALTHY | {"clipped_mass": 0.2, "entropy_deficit": 2.0}
    assert told(*[fresh] * (HISTORY - 1), *[HEALTHY] * 20) == []


def test_rewards_that_never_come_are_told():
    assert told(HEALTHY | {"largest_return": 0.0}) == ["statistics not moving"]


def test_the_signs_of_an_evaluation_are_means_over_its_episodes():
    episodes = [
        EvaluationEpisode(9, 5, None, discounted=4.0, q=1.0),
        EvaluationEpisode(9, 5, None, discounted=8.0, q=3.0),
    ]
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
