"""Environments of known value, learned by every preset that learns by acting."""

import numpy as np
import pytest
from toys import TINY, Chain

from simbav2 import SimbaV2, presets
from simbav2.config import Return

ACTING = [name for name, preset in presets.PRESETS.items() if isinstance(preset.config.objective, Return)]


@pytest.mark.parametrize("preset", ACTING)
@pytest.mark.parametrize("length", [1, 2])
def test_value_and_best_action_are_learned(preset, length):
    discount = 0.9
    agent = SimbaV2(
        lambda: Chain(length), seed=1, preset=preset, **TINY, discount=discount, updates_per_decision=8
    )
    agent.learn(700)
    assert agent.config.critic.members == 2
    last = np.array([(length - 1) / length, 0.0], np.float32)
    action, _ = agent.predict(last)
    assert action[0] == pytest.approx(0.5, abs=0.15)
    scale = agent.normalizer.reward_scale
    value = agent.q_values(last, np.array([0.5])).mean() * scale
    assert value == pytest.approx(1.0, abs=0.1)
    worse = agent.q_values(last, np.array([-0.5])).mean() * scale
    assert worse == pytest.approx(0.0, abs=0.3)
    if length == 2:
        first = agent.q_values(np.zeros(2), np.array([0.5])).mean() * scale
        assert first == pytest.approx(discount, abs=0.15)
