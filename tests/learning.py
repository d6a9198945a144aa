"""The learning tests in one table: how a seed gives each quantity, and the bounds it must stay within.

tests/test_learning.py checks one seed of every experiment, tests/margins.py measures the same experiments over
many seeds. Another processor rounds differently, and what it learns differs as if by another seed: a bound that is
less than four standard deviations away from the mean would fail somewhere.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from math import inf
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from toys import TINY, Chain

from simbav2 import SimbaV2
from simbav2.config import Constant, Hyperspherical, presets
from simbav2.datasets import hdf5
from simbav2.training.offline import make_agent


class Bounds(NamedTuple):
    low: float
    high: float


class Experiment(NamedTuple):
    run: Callable[[int], dict[str, float]]  # seed -> quantities
    bounds: dict[str, Bounds]  # of the same quantities

    def check(self, seed: int = 0) -> None:
        for name, value in self.run(seed).items():
            low, high = self.bounds[name]
            assert low < value < high, f"{name} is {value:.4f}; expected between {low} and {high}"


# A chain of two steps, by every preset and every ablation. ---------------------------------------------------

DISCOUNT = 0.5  # far from 0 and from 1: without bootstrapping, or without discounting, the first value is off
STEPS = 700
CHAIN_BOUNDS = {
    "action": Bounds(0.3, 0.7),  # the best is 0.5
    "value of 0.5": Bounds(0.9, 1.1),
    "value of -0.5": Bounds(-0.4, 0.4),  # seldom tried once 0.5 is known
    "value before": Bounds(DISCOUNT - 0.1, DISCOUNT + 0.1),
}
# Statistics of batches of 32 add noise to the values.
BATCH_NORM_BOUNDS = CHAIN_BOUNDS | {"value of -0.5": Bounds(-0.6, 0.6), "value before": Bounds(0.3, 0.7)}
# The observation's second number means nothing: averaging over it removes the noise that it causes.
MEANINGLESS = np.linspace(-1, 1, 21)


def chain_settings(preset: str, ablation: str | None = None) -> dict[str, object]:
    """As TINY, with a learning rate that learns the chain in 2,000 updates; its schedule stays the preset's."""
    config = presets.preset(preset, ablation)
    # Weights on the sphere bear a high rate. A plain network does not: the actor of DDPG would saturate.
    spherical = isinstance(config.actor.architecture, Hyperspherical)
    if isinstance(config.learning_rate, Constant):
        rates = {"learning_rate.rate": 5e-3 if spherical else 2e-3}
    else:
        initial = 2e-2 if spherical else 3e-3
        rates = {"learning_rate.initial": initial, "learning_rate.final": initial / 20}
    small = {name: value for name, value in TINY.items() if not name.startswith("learning_rate")}
    sizes = {"actor.width": 32, "critic.width": 32, "replay.batch_size": 32}
    if ablation == "l":  # with one block it would change nothing
        sizes["critic.depth"] = 2
    if config.actor_every > 4:  # 2,000 updates are few
        sizes["actor_every"] = 4
    updates = 4 if config.actor_every == 1 else 8  # as many of the actor, or more
    return small | sizes | rates | {"env_steps": STEPS, "discount": DISCOUNT, "updates_per_decision": updates}


def learn_chain(preset: str, ablation: str | None, seed: int) -> dict[str, float]:
    agent = SimbaV2(
        lambda: Chain(2), seed=seed, preset=preset, ablation=ablation, **chain_settings(preset, ablation)
    )
    assert agent.config.critic.num_critics >= 2
    agent.learn(STEPS, progress=False)

    def observations(at: float) -> np.ndarray:
        return np.stack([np.full_like(MEANINGLESS, at), MEANINGLESS], axis=1)

    first, last = observations(0.0), observations(0.5)
    actions = np.repeat([0.5, -0.5, 0.5], len(MEANINGLESS))[:, None]
    values = agent.q_values(np.concatenate([last, last, first]), actions).mean(axis=0).reshape(3, -1)
    best, worse, before = values.mean(axis=1) * agent.normalizer.reward_scale
    return {
        "action": agent.predict(last)[0].mean(),
        "value of 0.5": best,
        "value of -0.5": worse,
        "value before": before,
    }


# Dataset data: one step, uniform actions. -----------------------------------------------------------------

TASK = "OfflineChain-v0"
ROWS = 600
gym.register(TASK, entry_point=lambda render_mode=None: Chain(), max_episode_steps=50)


def write_chain(path: Path) -> None:
    """Episodes of one step; the mean of their actions is 0, the best action is 0.5."""
    half = np.random.default_rng(0).uniform(-1, 1, ROWS // 2)
    observation = np.array([[0, 0], [1, 0]], np.float32)
    episodes = [
        hdf5.Episode(observation, np.array([[a]]), np.array([1 - (a - 0.5) ** 2], np.float32), terminated=True)
        for a in np.concatenate([half, -half]).astype(np.float32)
    ]
    hdf5.write(path, TASK, episodes)


def learn_from_data(preset: str, seed: int) -> dict[str, float]:
    settings = TINY | {
        "learning_rate": "LinearDecay",
        "learning_rate.initial": 1e-2,
        "learning_rate.final": 1e-3,
        "data.passes": 200,  # 1,900 updates
        "seed": seed,
    }
    del settings["learning_rate.rate"]
    with tempfile.TemporaryDirectory() as folder:
        write_chain(path := Path(folder) / "chain.hdf5")
        agent = make_agent(str(path), preset=preset, settings=settings)
    agent.learn(agent.config.env_steps, progress=False)
    return {"action": float(agent.predict(np.zeros(2))[0][0])}


# Others. ---------------------------------------------------------------------------------------------------


def sphere_example(seed: int) -> dict[str, float]:
    """The error that examples/sphere_with_optax.py prints last, as a share of the first."""
    path = Path(__file__).parents[1] / "examples" / "sphere_with_optax.py"
    spec = spec_from_file_location("sphere_with_optax", path)
    assert spec is not None
    assert spec.loader is not None
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    example.STEPS = 300
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        example.main(seed)
    first, *_, last = (float(line.split()[3]) for line in printed.getvalue().splitlines())
    return {"error left": last / first}


SAME_AS_SIMBAV2 = ("release", "quick")  # with the settings of the chain
PRESETS = {
    f"chain {name}": Experiment(
        partial(learn_chain, name, None), BATCH_NORM_BOUNDS if preset.config.critic.joint_batch else CHAIN_BOUNDS
    )
    for name, preset in presets.PRESETS.items()
    if not preset.config.imitates and name not in SAME_AS_SIMBAV2
}
ABLATIONS = {
    f"chain ablation {letter}": Experiment(partial(learn_chain, "paper", letter), CHAIN_BOUNDS)
    for letter in presets.ABLATIONS
}
OTHERS = {
    # Q(a) - 0.1 |Q| mean((a - data)^2), with |Q| nearly 1 and data of mean 0, is largest at 0.5 / 1.1 = 0.455.
    "offline": Experiment(partial(learn_from_data, "offline"), {"action": Bounds(0.355, 0.555)}),
    "cloning": Experiment(partial(learn_from_data, "cloning"), {"action": Bounds(-0.1, 0.1)}),
    "example sphere_with_optax": Experiment(sphere_example, {"error left": Bounds(-inf, 0.1)}),
}
EXPERIMENTS = PRESETS | ABLATIONS | OTHERS
