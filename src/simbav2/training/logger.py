"""The files of a run: plain formats, a row at a time, so that whatever ends the program loses nothing written."""

from __future__ import annotations

import csv
import io
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simbav2.checkpoint import checkpoint
from simbav2.checkpoint.files import append, damage, sync, versions, write_json, write_text
from simbav2.checkpoint.rotation import CheckpointRotation
from simbav2.datasets.catalog import D4RL
from simbav2.diagnostics import parameter_counts
from simbav2.envs.tasks import normalized_score
from simbav2.training import divergence, health
from simbav2.training.callbacks import Callback, Callbacks
from simbav2.training.console import Display
from simbav2.training.evaluate import Episode, EvaluationEpisode, mean_success, mean_total

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.trainer import Loop

PROGRESS = [
    "env_step",
    "decisions",
    "updates",
    "episodes",
    "return",
    "length",
    "success",
    "seconds",
    "updates_per_second",
]
FAILURE = "failure.json"
EVALUATIONS = ["env_step", "episode", "return", "length", "success"]


class RunLogger:
    """Writes a run's folder, keeps its display up to date and tells the callbacks."""

    def __init__(
        self,
        folder: Path,
        agent: Agent,
        display: Display,
        history: CheckpointRotation,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.folder = folder
        self.agent = agent
        self.history = history
        self.display = display
        self.callbacks = Callbacks(callbacks)
        self.episodes = 0
        self.seconds_before = 0.0  # spent by earlier processes of the same run
        self.last_evaluation: Sequence[Episode | EvaluationEpisode] = []
        self.watch = health.HealthMonitor()
        self.warnings: list[dict[str, Any]] = []
        self._began = time.monotonic()
        self._mark()

    def create(self, stop_after: int | None) -> None:
        """The files of a new run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        description = checkpoint.description(self.agent.config, self.agent.task)
        write_json(self.folder / "config.json", {**description, "stop_after": stop_after})
        write_text(self.folder / "progress.csv", ",".join(PROGRESS) + "\n")
        write_text(self.folder / "evaluations.csv", ",".join(EVALUATIONS) + "\n")
        write_text(self.folder / "metrics.jsonl", "")
        write_text(self.folder / "warnings.jsonl", "")

    def rewind(self) -> None:
        """Forget rows written after the checkpoint that the agent was loaded from: they will be written again."""
        step = self.agent.env_steps
        for name in ("progress.csv", "evaluations.csv"):
            with damage(self.folder / name):
                header, *rows = (self.folder / name).read_text().splitlines(keepends=True)
                kept = [row for row in rows if row.endswith("\n") and int(row.split(",")[0]) <= step]
            write_text(self.folder / name, "".join([header, *kept]))
        for name in ("metrics.jsonl", "warnings.jsonl"):
            with damage(self.folder / name):
                lines = (self.folder / name).read_text().splitlines(keepends=True)
                kept = [line for line in lines if line.endswith("\n") and json.loads(line)["env_step"] <= step]
            write_text(self.folder / name, "".join(kept))
        for signs in _lines(self.folder / "metrics.jsonl"):
            self.watch.see(signs)
        self.warnings = _lines(self.folder / "warnings.jsonl")
        with damage(self.folder / "progress.csv"), open(self.folder / "progress.csv", newline="") as file:
            for row in csv.DictReader(file):
                self.episodes, self.seconds_before = int(row["episodes"]), float(row["seconds"])
        with damage(self.folder / "evaluations.csv"), open(self.folder / "evaluations.csv", newline="") as file:
            by_step: dict[int, list[Episode]] = {}
            for row in csv.DictReader(file):
                success = float(row["success"]) if row["success"] else None
                episode = Episode(float(row["return"]), int(row["length"]), success)
                by_step.setdefault(int(row["env_step"]), []).append(episode)
        for at, episodes in by_step.items():
            self.last_evaluation = episodes
            self._show_evaluation(at, episodes)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._began

    @property
    def updates(self) -> int:
        return self.agent.updates

    def progress(
        self, episodes: Sequence[Episode], metrics: dict[str, Any] | None, dropped_steps: int = 0
    ) -> None:
        """One row about the time since the last: `episodes` that ended, and the learner's latest metrics.

        `dropped_steps` are those of the whole run.
        """
        agent, status = self.agent, self.display.status
        # Reading the metrics waits for the updates under way, so that they are counted in the time they took.
        signs = health.signs_of_training(agent, metrics, dropped_steps)
        marked, updates, env_steps = self._marked
        elapsed = time.monotonic() - marked
        rate = (self.updates - updates) / elapsed
        self.episodes += len(episodes)
        length = sum(episode.length for episode in episodes) / len(episodes) if episodes else None
        total, success = mean_total(episodes), mean_success(episodes)
        row = (agent.env_steps, agent.decisions, self.updates, self.episodes, total, length, success)
        self._append("progress.csv", (*row, round(self.seconds, 3), round(rate, 2)))
        self._signs(signs)
        status.env_step = agent.env_steps
        status.training_return = status.training_return if total is None else total
        status.updates_per_second = rate
        status.env_steps_per_second = (agent.env_steps - env_steps) / elapsed
        self.display.refresh()
        self._mark()

    def evaluation(self, episodes: Sequence[EvaluationEpisode]) -> None:
        step = self.agent.env_steps
        for number, episode in enumerate(episodes):
            self._append("evaluations.csv", (step, number, episode.total, episode.length, episode.success))
        self.last_evaluation = episodes
        if self.updates:  # before them the critic knows nothing
            self._signs(health.signs_of_evaluation(episodes))
        self._show_evaluation(step, self.last_evaluation)
        self.display.refresh(evaluated=True)
        self.callbacks.on_evaluation(self.agent, episodes)
        self._mark()  # the rates are about training

    def checkpoint(self, loop: Loop) -> None:
        """Save the run as it is now, the rows written so far first: a resumed run goes on behind them."""
        divergence.check(self.agent, loop.metrics, self.folder)
        for name in ("progress.csv", "evaluations.csv", "metrics.jsonl", "warnings.jsonl"):
            sync(self.folder / name)
        saved = self.history.save(self.agent, loop)
        if saved is not None:
            self.callbacks.on_checkpoint(self.agent, saved)

    def failure(self, error: Exception) -> None:
        """Why the run ended before its time, for its report; on a full disk even that may be too much."""
        with suppress(OSError):
            write_json(self.folder / FAILURE, {"error": str(error), "env_step": self.agent.env_steps})

    def forget_failure(self) -> None:
        """The run goes on: what stopped it is mended."""
        (self.folder / FAILURE).unlink(missing_ok=True)

    def finish(self, dropped_steps: int) -> dict[str, Any]:
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
            "updates": self.updates,
            "dropped_steps": dropped_steps,
            "final_return": total,
            "final_success": success,
            "normalized_score": None if score is None else normalized_score(scored, score),
            "seconds": round(self.seconds, 1),
            "updates_per_second": round(self.updates / self.seconds, 2),
            "seconds_per_action": _seconds_per_action(agent),
            "params_sha256": checkpoint.params_sha256(agent),
            "parameters": counts._asdict(),
            "measures": {name: value for name, value in self.watch.now.items() if "/" in name},
            "warnings": self.warnings,
            "versions": versions(),
        }
        write_json(self.folder / "summary.json", summary)
        return summary

    def _signs(self, signs: dict[str, float]) -> None:
        """A line of metrics, and what it shows of trouble."""
        at = self.agent.env_steps
        line = {"env_step": at, "updates": self.updates, **signs}
        self._append_json("metrics.jsonl", line)
        self.callbacks.on_metrics(self.agent, line)
        for warning in self.watch.see(signs):
            self.warnings.append(health.as_json(warning, at))
            self._append_json("warnings.jsonl", self.warnings[-1])
            self.display.warn(f"{warning.name}: {warning.text}", warning.remedy)

    def _mark(self) -> None:
        self._marked = (time.monotonic(), self.updates, self.agent.env_steps)

    def _show_evaluation(self, step: int, episodes: Sequence[Episode | EvaluationEpisode]) -> None:
        status = self.display.status
        status.env_step = step
        status.success = mean_success(episodes)
        total = mean_total(episodes)
        if total is not None:
            status.evaluations.append((step, total))

    def _append_json(self, name: str, data: dict[str, Any]) -> None:
        append(self.folder / name, json.dumps(data) + "\n")

    def _append(self, name: str, values: Sequence[Any]) -> None:
        row = io.StringIO()
        csv.writer(row, lineterminator="\n").writerow(["" if value is None else value for value in values])
        append(self.folder / name, row.getvalue())


def read_metrics(run: Path) -> list[dict[str, float]]:
    """The lines of a run's metrics; none for a saved agent, which has no such file."""
    file = run / "metrics.jsonl"
    return _lines(file) if file.is_file() else []


def _lines(file: Path) -> list[dict[str, Any]]:
    with damage(file):
        return [json.loads(line) for line in file.read_text().splitlines()]


def _seconds_per_action(agent: Agent, times: int = 20) -> float:
    """The median time of one decision for one observation, once acting is compiled."""
    observation = np.zeros((1, agent.task.observation_size), np.float32)
    agent.act(observation, noise=0.0)
    took = []
    for _ in range(times):
        began = time.perf_counter()
        agent.act(observation, noise=0.0)
        took.append(time.perf_counter() - began)
    return round(statistics.median(took), 6)
