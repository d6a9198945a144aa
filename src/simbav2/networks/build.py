"""From a config to its networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

    def actions(self, actor: Params, observation: Array, batch_stats: Params = None) -> Actions:
        """With the running batch statistics."""
        distribution: Any = self.policy.apply(Variables(actor, batch_stats).collections, observation)
        return distribution

    def actions_training(self, actor: Params, observation: Array, batch_stats: Params) -> tuple[Actions, Params]:
        """With the statistics of the batch; also the running statistics after it."""
        distribution, moved = self.policy.apply(
            Variables(actor, batch_stats).collections, observation, mutable=["batch_stats"]
        )
        return distribution, moved.get("batch_stats")

    def q(
        self,
        critic: tuple[Params, ...],
        observation: Array,
        action: Array,
        batch_stats: Params = None,
        dropout: Array | None = None,
    ) -> Array:
        """The mean return by every critic [critics, B], in scaled units."""
        return self.value.mean(self.critic.apply(critic, observation, action, batch_stats, dropout))


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
