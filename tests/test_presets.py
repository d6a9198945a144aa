"""Methods and ablation changes: each changes what it says, and nothing else."""

import jax
import numpy as np
import pytest
from toys import TINY

from simbav2.config import override, presets
from simbav2.errors import InputError
from simbav2.networks.build import build

# The paper's ablation study (table 2): setting -> value after the change. Networks change alike in both.
CHANGES = {
    "a": {"architecture.input.unit": False},
    "b": {"architecture.input": "Unshifted"},
    "c": {"architecture.input.constant": 1.0},
    "d": {"architecture.input": "Resized"},
    "e": {"value": "Scalar", "value.weight": 1.0},
    "f": {"rewards": "RawRewards"},
    "g": {"rewards.bound": None},
    "h": {"target": "HardTarget", "target.every": 200},
    "i": {"learning_rate": "Constant", "learning_rate.rate": 1e-4},
    "j": {"architecture.scaler.initial": 1.0},
    "k": {"architecture.scaler.scale": 1.0},
    "l": {"architecture.lerp.initial": 0.5},
    "m": {"architecture.lerp.scale": 1.0},
}


@pytest.mark.parametrize("ablation", presets.ABLATIONS)
def test_an_ablation_changes_what_it_claims_and_nothing_else(ablation):
    expected = {"ablation": ablation}
    for name, value in CHANGES[ablation].items():
        of_networks = name.startswith("architecture.")
        expected |= {f"{net}.{name}": value for net in ("actor", "critic")} if of_networks else {name: value}
    changed = presets.difference(presets.preset("paper", ablation), presets.preset("paper"))
    assert {name: after for name, (_, after) in changed.items()} == expected


def outputs(ablation: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The actor's and the critic's numbers at the start, on inputs of ordinary size."""
    config = override(
        presets.preset("paper", ablation), {**TINY, "critic.num_critics": 1, "critic.depth": 2, "actor.depth": 2}
    )
    networks = build(config, observation_size=5, action_size=2)
    actor, critic = networks.init(jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    observation, action = rng.normal(size=(64, 5)).astype("f"), rng.uniform(-1, 1, (64, 2)).astype("f")
    distribution, _ = networks.actions(actor, observation)
    numbers = np.concatenate([distribution.mean, distribution.log_std], axis=-1)
    return numbers, np.asarray(networks.critic.apply(critic, observation, action)[0])


@pytest.mark.numerics
@pytest.mark.parametrize(
    ("ablation", "same"),
    [
        ("j", True),
        ("l", False),
        *(pytest.param(*case, marks=pytest.mark.full) for case in (("k", True), ("m", True), ("c", False))),
    ],
)
def test_scalers_that_a_normalisation_follows_leave_the_function_alone(ablation, same):
    before, after = outputs(None), outputs(ablation)
    for one, other in zip(before, after, strict=True):
        assert np.allclose(one, other, atol=1e-5) == same


def test_an_ablation_is_refused_where_its_part_is_missing():
    with pytest.raises(InputError, match=r"'e' .* does not apply to preset 'simba'.*Categorical"):
        presets.preset("simba", "e")
    with pytest.raises(InputError, match="does not apply to preset 'sac'"):
        presets.preset("sac", "a")
    with pytest.raises(InputError, match="unknown ablation 'z'; ablations are a, b"):
        presets.preset("paper", "z")


def test_an_ablation_keeps_the_rest_of_its_preset():
    config = presets.preset("release", "j")
    assert config.critic.architecture.head_bias
    assert (config.preset, config.ablation) == ("release", "j")


def test_simba_plus_is_simba_with_the_critic_rewards_and_learning_rate_of_simbav2():
    differs = presets.difference(presets.preset("simba-plus"), presets.preset("simba"))
    assert set(differs) == {
        *("preset", "value", "value.low", "value.high", "value.atoms"),
        *("rewards", "rewards.bound", "rewards.epsilon"),
        *("learning_rate", "learning_rate.initial", "learning_rate.final"),
    }
    assert presets.simba_plus.learning_rate == presets.simbav2.learning_rate


@pytest.mark.parametrize("name", ["ddpg-simbav2", "ddpg-simba", "ddpg-mlp"])
def test_ddpg_has_no_temperature(name):
    config = override(presets.preset(name), {**TINY, "critic.num_critics": 1})
    assert build(config, 3, 2).temperature is None
