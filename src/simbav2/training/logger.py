"""What training reports: the files of a run, or the lines that `agent.learn` logs; callbacks and warnings in both.

The files have plain formats and grow by a row at a time, so that whatever ends the program loses nothing written.
"""

from __future__ import annotations

import csv
import json
import logging
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from simbav2.actor_critic import ActorCritic
from simbav2.backend import compile_clock
from simbav2.checkpoint import checkpoint
from simbav2.checkpoint.files import damage, read_lines, read_table, sync, versions, write_json, write_text
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.config import Config
from simbav2.datasets import D4RL
from simbav2.diagnostics import parameter_counts
from simbav2.envs.tasks import normalized_score
from simbav2.errors import printable
from simbav2.training import health
from simbav2.training.callbacks import Callback, Logger
from simbav2.training.console import Display, clock, number
from simbav2.training.evaluate import Episode, Evaluation, EvaluationEpisode, mean_success, mean_total
from simbav2.training.trainer import Trainer

log = logging.getLogger("simbav2")
ROWS = {  # the files that grow, and how they begin
    "progress.csv": "env_step,decisions,updates,episodes,return,length,success,seconds,updates_per_second\n",
    "evaluations.csv": "env_step,episode,return,length,success\n",
    "metrics.jsonl": "",
    "warnings.jsonl": "",
}
FAILURE = "failure.json"


class ProgressLogger(Logger):
    """Of `agent.learn`: lines to the logger `simbav2`."""

    def __init__(self, trainer: Trainer, until: int, callbacks: Sequence[Callback], visible: bool) -> None:
        super().__init__(trainer.agent, callbacks)
        self.trainer, self.until, self.level = trainer, until, logging.INFO if visible else logging.DEBUG
        steps, config = until - self.agent.env_steps, self.agent.config
        self._log(f"{printable(config.task)}: learning for {steps:,} steps; {plan(config)}")

    def progress(self, last: bool) -> None:
        metrics = health.training_metrics(self.trainer)  # waits for the updates under way
        updates, env_steps = self.rates()
        left = (self.until - self.agent.env_steps) / env_steps if env_steps else None
        total = number(mean_total(self.trainer.ended))
        self._log(f"{self._step}  training return {total}  {number(updates)} updates/s  {clock(left)} left")
        self.metrics(metrics)
        self.reset_rates()

    def evaluation(self, episodes: Sequence[EvaluationEpisode]) -> None:
        found = Evaluation.of(episodes)
        success = "" if found.success is None else f"  success {found.success:.0%}"
        mean, std = number(found.mean_return), number(found.std_return)
        self._log(f"{self._step}  evaluation return {mean}, std {std} ({len(episodes)} episodes){success}")
        super().evaluation(episodes)

    @property
    def _step(self) -> str:
        return f"step {self.agent.env_steps:,}/{self.until:,}"

    def _log(self, text: str) -> None:
        log.log(self.level, "simbav2: %s", text)


@contextmanager
def visible_logging() -> Iterator[None]:
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


def plan(config: Config) -> str:
    """For how many steps the schedules are made, and when updates start."""
    text = f"schedules are made for {config.env_steps:,} steps (learning rate {config.learning_rate})"
    if config.data.source is not None:
        return text
    return f"{text}; updates start after {config.warmup_decisions:,} random actions"


class RunLogger(Logger):
    """Writes a run's folder, keeps its display up to date and calls the callbacks."""

    def __init__(
        self,
        folder: Path,
        trainer: Trainer,
        display: Display,
        rotation: CheckpointRotation,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        super().__init__(trainer.agent, callbacks)
        self.trainer = trainer
        self.folder = folder
        self.rotation = rotation
        self.display = display
        self.episodes = 0
        self.seconds_before = 0.0  # spent by earlier processes of the same run
        self.last_evaluation: Sequence[Episode | EvaluationEpisode] = []
        self.health = health.HealthMonitor()
        self.warnings: list[dict[str, Any]] = []
        self._began = time.monotonic()

    def create(self, stop_after: int | None) -> None:
        """The files of a new run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        description = checkpoint.description(self.agent.config, self.agent.task)
        write_json(self.folder / "config.json", {**description, "stop_after": stop_after})
        for name, header in ROWS.items():
            write_text(self.folder / name, header)

    def rewind(self) -> None:
        """Remove rows written after the checkpoint that the agent was loaded from: they will be written again."""
        step = self.agent.env_steps
        for path in (self.folder / name for name in ROWS):
            with damage(path):
                rows = path.read_text().splitlines(keepends=True)
                header = rows[:1] if ROWS[path.name] else []
                kept = [row for row in rows[len(header) :] if row.endswith("\n") and _env_step(row) <= step]
            write_text(path, "".join([*header, *kept]))
        for metrics in read_lines(self.folder / "metrics.jsonl"):
            self.health.check(metrics)
        self.warnings = list(read_lines(self.folder / "warnings.jsonl"))
        with damage(self.folder / "progress.csv"):
            table = read_table(self.folder / "progress.csv")
            if len(table["episodes"]):
                self.episodes, self.seconds_before = int(table["episodes"][-1]), float(table["seconds"][-1])
        for step, evaluated in read_evaluations(self.folder).items():
            self._show_evaluation(step, evaluated)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._began

    def progress(self, last: bool) -> None:
        agent, schedule, now = self.agent, self.agent.config.schedule, self.agent.env_steps
        # Diagnostics come with the first log of every interval, so that a resumed run computes the same.
        every = schedule.diagnostics_every
        due = last or now // every > (now - schedule.log_every) // every
        diagnostics = self.trainer.diagnostics() if due and agent.updates else None
        health.stop_on_nan(self.trainer, self.folder)
        self.write_progress(diagnostics)

    def write_progress(self, diagnostics: dict[str, Any] | None = None) -> None:
        """One row about the time since the last, and a line with the learner's latest metrics."""
        agent, status, episodes = self.agent, self.display.status, self.trainer.ended
        # Reading the metrics waits for the updates under way, so that they are counted in the time they took.
        metrics = health.training_metrics(self.trainer, diagnostics)
        status.updates_per_second, status.env_steps_per_second = self.rates()
        self.episodes += len(episodes)
        length = sum(episode.length for episode in episodes) / len(episodes) if episodes else None
        total, success = mean_total(episodes), mean_success(episodes)
        row = (agent.env_steps, agent.decisions, agent.updates, self.episodes, total, length, success)
        self._append("progress.csv", (*row, round(self.seconds, 3), round(status.updates_per_second, 2)))
        self.metrics(metrics)
        status.env_step = agent.env_steps
        status.training_return = status.training_return if total is None else total
        self.display.refresh()
        self.reset_rates()

    def evaluation(self, episodes: Sequence[EvaluationEpisode]) -> None:
        step = self.agent.env_steps
        for index, episode in enumerate(episodes):
            self._append("evaluations.csv", (step, index, episode.total, episode.length, episode.success))
        self._show_evaluation(step, episodes)
        self.display.refresh(evaluated=True)
        super().evaluation(episodes)

    def checkpoint(self, since: int | None = None) -> None:
        """Save the run, the rows written so far first: a resumed run appends to them."""
        if since is not None and not self.rotation.due(since, self.agent.env_steps):
            return
        health.stop_on_nan(self.trainer, self.folder)
        for name in ROWS:
            sync(self.folder / name)
        saved = self.rotation.save(self.trainer.checkpoint(episodes=True))
        if saved is not None:
            self.call("on_checkpoint", saved)

    def finish(self) -> dict[str, Any]:
        """Write and return the summary."""
        agent = self.agent
        total, success = mean_total(self.last_evaluation), mean_success(self.last_evaluation)
        counts = parameter_counts(agent.config, agent.task.observation_size, agent.task.action_size)
        score = success if agent.task.metric == "success" else total
        dataset = agent.config.data.source
        scored = dataset if dataset in D4RL else agent.task.id
        summary = {
            "task": agent.config.task,
            **({"dataset": dataset} if dataset else {}),
            "preset": agent.config.preset,
            "seed": agent.config.seed,
            "env_steps": agent.env_steps,
            "decisions": agent.decisions,
            "updates": agent.updates,
            "dropped_steps": self.trainer.dropped_steps,
            **({"cut_episodes": self.trainer.cut_episodes} if self.trainer.cut_episodes else {}),
            "final_return": total,
            "final_success": success,
            "normalized_score": None if score is None else normalized_score(scored, score),
            "seconds": round(self.seconds, 1),
            "updates_per_second": round(agent.updates / self.seconds, 2),
            "seconds_per_action": _seconds_per_action(agent),
            "compile_seconds": round(compile_clock.seconds, 1),
            "params_sha256": checkpoint.params_sha256(agent),
            "parameters": counts._asdict(),
            "measures": {name: value for name, value in self.health.latest.items() if "/" in name},
            "warnings": self.warnings,
            "versions": versions(),
        }
        write_json(self.folder / "summary.json", summary)
        return summary

    def metrics(self, metrics: Mapping[str, float]) -> None:
        """Write a line of metrics, and the warnings it gives rise to."""
        self._append("metrics.jsonl", self.line(metrics))
        super().metrics(metrics)
        for warning in self.health.check(metrics):
            self.warnings.append(health.as_json(warning, self.agent.env_steps))
            self._append("warnings.jsonl", self.warnings[-1])
            self.display.warn(f"{warning.name}: {warning.text}", warning.remedy)

    def _show_evaluation(self, step: int, episodes: Sequence[Episode | EvaluationEpisode]) -> None:
        self.last_evaluation = episodes
        status = self.display.status
        status.env_step, status.success = step, mean_success(episodes)
        if (total := mean_total(episodes)) is not None:
            status.evaluations.append((step, total))

    def _append(self, name: str, row: Sequence[Any] | dict[str, Any]) -> None:
        """A line more. Rows are made durable by the checkpoint that relies on them, not one by one."""
        with open(self.folder / name, "a", encoding="utf-8", newline="") as file:
            if isinstance(row, dict):
                file.write(json.dumps(row) + "\n")
            else:
                csv.writer(file, lineterminator="\n").writerow(row)  # None is an empty cell


def _env_step(row: str) -> int:
    return int(json.loads(row)["env_step"] if row.startswith("{") else row.split(",")[0])


def read_metrics(run: Path) -> list[dict[str, float]]:
    """The lines of a run's metrics; none for a saved agent, which has no such file."""
    file = run / "metrics.jsonl"
    return list(read_lines(file)) if file.is_file() else []


def read_evaluations(run: Path) -> dict[int, list[Episode]]:
    """The episodes of every evaluation of a run, by its simulator step."""
    table, by_step = read_table(run / "evaluations.csv"), dict[int, list[Episode]]()
    with damage(run / "evaluations.csv"):
        for step, *episode in zip(
            *(table[name] for name in ("env_step", "return", "length", "success")), strict=True
        ):
            total, length, success = map(float, episode)
            found = Episode(total, int(length), None if np.isnan(success) else success)
            by_step.setdefault(int(step), []).append(found)
    return by_step


def _seconds_per_action(agent: ActorCritic, times: int = 20) -> float:
    """The median time of one decision for one observation, once acting is compiled."""
    observation = np.zeros((1, agent.task.observation_size), np.float32)
    agent.act(observation, noise=0.0)
    took = []
    for _ in range(times):
        began = time.perf_counter()
        agent.act(observation, noise=0.0)
        took.append(time.perf_counter() - began)
    return round(statistics.median(took), 6)
