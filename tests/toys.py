"""Environments whose value is known, and a tiny agent to learn them."""

from typing import Any

import gymnasium as gym
import numpy as np

TINY = {
    "actor.width": 16,
    "critic.width": 16,
    "critic.depth": 1,
    "replay.batch_size": 64,
    "replay.capacity": 5_000,
    "warmup_decisions": 200,
    "learning_rate": "Constant",
    "learning_rate.rate": 3e-3,
}
# To learn a `Chain` in seconds. Tests that have no reason for others take these, and share the compiled programs.
CHAIN = {"discount": 0.9, "updates_per_decision": 8}


class Chain(gym.Env):
    """`length` steps, then the end; the reward of the last step is 1 - (action - 0.5)^2, of the others 0.

    The best action in the last step is 0.5, the best value 1 there and gamma one step earlier. The observation
    is where the chain stands and a random number that means nothing.
    """

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length: int = 1) -> None:
        self.length = length
        self.at = 0
        self.noise = 0.0

    def _observation(self) -> np.ndarray:
        return np.array([self.at / self.length, self.noise], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.at = 0
        self.noise = self.np_random.uniform(-1, 1)
        return self._observation(), {}

    def step(self, action: np.ndarray):
        self.at += 1
        over = self.at == self.length
        reward = 1.0 - (float(action[0]) - 0.5) ** 2 if over else 0.0
        return self._observation(), reward, over, False, {}
