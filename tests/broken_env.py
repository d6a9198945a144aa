"""`broken_env:Broken-v0`: an environment that fails after as many steps as it can bear."""

import gymnasium as gym
import numpy as np


class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps > 290:
            raise RuntimeError("the gripper is stuck")
        return np.zeros(3, np.float32), 0.0, False, False, {}


gym.register("Broken-v0", entry_point=Broken, max_episode_steps=100)
