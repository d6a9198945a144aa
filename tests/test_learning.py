"""Presets and ablations learn what is known to be right; tests/learning.py has the quantities and their bounds."""

from dataclasses import replace

import pytest
from learning import EXPERIMENTS, SAME_AS_SIMBAV2, chain_settings
from toys import Chain

from simbav2 import SimbaV2

# `make test` learns with few of them, `make test-all` with all of them and with the ablations.
EVERY_TIME = ("chain simbav2", "chain sac", "offline")


@pytest.mark.numerics
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EVERY_TIME else pytest.mark.full) for name in EXPERIMENTS]
)
def test_learned(name):
    EXPERIMENTS[name].check()


@pytest.mark.parametrize("name", SAME_AS_SIMBAV2)
def test_presets_without_an_experiment_would_learn_the_same_as_simbav2(name):
    one, other = (
        SimbaV2(lambda: Chain(2), preset=preset, **chain_settings(preset)).config for preset in ("simbav2", name)
    )
    assert replace(other, preset=one.preset, schedule=one.schedule) == one
