"""One frozen tree that decides a run. Plain data: importing it costs nothing.

The parts (`Hyperspherical`, `Gaussian`, `Categorical`, ...) say *what*; `networks`, `losses` and `learner` know
*how*. `None` means "as the task has it": `Config.resolve` fills such fields in, and a resolved config is what a
run folder holds.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from simbav2.config.tree import changes, check_bounds, setting
from simbav2.config.tree import leaves as leaves
from simbav2.config.tree import lookup as lookup
from simbav2.config.tree import override as override
from simbav2.config.tree import to_json as to_json
from simbav2.envs.tasks import Task
from simbav2.errors import DropBadSteps, InputError


@dataclass(frozen=True)
class Scaler:
    """A trainable vector that starts at `scale` and acts as `vector * initial / scale`.

    `None` is the paper's value: sqrt(2 / size) for scalers; 1 / (depth + 1) and 1 / sqrt(width) for the lerp.
    """

    initial: float | None = setting(None, "value that the vector acts with at the start")
    scale: float | None = setting(None, "value that is stored at the start; a smaller one learns faster")


@dataclass(frozen=True)
class Shifted:
    """Append `constant` (c_shift) to the input, then normalise: the input's length is not lost on the sphere."""

    constant: float = setting(3.0, "constant appended to the input (c_shift)")
    unit: bool = setting(True, "normalise after the shift")


@dataclass(frozen=True)
class Unshifted:
    """Normalise the input as it is; its length is lost."""


@dataclass(frozen=True)
class Resized:
    """Divide the input by `constant * sqrt(size)`, then append what it lacks to length one."""

    constant: float = setting(3.0, "divisor of the input, times sqrt(size)")


class Architecture:
    """Base of what a network can be. A frozen dataclass derived from it can be chosen by its name.

    One of your own says how it is built: both methods return a Flax module, the encoder's features are [B, any].
    """

    options: ClassVar[dict[str, type[Architecture]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.__base__ is Architecture:
            Architecture.options[cls.__name__] = cls

    def encoder(self, width: int, depth: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no encoder")

    def head(self, size: int, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no head")


@dataclass(frozen=True)
class Hyperspherical(Architecture):
    """Weights and features on the unit sphere (paper, section 4)."""

    input: Shifted | Unshifted | Resized = setting(Shifted(), "how the input is put on the sphere")
    scaler: Scaler = Scaler()
    lerp: Scaler = Scaler()
    head_scaler: Scaler = Scaler(initial=1.0, scale=1.0)
    head_bias: bool = setting(True, "add a bias to the output of the heads")


@dataclass(frozen=True)
class PreLayerNorm(Architecture):
    """Residual blocks behind a layer normalisation, and one more at their end."""


@dataclass(frozen=True)
class MLP(Architecture):
    """Linear layers with relu; dropout and layer normalisation come between the two (DroQ)."""

    dropout: float = setting(0.0, "share of hidden units dropped in every pass of an update", at_least=0, below=1)
    layer_norm: bool = setting(False, "normalise the hidden layers before the relu")
    init: Literal["orthogonal", "lecun"] = setting("orthogonal", "initialisation of the weights")


@dataclass(frozen=True)
class BatchNorm:
    """Plain batch normalisation."""

    epsilon: float = setting(1e-3, "added to the variance", above=0)
    momentum: float = setting(0.99, "share of the running statistics that an update keeps", at_least=0, below=1)


@dataclass(frozen=True)
class BatchRenorm(BatchNorm):
    """Batch renormalisation (CrossQ): after a warm-up, corrected towards the running statistics."""

    warmup: int = setting(100_000, "updates of plain batch normalisation before the correction", at_least=0)
    scale_bound: float = setting(3.0, "largest ratio of the deviations in the correction", at_least=1)
    shift_bound: float = setting(5.0, "largest difference of the means in the correction", at_least=0)


@dataclass(frozen=True)
class BatchNormMLP(Architecture):
    """Linear layers with relu and a batch normalisation each, and one more for the input (CrossQ, XQC)."""

    norm: BatchNorm | BatchRenorm = setting(BatchNorm(), "kind of batch normalisation")
    norm_first: bool = setting(True, "normalise before the relu, else after it")
    unit_weights: bool = setting(True, "weight vectors of unit norm and no hidden bias; false: free weights")


@dataclass(frozen=True)
class BatchNormResidual(Architecture):
    """Residual blocks with batch normalisation, an RMS norm at their end, all weights projected (FlashSAC)."""

    epsilon: float = setting(1e-5, "added to the variance", above=0)
    momentum: float = setting(0.99, "share of the running statistics that an update keeps", at_least=0, below=1)


@dataclass(frozen=True)
class Actor:
    width: int = setting(128, "hidden units of the actor", at_least=1)
    depth: int = setting(1, "blocks (hidden layers of an MLP) of the actor", at_least=1)
    architecture: Architecture = setting(Hyperspherical(), "network of the actor")
    joint_batch: bool = setting(False, "batch normalisation over observations and next observations together")
    statistics_when_skipped: bool = setting(False, "move batch statistics also in updates that skip the actor")


@dataclass(frozen=True)
class Critic:
    width: int = setting(512, "hidden units of each critic; 128 is four times as fast", at_least=1)
    depth: int = setting(2, "blocks (hidden layers of an MLP) of each critic", at_least=1)
    architecture: Architecture = setting(Hyperspherical(), "network of the critics")
    num_critics: int | None = setting(
        None, "critics; none: two where episodes can end early, else one", at_least=1
    )
    actor_q: Literal["min", "mean", "first"] = setting("min", "which of the critics' values the actor maximises")
    target_subset: int | None = setting(None, "critics drawn for each target (REDQ); none: all", at_least=1)
    loss: Literal["sum", "mean"] = setting("sum", "how the losses of the critics are combined")
    joint_batch: bool = setting(False, "batch normalisation over (o, a) and (o', a') together, targets too")


_NOISE_REPEAT = "most decisions for which exploration noise is held, the number drawn by a zeta law (FlashSAC)"


@dataclass(frozen=True)
class Gaussian:
    """A tanh-squashed Gaussian, trained with a temperature that seeks `target_entropy` per action dimension."""

    log_std_low: float = setting(-10.0, "lowest log standard deviation")
    log_std_high: float = setting(2.0, "highest log standard deviation")
    initial_temperature: float = setting(0.01, "entropy temperature (alpha) at the start", above=0)
    target_entropy: float = setting(-0.5, "target entropy per action dimension")
    target_std: float | None = setting(None, "seek the entropy of this deviation; none: target_entropy", above=0)
    log_std_bound: Literal["tanh", "clip"] = setting("tanh", "how log standard deviations are bounded")
    temperature_loss: Literal["alpha", "log_alpha"] = setting(
        "alpha", "factor of H - H* in the temperature's loss"
    )
    tanh_epsilon: float = setting(
        0.0, "epsilon in log(1 - a^2 + epsilon), as in REDQ's code; 0: exact", at_least=0
    )
    noise_repeat: int = setting(1, _NOISE_REPEAT, at_least=1)


@dataclass(frozen=True)
class Deterministic:
    """One action for one observation; exploration adds Gaussian noise of this deviation."""

    noise: float = setting(0.1, "standard deviation of the exploration noise", at_least=0)
    target_network: bool = setting(False, "a target network of the actor chooses the next action (TD3)")
    target_noise: float = setting(0.0, "standard deviation of the noise on the next action (TD3)", at_least=0)
    target_noise_clip: float = setting(0.5, "largest noise on the next action", at_least=0)
    noise_repeat: int = setting(1, _NOISE_REPEAT, at_least=1)


@dataclass(frozen=True)
class MaximizeReturn:
    """The actor seeks return (and entropy) alone."""


@dataclass(frozen=True)
class ReturnPlusBC:
    """The actor is held to the actions of the batch as well: `weight` * mean |Q| * mean (pi(o) - a)^2.

    While acting after learning from data, the weight falls linearly to zero over the decisions to come.
    """

    weight: float = setting(0.1, "weight of the behaviour-cloning term, in units of mean |Q|", at_least=0)


@dataclass(frozen=True)
class BehaviorCloning:
    """The actor imitates the actions of the batch and seeks nothing else."""


Objective = MaximizeReturn | ReturnPlusBC | BehaviorCloning


@dataclass(frozen=True)
class Categorical:
    """Returns as a distribution over evenly spaced atoms, learned by cross entropy."""

    low: float = setting(-5.0, "lowest return of the support")
    high: float = setting(5.0, "highest return of the support")
    atoms: int = setting(101, "number of atoms", at_least=2)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"value.low is {self.low}; expected less than value.high, {self.high}")


@dataclass(frozen=True)
class Scalar:
    """The mean return alone, learned by squared error."""

    weight: float = setting(1.0, "factor of the squared error", above=0)


@dataclass(frozen=True)
class Quantile:
    """Quantiles of the return, learned by the quantile Huber loss; targets pool and truncate them (TQC)."""

    quantiles: int = setting(25, "quantiles per critic", at_least=1)
    drop: int = setting(2, "largest target quantiles dropped, per critic", at_least=0)

    def __post_init__(self) -> None:
        if self.drop >= self.quantiles:
            raise InputError(f"value.drop is {self.drop}; expected less than value.quantiles, {self.quantiles}")


@dataclass(frozen=True)
class RunningNorm:
    """Observations normalised by their running mean and deviation (RSNorm)."""


@dataclass(frozen=True)
class RawObservations:
    """Observations as they come."""


@dataclass(frozen=True)
class RewardScaling:
    """Divide rewards by the running deviation of the return, so that no return seen exceeds `bound`."""

    bound: float | None = setting(5.0, "largest scaled return (G_max); none: deviation alone", above=0)
    epsilon: float = setting(1e-8, "added to the variance", above=0)


@dataclass(frozen=True)
class RawRewards:
    """Rewards as they come."""


@dataclass(frozen=True)
class SoftTarget:
    """With every update, a share `tau` of the critic enters its target."""

    tau: float = setting(0.005, "share of the critic that enters its target with every update", above=0, at_most=1)
    with_actor: bool = setting(False, "move the target only in updates of the actor, after it (TD3)")


@dataclass(frozen=True)
class HardTarget:
    """The target is the critic as it was at the last multiple of `every` updates."""

    every: int = setting(200, "updates between two copies", at_least=1)


@dataclass(frozen=True)
class NoTarget:
    """The critic is its own target, in one pass over (o, a) and (o', a') (CrossQ)."""


@dataclass(frozen=True)
class Adam:
    """Adam; the temperature's always has b1 = 0.9."""

    b1: float = setting(0.9, "decay of the first moment", at_least=0, below=1)
    b2: float = setting(0.999, "decay of the second moment", at_least=0, below=1)
    epsilon: float = setting(1e-8, "added to the root of the second moment", above=0)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, of the temperature too."""

    weight_decay: float = setting(0.01, "decoupled weight decay", at_least=0)


@dataclass(frozen=True)
class LinearDecay:
    """The learning rate, over all updates of `env_steps`."""

    initial: float = setting(1e-4, "learning rate of the first update", above=0)
    final: float = setting(5e-5, "learning rate of the last update", above=0)

    def __str__(self) -> str:
        return f"{self.initial:g} to {self.final:g}"


@dataclass(frozen=True)
class CosineDecay:
    """Along half a cosine, over all updates of `env_steps`."""

    initial: float = setting(3e-4, "learning rate of the first update", above=0)
    final: float = setting(1.5e-4, "learning rate of the last update", above=0)
    hold: int = setting(0, "updates before the decay starts", at_least=0)

    def __str__(self) -> str:
        return f"{self.initial:g} to {self.final:g} by a cosine"


@dataclass(frozen=True)
class Constant:
    """The same learning rate throughout."""

    rate: float = setting(1e-4, "learning rate", above=0)

    def __str__(self) -> str:
        return f"{self.rate:g}, constant"


@dataclass(frozen=True)
class ReplayConfig:
    capacity: int = setting(1_000_000, "transitions in the replay buffer", at_least=1)
    batch_size: int = setting(256, "transitions per update", at_least=1)
    n_step: int = setting(1, "steps of reward before bootstrapping", at_least=1)


@dataclass(frozen=True)
class Data:
    """Dataset experience that a run learns from before it acts; none in online training.

    `transitions` and `sha256` are the data's own, so that a resumed run meets the same data or refuses.
    """

    source: str | None = setting(None, "D4RL or Minari id, or an HDF5 file")
    file: str | None = setting(None, "the source's file, when it is not in the cache")
    passes: float = setting(100.0, "passes over the data set", above=0)
    transitions: int = setting(0, "transitions in the data set; counted when it is read", at_least=0)
    sha256: str | None = setting(None, "checksum of the data set; computed when it is read")


UPDATES_PER_DISPATCH = 10  # on recorded data, where no decision has to come in between


@dataclass(frozen=True)
class Schedule:
    """How often a run logs, evaluates and saves, in simulator steps; an update on recorded data counts as one."""

    log_every: int = setting(1_000, "steps between two rows of the log", at_least=1)
    evaluate_every: int = setting(10_000, "steps between two evaluations", at_least=1)
    evaluation_episodes: int = setting(10, "episodes per evaluation", at_least=1)
    checkpoint_every: int = setting(50_000, "steps between two checkpoints", at_least=1)
    diagnostics_every: int = setting(1_000, "steps between two diagnostics, such as norms", at_least=1)
    checkpoint_minutes: float = setting(10.0, "most minutes between two checkpoints; 0: no limit", at_least=0)
    keep: int = setting(2, "checkpoints to keep; an older one serves when the newest is damaged", at_least=1)


@dataclass(frozen=True)
class Config:
    task: str = setting("", "task id or Gymnasium id")
    preset: str = setting("simbav2", "preset that the settings start from")
    ablation: str | None = setting(None, "change of the paper's ablation study made to the preset")
    seed: int = setting(0, "seed of everything random", at_least=0)
    env_steps: int = setting(1_000_000, "simulator steps; schedules are made for them", at_least=1)
    action_repeat: int | None = setting(None, "simulator steps per decision; none: the task's own", at_least=1)
    num_envs: int = setting(1, "environments stepped side by side", at_least=1)
    env_workers: int = setting(0, "worker processes that step the environments; 0: this process does", at_least=0)
    evaluation_workers: int = setting(0, "worker processes for evaluations, at most num_envs", at_least=0)
    env_backend: Literal["local", "ray"] = setting(
        "local", "what the workers are: local (processes) or ray (actors of a cluster)"
    )
    address: str | None = setting(None, "Ray cluster, as HOST:PORT; none: one is started on this machine")
    warmup_decisions: int = setting(
        5_000, "decisions before the first update; random unless learned from data", at_least=0
    )
    updates_per_decision: float | None = setting(2.0, "UTD ratio; none: as many as the action repeat", above=0)
    discount: float | None = setting(None, "gamma; none: by the episode length (paper)", above=0, at_most=1)
    reset_every: int | None = setting(None, "updates between new initialisations; none: never", at_least=1)
    update_order: Literal["actor-first", "critic-first", "together"] = setting(
        "actor-first", "actor, then critic (SimbaV2); the reverse (SAC, TD3); or both from the same networks"
    )
    actor_every: int = setting(1, "updates of the critic per update of actor and temperature", at_least=1)
    actor_turn: Literal["first", "last"] = setting("first", "which of `actor_every` updates is the actor's")
    drop_bad_steps: DropBadSteps = setting(
        "diverged",
        "failed environment steps to discard instead of stopping: diverged (of a simulation that diverged), any "
        "(also exceptions and non-finite values of your own environment), never",
    )
    actor: Actor = Actor()
    critic: Critic = Critic()
    policy: Gaussian | Deterministic = setting(Gaussian(), "policy distribution")
    objective: Objective = setting(MaximizeReturn(), "what the actor maximises")
    value: Categorical | Scalar | Quantile = setting(Categorical(), "what a critic predicts")
    observations: RunningNorm | RawObservations = setting(RunningNorm(), "observation normalisation")
    rewards: RewardScaling | RawRewards = setting(RewardScaling(), "reward scaling")
    target: SoftTarget | HardTarget | NoTarget = setting(SoftTarget(), "target network update")
    optimizer: Adam | AdamW = setting(Adam(), "optimiser of all networks")
    learning_rate: LinearDecay | CosineDecay | Constant = setting(LinearDecay(), "learning-rate schedule")
    replay: ReplayConfig = ReplayConfig()
    data: Data = Data()
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        if self.data.source and not self.data.transitions:
            raise InputError("data.source comes without its transitions; use `simbav2 offline`, which counts them")
        check_bounds(self)
        if self.env_backend == "ray" and not self.env_workers:
            raise InputError("env_backend is ray, but env_workers is 0; expected at least 1")
        if self.address is not None and self.env_backend != "ray":
            raise InputError(f"address is {self.address}, but env_backend is {self.env_backend}; expected ray")
        for name in ("env_workers", "evaluation_workers"):
            if getattr(self, name) > self.num_envs:
                raise InputError(
                    f"{name} is {getattr(self, name)}, but num_envs is {self.num_envs}; expected at most one "
                    "worker for each environment"
                )
        for name, network in (("actor", self.actor), ("critic", self.critic)):
            if network.joint_batch and not isinstance(network.architecture, BatchNormMLP | BatchNormResidual):
                raise InputError(
                    f"{name}.joint_batch joins batches for batch normalisation; {name}.architecture "
                    f"{type(network.architecture).__name__} has none: choose another or leave joint_batch out"
                )
        subset, critics = self.critic.target_subset, self.critic.num_critics
        if subset is not None and critics is not None and subset > critics:
            raise InputError(f"critic.target_subset is {subset}; expected at most critic.num_critics, {critics}")

    def resolve(self, task: Task) -> Config:
        """The same run with every open field filled in from the facts of its task."""
        repeat = self.action_repeat or task.action_repeat
        members = self.critic.num_critics or (2 if task.early_termination else 1)
        resolved = replace(
            self,
            task=task.id,
            action_repeat=repeat,
            updates_per_decision=self.updates_per_decision or float(repeat),
            discount=self.discount or heuristic_discount(task.episode_length, repeat),
            critic=replace(self.critic, num_critics=members),
        )
        (_, every), steps = resolved.update_schedule, -(-resolved.decisions // self.num_envs)
        if 0 < steps < every:
            raise InputError(
                f"updates_per_decision is {resolved.updates_per_decision:g}: the first update comes after "
                f"{every * self.num_envs:,} decisions, and the run has {resolved.decisions:,}; raise one of them"
            )
        return resolved

    @property
    def update_schedule(self) -> tuple[int, int]:
        """(K, q): K updates in one dispatch after every q steps of the vector environment."""
        assert self.updates_per_decision is not None
        ratio = Fraction(self.updates_per_decision) * self.num_envs
        if ratio < 1:  # then steps per update are rounded: the other way, a small ratio would become zero
            return (1 / ratio).limit_denominator(1000).as_integer_ratio()[::-1]
        return ratio.limit_denominator(1000).as_integer_ratio()

    @property
    def imitates(self) -> bool:
        """Whether the actor is held to actions that somebody took: then there is no learning without data."""
        return not isinstance(self.objective, MaximizeReturn)

    @property
    def scheduled(self) -> bool:
        """Whether updates depend on `env_steps`: the learning rate or the cloning term follows it."""
        return self.imitates or not isinstance(self.learning_rate, Constant)

    @property
    def decisions(self) -> int:
        """Actions the policy chooses in `env_steps`."""
        assert self.action_repeat is not None
        return (self.env_steps - self.offline_updates) // self.action_repeat

    @property
    def offline_updates(self) -> int:
        """Updates on recorded data, in whole dispatches; they come first and count as one of `env_steps` each."""
        updates = self.data.passes * self.data.transitions / self.replay.batch_size
        return math.ceil(updates / UPDATES_PER_DISPATCH) * UPDATES_PER_DISPATCH

    @property
    def online_updates(self) -> int:
        """Updates between decisions."""
        assert self.updates_per_decision is not None
        return max(1, round((self.decisions - self.warmup_decisions) * self.updates_per_decision))

    @property
    def updates(self) -> int:
        """Updates the learning rate's schedule is made for: those on recorded data where there is any."""
        return self.offline_updates or self.online_updates

    def essential(self) -> Config:
        """Without the schedule and the workers, which change no result."""
        return replace(self, schedule=Schedule(), **{name: getattr(Config, name) for name in WORKERS})

    @property
    def workers(self) -> dict[str, Any]:
        """Where environments run; another process of the same run may have others."""
        return {name: getattr(self, name) for name in WORKERS}

    @property
    def env_options(self) -> dict[str, Any]:
        """How `make_vector_env` makes the environments."""
        return {
            "action_repeat": self.action_repeat,
            "drop_bad_steps": self.drop_bad_steps,
            "workers": self.env_workers,
            "backend": self.env_backend,
            "address": self.address,
        }

    def digest(self) -> str:
        """A hash of what differs from the default config: a new field with a neutral default renames no run.

        What changes no result is left out: how often a run logs, evaluates and saves, and where environments run.
        """
        changed = changes(self.essential(), type(self)())
        return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The digest, with what a person looks for before it; the name of the run's folder."""
        task = re.sub(r"[^A-Za-z0-9.-]+", "-", self.task).strip("-.")[:100]
        method = f"{self.preset}-{self.ablation}" if self.ablation else self.preset
        return f"{task}-{method}-s{self.seed}-{self.digest()}"


WORKERS = ("env_workers", "evaluation_workers", "env_backend", "address")


def heuristic_discount(episode_length: int, action_repeat: int) -> float:
    """gamma = clip((L/5 - 1) / (L/5), 0.95, 0.995), L the decisions in one episode."""
    fifth = episode_length / action_repeat / 5
    return min(max((fifth - 1) / fifth, 0.95), 0.995)


def other_schedule(found: Mapping[str, Any], config: Config) -> str:
    """The settings in the schedule of a run folder's `config.json` that differ from `config`, as text."""
    ours = to_json(config.schedule)
    return ", ".join(f"schedule.{name} {value}" for name, value in found.items() if value != ours.get(name, value))


# Names of 0.1, in the files of older runs.
_RENAMED = {
    "design": "ablation",
    "members": "num_critics",
    "measure_every": "diagnostics_every",
    "fails": "early_termination",
}
_RENAMED_KINDS = {
    "Perceptron": "MLP",
    "Return": "MaximizeReturn",
    "ReturnAndCloning": "ReturnPlusBC",
    "Cloning": "BehaviorCloning",
}


def upgrade(data: Any) -> Any:
    """The content of a `config.json`, with the names of older versions replaced by today's."""
    if not isinstance(data, Mapping):
        return data
    if "weight_decay" in data and "kind" not in data:  # a setting of its own in 0.1
        decay = data["weight_decay"]
        optimizer = {"kind": "AdamW", "weight_decay": decay} if decay else {"kind": "Adam"}
        data = {name: value for name, value in data.items() if name != "weight_decay"} | {"optimizer": optimizer}
    upgraded = {_RENAMED.get(name, name): upgrade(value) for name, value in data.items()}
    if isinstance(kind := upgraded.get("kind"), str):
        upgraded["kind"] = _RENAMED_KINDS.get(kind, kind)
    return upgraded


def from_json(data: Mapping[str, Any]) -> Config:
    """The config that `to_json` wrote, possibly in an older version: a missing field takes its default.

    Unknown and ill-typed fields are refused.
    """
    return override(Config(), upgrade(data))
