"""Data sets from runs: what a run has experienced, or new episodes of its policies.

The mixtures are D4RL's. `medium` is a policy a third of the way to the run's last one; `medium-replay` is all
the run experienced until then; `medium-expert` is half medium, half the last policy. New episodes are played
with the policy's own noise, as D4RL's were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from simbav2.agent import Agent
from simbav2.checkpoint import rotation
from simbav2.datasets import LEVELS, hdf5
from simbav2.datasets.hdf5 import Episode
from simbav2.envs.vector import check_dropped, make_vector_env
from simbav2.errors import InputError
from simbav2.replay import Replay
from simbav2.training.logger import read_evaluations


def write(
    runs: Sequence[Path], out: Path, level: str | None, episodes: int | None, transitions: int, seed: int
) -> int:
    """One file of several runs of one task: their mixtures of `level`, `episodes` new ones each, or replays."""
    for name, value in (("--episodes", episodes), ("--transitions", transitions)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; expected at least 1")
    tasks = {rotation.load(run).task.id for run in runs}
    if len(tasks) > 1:
        raise InputError(f"the runs are of several tasks ({', '.join(sorted(tasks))}); expected one")

    def of(run: Path) -> Iterator[Episode]:
        if level is not None:
            return mixture(run, level, transitions, seed)
        return experience(run) if episodes is None else islice(fresh(Agent.load(run), seed), episodes)

    return hdf5.write(out, tasks.pop(), chain.from_iterable(map(of, runs)))


def experience(run: Path, env_steps: int | None = None) -> Iterator[Episode]:
    """What the replay of a run holds of its first `env_steps`, episode by episode."""
    saved, _ = rotation.load_run(run)
    config, replay = saved.config, saved.replay
    assert replay is not None
    if config.offline_updates:
        raise InputError(f"{run} learned from data itself; expected a run of `simbav2 train`")
    last = replay.added
    if env_steps is not None:
        later = saved.decisions - env_steps // (config.action_repeat or 1)
        last -= max(0, -(-later // config.num_envs))
    if last <= replay.oldest:
        raise InputError(f"the replay of {run} holds none of its first {env_steps:,} steps any more")
    return _episodes(replay, replay.oldest, last)


def _episodes(replay: Replay, first: int, last: int) -> Iterator[Episode]:
    """The steps [first, last), environment by environment. The episode running at `last` is cut there."""
    part = replay.export_rows(first, last + 1)  # one more, for the observation that the last step led to
    final = dict(zip(part["ended"].tolist(), part["final_observation"], strict=True))
    dropped = set(part["dropped"].tolist()) if "dropped" in part else set()
    for env in range(replay.num_envs):
        rows = np.arange(env, len(part["reward"]), replay.num_envs)
        start = 0
        for at, row in enumerate(rows[:-1]):
            if row in dropped:
                start = at + 1
            elif row in final or at == len(rows) - 2 or rows[at + 1] in dropped:
                steps = rows[start : at + 1]
                successor = final.get(int(row), part["observation"][rows[at + 1]])
                yield Episode(
                    np.concatenate([part["observation"][steps], successor[None]]),
                    part["action"][steps],
                    part["reward"][steps],
                    bool(part["terminated"][row]),
                )
                start = at + 1


def fresh(agent: Agent, seed: int) -> Iterator[Episode]:
    """Episodes without end, played by the policy with its noise."""
    config = agent.config
    with make_vector_env(agent.source, seed, 1, config.action_repeat, config.drop_bad_steps) as envs:
        observation = envs.reset()
        path: list[tuple[np.ndarray, np.ndarray, float]] = []
        decisions = dropped = 0
        while True:
            action = agent.act(observation, noise=1.0)
            agent.decisions += 1  # the noise is a function of it
            step = envs.step(action)
            decisions += 1
            if step.dropped[0]:
                dropped += 1
                check_dropped(dropped, decisions, envs)
                last = observation[0]  # what was acted on in vain; the episode is cut there
            else:
                path.append((observation[0], action[0], float(step.reward[0])))
                last = step.next_observation[0]
            observation = step.observation
            if path and (step.terminated[0] or step.truncated[0] or step.dropped[0]):
                observations, actions, rewards = zip(*path, strict=True)
                yield Episode(
                    np.stack([*observations, last]),
                    np.stack(actions),
                    np.array(rewards, np.float32),
                    bool(step.terminated[0]),
                )
                path = []


def take(episodes: Iterator[Episode], transitions: int) -> Iterator[Episode]:
    """The first `transitions` of `episodes`; the last one is cut to fit."""
    while transitions:
        observation, action, reward, terminated = next(episodes)
        count = min(transitions, len(reward))
        yield Episode(
            observation[: count + 1], action[:count], reward[:count], terminated and count == len(reward)
        )
        transitions -= count


def mixture(run: Path, level: str, transitions: int, seed: int = 0) -> Iterator[Episode]:
    """The data set called `level`, made from the checkpoints of a run."""
    medium, expert = _stages(run)
    match level:
        case "medium":
            return take(fresh(Agent.load(medium), seed), transitions)
        case "medium-replay":
            return experience(run, int(medium.name))
        case "medium-expert":
            half = transitions // 2
            return chain(
                take(fresh(Agent.load(medium), seed), half),
                take(fresh(Agent.load(expert), seed + 1), transitions - half),
            )
    raise InputError(f"unknown mixture {level!r}; expected {', '.join(LEVELS)}")


def _stages(run: Path) -> tuple[Path, Path]:
    """The checkpoints of the medium and of the last policy, by the run's own evaluations."""
    kept = rotation.checkpoints(run)[::-1]
    if len(kept) < 2:
        raise InputError(
            f"{run} holds {len(kept)} checkpoints; a mixture needs earlier policies as well: train with "
            "--keep 20 --schedule.checkpoint-every 5000"
        )
    evaluations = read_evaluations(run)

    def score(env_step: int) -> float:
        """The mean return of the last evaluation up to a step."""
        latest = max(step for step in evaluations if step <= env_step)
        return float(np.mean([episode.total for episode in evaluations[latest]]))

    *earlier, expert = kept
    untrained, trained = score(0), score(int(expert.name))
    wanted = untrained + (trained - untrained) / 3
    return min(earlier, key=lambda path: abs(score(int(path.name)) - wanted)), expert
