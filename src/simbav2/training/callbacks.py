"""What a training loop reports to: the user's callbacks, and the logger that calls them.

A callback may read everything and should change nothing: the run then ends with the same bits as without it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simbav2.actor_critic import ActorCritic
from simbav2.training.evaluate import EvaluationEpisode, evaluation_metrics


class Callback:
    """Override what you need; the rest does nothing. `agent` is the `simbav2.Agent` that trains.

    Set `stop_requested` to stop after the current decision. The run is then saved, and can be resumed, as
    after Ctrl-C.
    """

    stop_requested: bool = False

    def on_start(self, agent: Any, run: Path | None) -> None:
        """Training starts or is resumed; `run` is the run's folder, None in `agent.learn`."""

    def on_step(self, agent: Any) -> None:
        """One decision was taken in every environment, with the updates due after it."""

    def on_metrics(self, agent: Any, metrics: Mapping[str, float]) -> None:
        """Numbers of the training so far, every `schedule.log_every` steps, or of an evaluation.

        In a run `metrics` is the line that went to `metrics.jsonl`; `agent.learn` leaves out the norms.
        """

    def on_evaluation(self, agent: Any, episodes: Sequence[EvaluationEpisode]) -> None:
        """The deterministic policy played these episodes."""

    def on_checkpoint(self, agent: Any, checkpoint: Path) -> None:
        """The run was saved in the folder `checkpoint`."""

    def on_end(self, agent: Any) -> None:
        """Training ended, whatever ended it; called also after an error."""


class Logger(ABC):
    """What the training loop reports to; calls the callbacks in their order."""

    def __init__(self, agent: ActorCritic, callbacks: Sequence[Callback] = ()) -> None:
        self.agent, self.callbacks = agent, tuple(callbacks)
        self.reset_rates()

    def reset_rates(self) -> None:
        self._since = time.monotonic(), self.agent.updates, self.agent.env_steps

    def rates(self) -> tuple[float, float]:
        """Updates and simulator steps per second since `reset_rates`."""
        at, updates, env_steps = self._since
        seconds = max(time.monotonic() - at, 1e-9)
        return (self.agent.updates - updates) / seconds, (self.agent.env_steps - env_steps) / seconds

    @property
    def stop_requested(self) -> bool:
        return any(callback.stop_requested for callback in self.callbacks)

    def call(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self.agent, *arguments)

    @abstractmethod
    def progress(self, last: bool) -> None:
        """Log the time since the last log; `last` where training ends here."""

    def line(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {"env_step": self.agent.env_steps, "updates": self.agent.updates, **metrics}

    def metrics(self, metrics: Mapping[str, float]) -> None:
        self.call("on_metrics", self.line(metrics))

    def evaluation(self, episodes: Sequence[EvaluationEpisode]) -> None:
        if self.agent.updates:  # before them the critic knows nothing
            self.metrics(evaluation_metrics(episodes))
        self.call("on_evaluation", episodes)
        self.reset_rates()  # the rates are about training

    def checkpoint(self, since: int | None = None) -> None:  # noqa: B027  without a run folder there is none
        """Save, with `since` only if a checkpoint is due between that step and now."""
