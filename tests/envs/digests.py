"""Short random trajectories, as sums that another process can be compared with: python digests.py TASK ..."""

from __future__ import annotations

import hashlib
import json
import sys

import gymnasium as gym
import numpy as np

from simbav2.envs.make import make_env

DECISIONS = 10


def digest(env: gym.Env) -> str:
    """All that the first two episodes of an environment give, bit by bit."""
    found = hashlib.sha256()
    random = np.random.default_rng(0)
    for seed in (3, None):
        observation, _ = env.reset(seed=seed)
        found.update(observation.tobytes())
        for _ in range(DECISIONS):
            action = random.uniform(-1, 1, env.action_space.shape).astype(np.float32)
            observation, reward, terminated, truncated, _ = env.step(action)
            found.update(observation.tobytes() + np.array([reward, terminated, truncated]).tobytes())
            if terminated or truncated:
                break
    return found.hexdigest()


if __name__ == "__main__":
    found = {name: digest(make_env(name)) for name in sys.argv[1:]}
    print(json.dumps(found))
    # Gymnasium's own tasks bring their viewer along; ours import one only to draw.
    ours = not any(name.startswith("mujoco/") for name in found)
    assert not (ours and "gymnasium.envs.mujoco.mujoco_rendering" in sys.modules), "nobody asked for pictures"
