"""Run an environment with an exported policy: NumPy or onnxruntime, without JAX or simbav2.

    simbav2 export RUN --format numpy --out policy.npz    # or --format onnx --out policy.onnx
    python deploy.py policy.npz --episodes 3              # simbav2_policy.py is in the same folder

The policy's metadata names the environment it was trained on. If that is not a Gymnasium id, give `--env ID`.
"""

import argparse
import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np


def load(file: Path):
    """The policy as a function of one observation, and its metadata."""
    if file.suffix == ".npz":
        sys.path.insert(0, str(file.resolve().parent))
        from simbav2_policy import Policy

        policy = Policy(file)
        return policy, policy.metadata
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the network is too small for more
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    texts = session.get_modelmeta().custom_metadata_map
    metadata = {name: texts[name] for name in ("task",)} | {"action_repeat": json.loads(texts["action_repeat"])}
    return lambda observation: session.run(None, {"observation": observation[None]})[0][0], metadata


def play(env: gym.Env, policy, action_repeat: int, seed: int) -> tuple[float, int]:
    """The return and the decisions of one episode."""
    observation, _ = env.reset(seed=seed)
    total, decisions, over = 0.0, 0, False
    while not over:
        flat = gym.spaces.flatten(env.observation_space, observation).astype(np.float32)
        action = policy(flat).reshape(env.action_space.shape)
        decisions += 1
        for _ in range(action_repeat):
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
            if over:
                break
    return total, decisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path, help="policy.npz or policy.onnx")
    parser.add_argument("--env", help="a Gymnasium id (default: the one trained on)")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    policy, metadata = load(options.policy)
    with gym.make(options.env or metadata["task"].removeprefix("mujoco/")) as env:
        for episode in range(options.episodes):
            total, decisions = play(env, policy, metadata["action_repeat"], options.seed + episode)
            print(f"episode {episode}: return {total:.1f} in {decisions} decisions")
    assert not {"jax", "simbav2"} & set(sys.modules)


if __name__ == "__main__":
    main()
