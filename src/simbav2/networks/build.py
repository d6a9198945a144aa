"""From a config to its networks."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from simbav2.config import Config
from simbav2.networks.critics import CriticNetwork, Ensemble, Value, value
from simbav2.networks.policies import Actions, PolicyNetwork, Temperature, temperature
from simbav2.types import Array, Params, Variables


@dataclass(frozen=True)
class Networks:
    policy: PolicyNetwork
    temperature: Temperature | None  # None where the policy has no entropy
    critic: Ensemble
    value: Value
    observation_size: int
    action_size: int

    def init(self, key: Array) -> tuple[Variables, Variables]:
        """Fresh variables of the actor and of the critics."""
        actor_key, critic_key = jax.random.split(key)
        observation, action = jnp.zeros((1, self.observation_size)), jnp.zeros((1, self.action_size))
        actor = self.policy.init(actor_key, observation)
        critic = self.critic.init(critic_key, observation, action)
        return Variables(actor["params"], actor.get("batch_stats")), critic

    def actions(self, actor: Variables, observation: Array, training: bool = False) -> tuple[Actions, Params]:
        """By the running batch statistics, or in `training` by those of the batch; also those after the pass."""
        distribution, moved = self.policy.apply(
            actor.collections, observation, mutable=["batch_stats"] if training else []
        )
        return distribution, moved.get("batch_stats")

    def q(self, critic: Variables, observation: Array, action: Array, dropout: Array | None = None) -> Array:
        """The mean return by every critic [critics, B], in scaled units."""
        return self.value.mean(self.critic.apply(critic, observation, action, dropout)[0])


def build(config: Config, observation_size: int, action_size: int) -> Networks:
    assert config.critic.num_critics is not None, "resolve the config first"
    meaning = value(config.value)
    return Networks(
        policy=PolicyNetwork(config.policy, config.actor, action_size),
        temperature=temperature(config.policy, action_size),
        critic=Ensemble(CriticNetwork(config.critic, meaning.size), config.critic.num_critics),
        value=meaning,
        observation_size=observation_size,
        action_size=action_size,
    )
