"""The training doctor: signs of trouble in a run's measures, said in plain words, each with what to try.

A sign is a number of `metrics.jsonl`. A symptom is told when it first appears, and no more after that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.evaluate import EvaluationEpisode

Signs = Mapping[str, float]

CLIPPED_MASS = 0.05  # of the target's probability
ENTROPY_DEFICIT = 1.0  # nats below the target, per action dimension
STILL_OBSERVATIONS = 0.5  # of the entries; a third of Humanoid-v4's are constant, and no harm
EXPLOSION = 100.0  # times the median so far
HISTORY = 5  # measures that make a habit
OVERESTIMATE = 0.5  # of the largest return seen
DEAD_UNITS = 0.8
COLUMN_ERROR = 1e-3


class Warning(NamedTuple):
    name: str
    text: str
    remedy: str


class Symptom(NamedTuple):
    name: str
    see: Callable[[Signs, Sequence[Signs]], str | None]  # signs now and before -> what is wrong, if it is
    remedy: str


def _past(name: str, before: Sequence[Signs]) -> list[float]:
    return [signs[name] for signs in before if name in signs]


def _lately(name: str, now: Signs, before: Sequence[Signs]) -> float:
    """The least of the last few values: fresh networks show much that is gone a moment later."""
    recent = [*_past(name, before), now.get(name, 0.0)][-HISTORY:]
    return min(recent) if len(recent) == HISTORY else 0.0


def _support_saturated(now: Signs, before: Sequence[Signs]) -> str | None:
    share = _lately("clipped_mass", now, before)
    if share > CLIPPED_MASS:
        return f"{share:.0%} of the target's mass lies beyond the ends of the value's support and is clipped"
    return None


def _entropy_collapsed(now: Signs, before: Sequence[Signs]) -> str | None:
    deficit = _lately("entropy_deficit", now, before)
    if deficit > ENTROPY_DEFICIT:
        return f"the policy's entropy stays {deficit:.1f} nats per action dimension below what it seeks"
    return None


def _statistics_still(now: Signs, before: Sequence[Signs]) -> str | None:
    if now.get("largest_return", 1.0) == 0.0:
        return "every reward so far was zero: there is nothing to learn from yet"
    share = now.get("still_observations", 0.0)
    if share > STILL_OBSERVATIONS:
        return f"{share:.0%} of the observation's entries have never changed"
    return None


def _gradient_exploding(now: Signs, before: Sequence[Signs]) -> str | None:
    for name in ("critic/encoder/gradient_norm", "critic/predictor/gradient_norm", "actor/encoder/gradient_norm"):
        past = _past(name, before)
        if name not in now or len(past) < HISTORY:
            continue
        usual = median(past)
        if not math.isfinite(now[name]) or now[name] > EXPLOSION * usual > 0:
            return f"{name} is {now[name]:.3g}, where it used to be {usual:.3g}"
    return None


def _return_below_q(now: Signs, before: Sequence[Signs]) -> str | None:
    if "evaluation/q" not in now:
        return None
    q, seen = now["evaluation/q"], now["evaluation/discounted_return"]
    if q - seen > OVERESTIMATE * max(now.get("largest_return", 0.0), abs(seen)) > 0:
        return f"the critic expects a discounted return of {q:.3g} where evaluation gives {seen:.3g}"
    return None


def _units_dead(now: Signs, before: Sequence[Signs]) -> str | None:
    for name in ("actor", "critic"):
        share = _lately(f"{name}/dead_units", now, before)
        if share > DEAD_UNITS:
            return f"{share:.0%} of the {name}'s relu units are silent for a whole batch"
    return None


def _columns_off(now: Signs, before: Sequence[Signs]) -> str | None:
    error = now.get("column_error", 0.0)
    if error > COLUMN_ERROR:
        return f"a weight vector is {error:.2g} away from the unit sphere"
    return None


def _steps_dropped(now: Signs, before: Sequence[Signs]) -> str | None:
    steps, episodes = now.get("dropped_steps", 0), now.get("evaluation/dropped_episodes", 0)
    if steps:
        return f"failed environment steps dropped so far: {steps:.0f}; their episodes were cut there"
    if episodes:
        return f"episodes of an evaluation cut where an environment step failed: {episodes:.0f}"
    return None


SYMPTOMS = (
    Symptom(
        "support saturated",
        _support_saturated,
        "scale rewards so that returns fit (--rewards RewardScaling --rewards.bound 5), "
        "or widen the support (--value.low, --value.high)",
    ),
    Symptom(
        "entropy collapsed",
        _entropy_collapsed,
        "start with a higher temperature (--policy.initial-temperature 0.1), ask for more entropy "
        "(--policy.target-entropy), or check that the reward depends on the action",
    ),
    Symptom(
        "statistics not moving",
        _statistics_still,
        "check that the environment's observations and rewards are alive (`simbav2 evaluate --video` films it); "
        "with sparse rewards, lengthen the warm-up (--warmup-decisions)",
    ),
    Symptom(
        "gradient exploding",
        _gradient_exploding,
        "lower the learning rate (--learning-rate.initial or --learning-rate.rate), "
        "and look for outliers in the reward",
    ),
    Symptom(
        "return far below Q",
        _return_below_q,
        "take the smaller of two critics (--critic.num_critics 2), or fewer updates (--updates-per-decision)",
    ),
    Symptom(
        "units dead",
        _units_dead,
        "lower the learning rate, or start the networks anew now and then (--reset-every 500000)",
    ),
    Symptom(
        "steps dropped",
        _steps_dropped,
        "the log names task, seed, episode and step of the first ones; a smaller simulator time step or smaller "
        "actions keep a simulation stable; --drop-bad-steps never stops at the first",
    ),
    Symptom("columns off the sphere", _columns_off, "this is a defect of the program: please report it"),
)


class HealthMonitor:
    """Sees the signs of a run as they come and tells what is new among its symptoms."""

    def __init__(self) -> None:
        self.now: dict[str, float] = {}  # the latest of every sign
        self.present: list[Warning] = []  # the symptoms of now
        self._before: list[Signs] = []
        self._told: set[str] = set()

    def see(self, signs: Signs) -> list[Warning]:
        """Take in what has been measured; returns what was not told before."""
        self.now |= signs
        self.present = [
            Warning(symptom.name, text, symptom.remedy)
            for symptom in SYMPTOMS
            if (text := symptom.see(self.now, self._before)) is not None
        ]
        self._before.append(signs)
        new = [warning for warning in self.present if warning.name not in self._told]
        self._told |= {warning.name for warning in new}
        return new


def signs_of_training(agent: Agent, metrics: Mapping[str, Any] | None, dropped_steps: int = 0) -> dict[str, float]:
    """A line of `metrics.jsonl`: the learner's metrics, and what they and the statistics tell.

    `dropped_steps` are those of the whole run.
    """
    values = {name: float(value) for name, value in (metrics or {}).items()}
    if agent.config.reset_every:
        values["resets"] = agent.resets
    if dropped_steps:
        values["dropped_steps"] = dropped_steps
    return values | signs_of_entropy(agent, values) | signs_of_statistics(agent)


def signs_of_statistics(agent: Agent) -> dict[str, float]:
    """What the running statistics tell of the environment."""
    statistics = agent.statistics
    return {
        "reward_scale": float(agent.normalizer.reward_scale),
        "largest_return": statistics.returns.largest,
        "still_observations": float((statistics.observation.variance < 1e-10).mean()),
    }


def signs_of_entropy(agent: Agent, metrics: Signs) -> dict[str, float]:
    """How far the policy is below the entropy it seeks, per action dimension."""
    temperature = agent.learner.networks.temperature
    if temperature is None or "entropy" not in metrics:
        return {}
    return {"entropy_deficit": (temperature.target_entropy - metrics["entropy"]) / agent.task.action_size}


def signs_of_evaluation(episodes: Sequence[EvaluationEpisode]) -> dict[str, float]:
    """What the critic expected at the start of the episodes, and what came of it; both in the reward's units."""
    dropped = sum(episode.dropped for episode in episodes)
    return {
        "evaluation/q": sum(episode.q for episode in episodes) / len(episodes),
        "evaluation/discounted_return": sum(episode.discounted for episode in episodes) / len(episodes),
        **({"evaluation/dropped_episodes": dropped} if dropped else {}),
    }


def diagnose(agent: Agent, episodes: Sequence[EvaluationEpisode], history: Sequence[Signs]) -> list[Warning]:
    """The symptoms of a trained agent: from the signs of its run, and from `episodes` just played."""
    watch = HealthMonitor()
    for signs in history:
        watch.see(signs)
    watch.see({**signs_of_statistics(agent), **signs_of_evaluation(episodes)})
    return watch.present


def as_json(warning: Warning, env_step: int) -> dict[str, Any]:
    return {"env_step": env_step, **warning._asdict()}
