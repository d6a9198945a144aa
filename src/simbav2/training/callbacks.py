"""What others want to do while an agent trains: one class whose methods are called as things happen.

A callback may look at everything and should change nothing: the run then ends with the same bits as without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simbav2.training.evaluate import Played

if TYPE_CHECKING:
    from simbav2.agent import SimbaV2


class Callback:
    """Override what you need; the rest does nothing.

    Set `stop_requested` to stop after the decision under way. A run stopped so is saved, and can be resumed, as
    after Ctrl-C.
    """

    stop_requested: bool = False

    def on_start(self, agent: SimbaV2, run: Path | None) -> None:
        """Training begins, or goes on after a stop; `run` is the run's folder, None in `agent.learn`."""

    def on_step(self, agent: SimbaV2) -> None:
        """One decision was taken in every environment, with the updates due after it."""

    def on_metrics(self, agent: SimbaV2, metrics: Mapping[str, float]) -> None:
        """A line went to `metrics.jsonl`; `metrics` is the whole line."""

    def on_evaluation(self, agent: SimbaV2, episodes: Sequence[Played]) -> None:
        """The deterministic policy played these episodes."""

    def on_checkpoint(self, agent: SimbaV2, checkpoint: Path) -> None:
        """The run was saved in the folder `checkpoint`."""

    def on_end(self, agent: SimbaV2) -> None:
        """Training ended, whatever ended it; called also after an error."""


class Callbacks(Callback):
    """Several callbacks, called in their order, as one."""

    def __init__(self, members: Sequence[Callback] = ()) -> None:
        self.members = tuple(members)

    @property
    def stop_requested(self) -> bool:  # type: ignore[override]
        return any(member.stop_requested for member in self.members)

    def on_start(self, agent: SimbaV2, run: Path | None) -> None:
        for member in self.members:
            member.on_start(agent, run)

    def on_step(self, agent: SimbaV2) -> None:
        for member in self.members:
            member.on_step(agent)

    def on_metrics(self, agent: SimbaV2, metrics: Mapping[str, float]) -> None:
        for member in self.members:
            member.on_metrics(agent, metrics)

    def on_evaluation(self, agent: SimbaV2, episodes: Sequence[Played]) -> None:
        for member in self.members:
            member.on_evaluation(agent, episodes)

    def on_checkpoint(self, agent: SimbaV2, checkpoint: Path) -> None:
        for member in self.members:
            member.on_checkpoint(agent, checkpoint)

    def on_end(self, agent: SimbaV2) -> None:
        for member in self.members:
            member.on_end(agent)
