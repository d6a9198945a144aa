"""Methods and ablation changes: each changes what it says, and nothing else."""

import pytest

from simbav2.config import presets
from simbav2.errors import InputError

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


def test_an_ablation_is_refused_where_its_part_is_missing():
    with pytest.raises(InputError, match=r"'e' .* does not apply to preset 'simba'.*Categorical"):
        presets.preset("simba", "e")
    with pytest.raises(InputError, match="does not apply to preset 'sac'"):
        presets.preset("sac", "a")
    with pytest.raises(InputError, match="unknown ablation 'z'; ablations are a, b"):
        presets.preset("paper", "z")


def test_simba_plus_is_simba_with_the_critic_rewards_and_learning_rate_of_simbav2():
    differs = presets.difference(presets.preset("simba-plus"), presets.preset("simba"))
    assert set(differs) == {
        *("preset", "value", "value.low", "value.high", "value.atoms"),
        *("rewards", "rewards.bound", "rewards.epsilon"),
        *("learning_rate", "learning_rate.initial", "learning_rate.final"),
    }
    assert presets.simba_plus.learning_rate == presets.simbav2.learning_rate
