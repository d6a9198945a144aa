"""Warnings about a run's metrics, each with what to try, and the end of a run on NaN or Inf.

A warning is given when it first applies, and not again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simbav2.actor_critic import ActorCritic
from simbav2.checkpoint import checkpoint
from simbav2.errors import Diverged
from simbav2.training.evaluate import EvaluationEpisode, evaluation_metrics
from simbav2.training.trainer import Trainer

Metrics = Mapping[str, float]
Check = Callable[[Metrics, Sequence[Metrics]], str | None]  # metrics now and before -> what is wrong, if anything
HISTORY = 5  # values before a metric is judged, where new networks show much that soon disappears
EXPLOSION = 100.0  # times the median so far
OVERESTIMATE = 0.5  # of the largest return seen


class Warning(NamedTuple):
    name: str
    text: str
    remedy: str


class HealthCheck(NamedTuple):
    name: str
    checks: tuple[Check, ...]  # the first that finds something counts
    remedy: str

    def __call__(self, now: Metrics, before: Sequence[Metrics]) -> list[Warning]:
        found = (text for check in self.checks if (text := check(now, before)) is not None)
        return [Warning(self.name, text, self.remedy) for text in islice(found, 1)]


def _past(name: str, before: Sequence[Metrics]) -> list[float]:
    return [metrics[name] for metrics in before if name in metrics]


def _above(name: str, limit: float, text: str, lasting: int = 1) -> Check:
    """All of the last `lasting` values are above `limit`."""

    def check(now: Metrics, before: Sequence[Metrics]) -> str | None:
        recent = [*_past(name, before), now.get(name, 0.0)][-lasting:]
        return text.format(min(recent)) if len(recent) == lasting and min(recent) > limit else None

    return check


def _exploding(name: str) -> Check:
    def check(now: Metrics, before: Sequence[Metrics]) -> str | None:
        past = _past(name, before)
        if name not in now or len(past) < HISTORY:
            return None
        usual = median(past)
        exploded = not math.isfinite(now[name]) or now[name] > EXPLOSION * usual > 0
        return f"{name} is {now[name]:.3g}, where it used to be {usual:.3g}" if exploded else None

    return check


def _no_reward(now: Metrics, before: Sequence[Metrics]) -> str | None:
    zero = now.get("largest_return", 1.0) == 0.0
    return "every reward so far was zero: there is nothing to learn from yet" if zero else None


def _return_below_q(now: Metrics, before: Sequence[Metrics]) -> str | None:
    q, seen = now.get("evaluation/q", 0.0), now.get("evaluation/discounted_return", 0.0)
    if q - seen > OVERESTIMATE * max(now.get("largest_return", 0.0), abs(seen)) > 0:
        return f"the critic expects a discounted return of {q:.3g} where evaluation gives {seen:.3g}"
    return None


CLIPPED = "{:.0%} of the target's mass lies beyond the ends of the value's support and is clipped"
DEFICIT = "the policy's entropy stays {:.1f} nats per action dimension below its target"
STILL = "{:.0%} of the observation's entries have never changed"
DEAD = "{{:.0%}} of the {}'s relu units are silent for a whole batch"
DROPPED = "failed environment steps dropped so far: {:.0f}; their episodes were cut there"
CUT = "episodes of an evaluation cut where an environment step failed: {:.0f}"
CHECKS = (
    HealthCheck(
        "support saturated",
        (_above("clipped_mass", 0.05, CLIPPED, HISTORY),),
        "scale rewards so that returns fit (--rewards RewardScaling --rewards.bound 5), "
        "or widen the support (--value.low, --value.high)",
    ),
    HealthCheck(
        "entropy collapsed",
        (_above("entropy_deficit", 1.0, DEFICIT, HISTORY),),
        "start with a higher temperature (--policy.initial-temperature 0.1), ask for more entropy "
        "(--policy.target-entropy), or check that the reward depends on the action",
    ),
    HealthCheck(
        "statistics not moving",
        (_no_reward, _above("still_observations", 0.5, STILL)),  # a third of Humanoid-v4's are, and no harm
        "check that the environment's observations and rewards are alive (`simbav2 evaluate --video` shows it); "
        "with sparse rewards, lengthen the warm-up (--warmup-decisions)",
    ),
    HealthCheck(
        "gradient exploding",
        tuple(
            _exploding(f"{part}/gradient_norm") for part in ("critic/encoder", "critic/predictor", "actor/encoder")
        ),
        "lower the learning rate (--learning-rate.initial or --learning-rate.rate), "
        "and look for outliers in the reward",
    ),
    HealthCheck(
        "return far below Q",
        (_return_below_q,),
        "take the smaller of two critics (--critic.num_critics 2), or fewer updates (--updates-per-decision)",
    ),
    HealthCheck(
        "units dead",
        tuple(_above(f"{name}/dead_units", 0.8, DEAD.format(name), HISTORY) for name in ("actor", "critic")),
        "lower the learning rate, or reset the networks at intervals (--reset-every 500000)",
    ),
    HealthCheck(
        "steps dropped",
        (_above("dropped_steps", 0, DROPPED), _above("evaluation/dropped_episodes", 0, CUT)),
        "the log names task, seed, episode and step of the first; a smaller simulator time step or smaller "
        "actions keep a simulation stable; --drop-bad-steps never stops at the first",
    ),
    HealthCheck(
        "columns off the sphere",
        (_above("column_error", 1e-3, "a weight vector is {:.2g} away from the unit sphere"),),
        "this is a defect of the program: please report it",
    ),
)


class HealthMonitor:
    """Takes in the metrics of a run as they come and gives the warnings that are new."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}  # of every metric
        self.warnings: list[Warning] = []  # that apply now
        self._before: list[Metrics] = []
        self._given: set[str] = set()

    def check(self, metrics: Metrics) -> list[Warning]:
        self.latest |= metrics
        self.warnings = [warning for check in CHECKS for warning in check(self.latest, self._before)]
        self._before.append(metrics)
        new = [warning for warning in self.warnings if warning.name not in self._given]
        self._given |= {warning.name for warning in new}
        return new


def training_metrics(trainer: Trainer, diagnostics: Mapping[str, Any] | None = None) -> dict[str, float]:
    """A line of `metrics.jsonl`: the learner's latest metrics, `diagnostics`, and what the statistics show."""
    agent = trainer.agent
    values = {name: float(value) for name, value in ((trainer.metrics or {}) | dict(diagnostics or {})).items()}
    if agent.config.reset_every:
        values["resets"] = trainer.resets
    if trainer.dropped_steps:
        values["dropped_steps"] = trainer.dropped_steps
    if trainer.cut_episodes:
        values["cut_episodes"] = trainer.cut_episodes
    temperature = agent.learner.networks.temperature
    if temperature is not None and "entropy" in values:  # per action dimension
        values["entropy_deficit"] = (temperature.target_entropy - values["entropy"]) / agent.task.action_size
    return values | statistics_metrics(agent)


def statistics_metrics(agent: ActorCritic) -> dict[str, float]:
    """What the running statistics show of the environment."""
    statistics = agent.statistics
    return {
        "reward_scale": float(agent.normalizer.reward_scale),
        "largest_return": statistics.returns.largest,
        "still_observations": float((statistics.observation.variance < 1e-10).mean()),
    }


def diagnose(
    agent: ActorCritic, episodes: Sequence[EvaluationEpisode], history: Sequence[Metrics]
) -> list[Warning]:
    """The warnings about a trained agent: from the metrics of its run, and from `episodes` just played."""
    monitor = HealthMonitor()
    for metrics in history:
        monitor.check(metrics)
    monitor.check({**statistics_metrics(agent), **evaluation_metrics(episodes)})
    return monitor.warnings


def as_json(warning: Warning, env_step: int) -> dict[str, Any]:
    return {"env_step": env_step, **warning._asdict()}


def stop_on_nan(trainer: Trainer, run: Path) -> None:
    """Stop a run with a non-finite loss or parameter; its state goes to `inspect/`, where no resume looks."""
    agent = trainer.agent
    losses = {name: value for name, value in (trainer.metrics or {}).items() if name.endswith("loss")}
    for path, leaf in jax.tree_util.tree_flatten_with_path((losses, agent.state))[0]:
        array = np.asarray(leaf)
        if jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
            folder = run / "inspect" / f"{agent.env_steps:012}"
            shutil.rmtree(folder, ignore_errors=True)
            checkpoint.save(trainer.checkpoint(episodes=False), folder)
            name = jax.tree_util.keystr(path[1:], simple=True, separator="/")
            raise Diverged(
                f"{agent.config.task}: {name} is not finite after {agent.env_steps:,} steps; saved for inspection "
                f"in {folder}. A resumed run would stop here again: start a new one with a lower "
                "learning_rate.initial or another seed, and check the environment's rewards"
            )
