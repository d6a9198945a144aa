"""The loops around the agent and the files they leave."""
