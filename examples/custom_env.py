"""Your own environment, from its equations to a video and a deployed policy: a robot arm reaches a point.

    python examples/custom_env.py --out runs/arm        # trains, evaluates, records a video, exports: minutes

Two uniform rods in a horizontal plane, a motor in each joint. The arm and its frames need only NumPy.
"""

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np

LENGTH, MASS = 0.5, 1.0  # of each rod [m, kg]
TORQUE, FRICTION = 1.0, 0.3  # [Nm, Nms]
SUBSTEPS, SECONDS = 10, 0.005  # of the simulation, ten substeps per decision
NEAR, SLOW = 0.05, 0.2  # reached: [m, rad/s]


class Arm(gym.Env):
    """Reach a point and stay there. The reward is 1 at the point and falls with the distance to it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": round(1 / (SUBSTEPS * SECONDS))}  # noqa: RUF012
    action_space = gym.spaces.Box(-TORQUE, TORQUE, (2,), np.float32)
    observation_space = gym.spaces.Box(-np.inf, np.inf, (10,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # all randomness comes from self.np_random, so an episode can be replayed
        self.angles = self.np_random.uniform(-np.pi, np.pi, 2)
        self.speeds = np.zeros(2)
        radius, direction = self.np_random.uniform(0.3, 0.9), self.np_random.uniform(-np.pi, np.pi)
        self.target = radius * np.array([np.cos(direction), np.sin(direction)])
        return self._observe(), {}

    def step(self, action):
        for _ in range(SUBSTEPS):
            self.speeds = self.speeds + SECONDS * self._acceleration(np.asarray(action, np.float64))
            self.angles = self.angles + SECONDS * self.speeds
        distance = float(np.linalg.norm(self._joints()[2] - self.target))
        reached = distance < NEAR and bool(np.abs(self.speeds).max() < SLOW)
        # It never terminates; the time limit below truncates it.
        return self._observe(), np.exp(-5 * distance), False, False, {"success": reached}

    def render(self):
        """The rods and the point, drawn from each pixel's distance to them."""
        axis = np.linspace(-1.1, 1.1, 240)
        pixels = np.stack(np.meshgrid(axis, -axis), axis=-1)
        frame = np.full((240, 240, 3), 255, np.uint8)
        frame[np.linalg.norm(pixels - self.target, axis=-1) < NEAR] = (214, 69, 65)
        shoulder, elbow, hand = self._joints()
        for start, end, colour in ((shoulder, elbow, (52, 73, 94)), (elbow, hand, (41, 128, 185))):
            along = np.clip((pixels - start) @ (end - start) / LENGTH**2, 0, 1)[..., None]
            frame[np.linalg.norm(pixels - start - along * (end - start), axis=-1) < 0.03] = colour
        return frame

    def _joints(self) -> np.ndarray:
        """Shoulder, elbow and hand [3, 2]."""
        directions = np.cumsum(self.angles)  # of the rods; the elbow's angle is relative to the upper arm
        rods = LENGTH * np.stack([np.cos(directions), np.sin(directions)], axis=-1)
        return np.cumsum([np.zeros(2), *rods], axis=0)

    def _acceleration(self, action: np.ndarray) -> np.ndarray:
        """Lagrange's equations of two rods: mass matrix times acceleration = torques - Coriolis forces."""
        a, b, c = MASS * LENGTH**2 * np.array([5 / 3, 1 / 2, 1 / 3])
        cos, sin = np.cos(self.angles[1]), np.sin(self.angles[1])
        first, second = self.speeds
        mass = np.array([[a + 2 * b * cos, c + b * cos], [c + b * cos, c]])
        coriolis = b * sin * np.array([-second * (2 * first + second), first**2])
        return np.linalg.solve(mass, TORQUE * action - FRICTION * self.speeds - coriolis)

    def _observe(self) -> np.ndarray:
        """Angles as points on the circle, which are continuous; the target relative to the hand."""
        angles = np.concatenate([np.cos(self.angles), np.sin(self.angles)])
        away = self.target - self._joints()[2]
        return np.concatenate([angles, self.speeds, self.target, away]).astype(np.float32)


gym.register("Arm-v0", entry_point=Arm, max_episode_steps=100)


def main() -> None:
    # Imported here: the arm itself, as examples/deploy.py uses it, needs neither simbav2 nor JAX.
    from simbav2 import Agent
    from simbav2.interop import export_policy
    from simbav2.training import run
    from simbav2.training.video import record_video

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-steps", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/arm"))
    options = parser.parse_args()
    settings = {"env_steps": options.env_steps, "schedule.evaluate_every": options.env_steps // 6}
    agent = Agent("Arm-v0", preset="quick", seed=options.seed, **settings)
    summary = run.start(agent, options.out, overwrite=True)
    if summary is None:
        print(f"stopped; continue with run.resume({str(options.out)!r})")
        return
    print(f"return {summary['final_return']:.1f}, reached in {summary['final_success']:.0%} of the episodes")
    record_video(agent, options.out / "arm.mp4", episodes=2)
    exported = export_policy(agent, "numpy", options.out / "policy.npz")
    print(f"video: {options.out / 'arm.mp4'}\npolicy: {', '.join(map(str, exported.files))}")


if __name__ == "__main__":
    main()
