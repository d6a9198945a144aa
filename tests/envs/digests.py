"""Short random trajectories, as sums that another process can be compared with: python digests.py TASK ..."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from simbav2.envs.make import make_env

DECISIONS = 10


def digest(name: str) -> str:
    """All that two episodes of a task give, bit by bit."""
    found = hashlib.sha256()
    with make_env(name, seed=3) as env:
        random = np.random.default_rng(0)
        for _ in range(2):
            observation, _ = env.reset()
            found.update(observation.tobytes())
            for _ in range(DECISIONS):
                action = random.uniform(-1, 1, env.action_space.shape).astype(np.float32)
                observation, reward, terminated, truncated, _ = env.step(action)
                found.update(observation.tobytes() + np.array([reward, terminated, truncated]).tobytes())
                if terminated or truncated:
                    break
    return found.hexdigest()


if __name__ == "__main__":
    found = {name: digest(name) for name in sys.argv[1:]}
    print(json.dumps(found))
    # Gymnasium's own tasks bring their viewer along; ours import one only to draw.
    ours = not any(name.startswith("mujoco/") for name in found)
    assert not (ours and "gymnasium.envs.mujoco.mujoco_rendering" in sys.modules), "nobody asked for pictures"
