"""Training: one loop, in which data flows one way. Where there is recorded data, updates on it come first.

`Loop` is the innermost part, used by `agent.learn` as well (see `learning`); `train` adds what a run has beyond
it: logs, evaluations, checkpoints, and a stop that loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simbav2.envs.vector import check_dropped
from simbav2.errors import BadStep
from simbav2.training import divergence
from simbav2.training.evaluate import Episode, EpisodeCounter, evaluate
from simbav2.training.stopping import stop_signals

if TYPE_CHECKING:
    from simbav2.agent import Agent
    from simbav2.training.logger import RunLogger


class Loop:
    """Steps the environments, feeds the agent, and counts the episodes under way."""

    def __init__(self, agent: Agent, snapshot: dict[str, Any] | None = None) -> None:
        self.agent = agent
        self.episodes = EpisodeCounter(agent.config.num_envs)
        self.ended: list[Episode] = []  # since the last log of a run
        self.dropped_steps = 0  # of the whole run
        self.continued = True  # False where the episodes of the snapshot could not be gone on with
        self.observation = self._begin() if snapshot is None else self._restore(snapshot)
        self.metrics: dict[str, Any] | None = None  # of the latest updates, on the device

    def step(self) -> list[Episode]:
        """One decision in every environment and the updates due after it; returns the episodes that ended.

        As long as there are updates on recorded data to take, some of them instead. After a `BadStep` everything
        is as it was before, unless it says that too many steps were dropped: then this one has been taken.
        """
        agent = self.agent
        if agent.offline:
            self.metrics = agent.update()
            return []
        before = agent.warmup_rng.bit_generator.state
        statistics = agent.statistics
        try:
            agent.observe(self.observation)
            action = agent.explore(self.observation)
            step = agent.envs.step(action)
        except BadStep:
            agent.warmup_rng.bit_generator.state = before
            agent.statistics = statistics
            raise
        agent.record(self.observation, action, step)
        self.observation = step.observation
        self.metrics = agent.update() or self.metrics
        ended = [episode for env, episode in self.episodes.observe(step) if not step.dropped[env]]
        if step.dropped.any():
            self.dropped_steps += int(step.dropped.sum())
            try:
                check_dropped(self.dropped_steps, agent.replay.added * agent.config.num_envs, agent.envs)
            except BadStep:
                self.ended += ended  # the next log of the run tells of them
                raise
        return ended

    def restart(self) -> None:
        """Start new episodes in place of those under way."""
        self.observation = self.agent.abandon_episodes()
        self.episodes = EpisodeCounter(self.agent.config.num_envs)

    def snapshot(self) -> dict[str, Any]:
        """Where every environment is, as plain data."""
        return {
            "episodes": self.agent.envs.episodes,
            "totals": self.episodes.totals.tolist(),
            "lengths": self.episodes.lengths.tolist(),
            "successes": [None if np.isnan(value) else value for value in self.episodes.successes.tolist()],
            "ended": self.ended,
            "dropped_steps": self.dropped_steps,
        }

    def _begin(self) -> NDArray:
        if self.agent.offline:
            self.agent.fit()
        return self.agent.begin_episodes()

    def _restore(self, snapshot: dict[str, Any]) -> NDArray:
        """Go on in the middle of the episodes under way, by playing their actions again from their seeds."""
        agent, lengths = self.agent, snapshot["lengths"]
        self.ended = [Episode(*episode) for episode in snapshot["ended"]]
        self.dropped_steps = snapshot["dropped_steps"]
        # Of an episode longer than the replay not all actions are left.
        known = max(lengths) <= agent.replay.added - agent.replay.oldest
        actions = agent.replay.recent_actions(lengths if known else [0] * len(lengths))
        observation = agent.envs.restore(snapshot["episodes"], actions)
        self.continued = known and observation is not None and np.array_equal(observation, agent.replay.head)
        if observation is None or not self.continued:
            return agent.abandon_episodes()
        self.episodes.totals[:] = snapshot["totals"]
        self.episodes.lengths[:] = lengths
        self.episodes.successes[:] = [np.nan if value is None else value for value in snapshot["successes"]]
        return observation


def train(loop: Loop, until: int, recorder: RunLogger) -> bool:
    """Train to `until` simulator steps; False when a signal or a callback asked to stop before that."""
    agent, callbacks = loop.agent, recorder.callbacks
    schedule = agent.config.schedule
    with stop_signals() as stop, agent.make_evaluation_envs() as evaluation_envs:

        def look() -> None:
            # Numbered by the step, so that a resumed run meets the same episodes.
            first = agent.env_steps // schedule.evaluate_every * schedule.evaluation_episodes
            recorder.evaluation(evaluate(agent, evaluation_envs, schedule.evaluation_episodes, first))

        if agent.env_steps == 0:
            look()
        while agent.env_steps < until and not (stop.requested or callbacks.stop_requested):
            before, offline = agent.env_steps, agent.offline
            try:
                loop.ended += loop.step()
            except BadStep:
                recorder.checkpoint(loop)
                raise
            callbacks.on_step(agent)
            now = agent.env_steps
            last = now >= until
            learned = offline and not agent.offline  # all there is to learn from recorded data alone
            if last or now // schedule.log_every > before // schedule.log_every:
                # Measures come with the first log of every interval, so that a resumed run takes the same.
                due = (
                    last
                    or now // schedule.diagnostics_every > (now - schedule.log_every) // schedule.diagnostics_every
                )
                measures = agent.measure() if due and agent.updates else {}
                divergence.check(agent, loop.metrics, recorder.folder)
                recorder.progress(loop.ended, {**(loop.metrics or {}), **measures}, loop.dropped_steps)
                loop.ended = []
            if last or learned or now // schedule.evaluate_every > before // schedule.evaluate_every:
                look()
            if recorder.history.due(before, now):
                recorder.checkpoint(loop)
        recorder.checkpoint(loop)
    return agent.env_steps >= until
