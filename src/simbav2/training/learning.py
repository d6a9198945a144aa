"""What `agent.learn` does around the loop: progress lines, evaluations and callbacks, without a run folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from simbav2.config import Config
from simbav2.envs.vector import Envs
from simbav2.errors import printable
from simbav2.training import health
from simbav2.training.callbacks import Callback, Callbacks
from simbav2.training.console import clock, number
from simbav2.training.evaluate import Evaluation, evaluate, mean_total
from simbav2.training.trainer import Loop

log = logging.getLogger("simbav2")


def learn(
    loop: Loop,
    until: int,
    callbacks: Sequence[Callback] = (),
    evaluate_every: int | None = None,
    evaluation_envs: Envs | None = None,
    progress: bool = True,
) -> None:
    """Train to `until` simulator steps, or until a callback asks to stop."""
    agent, told, schedule = loop.agent, Callbacks(callbacks), loop.agent.config.schedule
    with _visible() if progress else nullcontext():
        report = _Report(loop, until, told, progress)
        told.on_start(agent, None)
        try:
            while agent.env_steps < until and not told.stop_requested:
                before = agent.env_steps
                loop.ended += loop.step()
                told.on_step(agent)
                now, last = agent.env_steps, agent.env_steps >= until
                if last or now // schedule.log_every > before // schedule.log_every:
                    report.training()
                if evaluate_every and (last or now // evaluate_every > before // evaluate_every):
                    assert evaluation_envs is not None
                    report.evaluation(evaluation_envs, now // evaluate_every)
        finally:
            told.on_end(agent)


class _Report:
    """Tells the logger and the callbacks."""

    def __init__(self, loop: Loop, until: int, told: Callbacks, progress: bool) -> None:
        self.loop, self.agent, self.told, self.until = loop, loop.agent, told, until
        self.level = logging.INFO if progress else logging.DEBUG
        steps = until - self.agent.env_steps
        task = printable(self.agent.config.task)
        log.log(self.level, "simbav2: %s: learning for %s steps; %s", task, f"{steps:,}", plan(self.agent.config))
        self._mark()

    def training(self) -> None:
        """A line of metrics about the time since the last."""
        agent, (began, updates, steps) = self.agent, self._marked
        # Waits for the updates under way.
        signs = health.signs_of_training(agent, self.loop.metrics, self.loop.dropped_steps)
        seconds = max(time.monotonic() - began, 1e-9)
        left = (self.until - agent.env_steps) * seconds / max(agent.env_steps - steps, 1)
        log.log(
            self.level,
            "simbav2: step %s/%s  training return %s  %s updates/s  %s left",
            *(f"{agent.env_steps:,}", f"{self.until:,}", number(mean_total(self.loop.ended))),
            *(number((agent.updates - updates) / seconds), clock(left)),
        )
        self._metrics(signs)
        self.loop.ended = []
        self._mark()

    def evaluation(self, envs: Envs, count: int) -> None:
        agent, episodes = self.agent, self.agent.config.schedule.evaluation_episodes
        # Every evaluation plays episodes of its own.
        played = evaluate(agent, envs, episodes, count * episodes)
        found = Evaluation.of(played)
        solved = "" if found.success is None else f"  success {found.success:.0%}"
        log.log(
            self.level,
            "simbav2: step %s/%s  evaluation return %s, std %s (%d episodes)%s",
            *(f"{agent.env_steps:,}", f"{self.until:,}", number(found.mean_return), number(found.std_return)),
            *(len(played), solved),
        )
        if agent.updates:
            self._metrics(health.signs_of_evaluation(played))
        self.told.on_evaluation(agent, played)
        self._mark()  # the rates are about training

    def _metrics(self, signs: dict[str, float]) -> None:
        self.told.on_metrics(
            self.agent, {"env_step": self.agent.env_steps, "updates": self.agent.updates, **signs}
        )

    def _mark(self) -> None:
        self._marked = time.monotonic(), self.agent.updates, self.agent.env_steps


def plan(config: Config) -> str:
    """For how many steps the schedules are made, and when updates start."""
    text = f"schedules are made for {config.env_steps:,} steps (learning rate {config.learning_rate})"
    if config.data.source is not None:
        return text
    return f"{text}; updates start after {config.warmup_decisions:,} random actions"


@contextmanager
def _visible() -> Iterator[None]:
    """Lines of level INFO are shown, on stderr where the program has not set up logging."""
    level, handler = log.level, None if log.hasHandlers() else logging.StreamHandler()
    if level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if handler is not None:
        log.addHandler(handler)
    try:
        yield
    finally:
        log.setLevel(level)
        if handler is not None:
            log.removeHandler(handler)
