"""The systems, each a value made from another value: its difference is the whole line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from simbav2.config import Config, Hyperspherical, LinearDecay, Scaler, Schedule, leaves
from simbav2.envs.tasks import Task
from simbav2.errors import InputError, nearest


class Preset(NamedTuple):
    config: Config
    about: str


paper = Config()

_release_network = Hyperspherical(head_scaler=Scaler(initial=1.0, scale=1.0), head_bias=True)
release = replace(
    paper,
    updates_per_decision=None,
    learning_rate=LinearDecay(final=5e-5),
    actor=replace(paper.actor, architecture=_release_network),
    critic=replace(paper.critic, architecture=_release_network),
)

# Small networks learn fast with a high learning rate; docs/results.md has what was tried.
quick = replace(
    paper,
    env_steps=40_000,
    warmup_decisions=1_000,
    learning_rate=LinearDecay(initial=1e-3, final=1e-5),
    actor=replace(paper.actor, width=64),
    critic=replace(paper.critic, width=64),
    schedule=Schedule(evaluate_every=5_000, log_every=500),
)

PRESETS = {
    "paper": Preset(paper, "SimbaV2 as the paper writes it (sections 4 and 5, appendix of hyperparameters)"),
    "release": Preset(release, "SimbaV2 as the authors' released code runs it"),
    "quick": Preset(quick, "SimbaV2 with small networks and a short warm-up: minutes on a laptop"),
}
DEFAULT = "release"  # by measurement: docs/results.md


def preset(name: str) -> Config:
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; presets are {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    return replace(PRESETS[name].config, preset=name)


def given(config: Config, task: Task) -> dict[str, Any]:
    """What a resolved config changes in its preset, by dotted name."""
    base = replace(preset(config.preset), seed=config.seed).resolve(task)
    return {name: after for name, (_, after) in difference(config, base).items()}


def difference(config: Config, base: Config = paper) -> dict[str, tuple[Any, Any]]:
    """Dotted name -> (value in `base`, value in `config`), for every setting that differs."""
    ours, theirs = leaves(config), leaves(base)
    return {
        name: (theirs.get(name), ours.get(name)) for name in ours | theirs if ours.get(name) != theirs.get(name)
    }
