"""HumanoidBench: the 14 tasks of the Unitree H1 without hands, on MuJoCo and Gymnasium alone.

It behaves as HumanoidBench 0.2 (upstream commit 791405f) does, oddities included: the same seed and the same
actions give the same observations, rewards, endings and infos.
"""
