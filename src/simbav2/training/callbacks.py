"""Callbacks: methods that are called while an agent trains.

A callback may read everything and should change nothing: the run then ends with the same bits as without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simbav2.training.evaluate import EvaluationEpisode


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


class Callbacks:
    """Several callbacks, called in their order."""

    def __init__(self, members: Sequence[Callback] = ()) -> None:
        self.members = tuple(members)

    @property
    def stop_requested(self) -> bool:
        return any(member.stop_requested for member in self.members)

    def call(self, event: str, *arguments: Any) -> None:
        for member in self.members:
            getattr(member, event)(*arguments)
