"""The methods and the ablation changes, each a value made from another value: its difference is the whole line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from simbav2 import config as parts
from simbav2.config import Actor, Config, Critic, leaves, lookup, override
from simbav2.envs.tasks import Task
from simbav2.errors import InputError, nearest


class Preset(NamedTuple):
    config: Config
    about: str


# The published numbers were made with the released networks and two updates per decision on every suite, although
# the release configures one for MuJoCo and the paper describes other heads: docs/results.md has measurements.
simbav2 = Config()
release = replace(simbav2, updates_per_decision=None)

_paper_network = parts.Hyperspherical(head_scaler=parts.Scaler(), head_bias=False)
paper = replace(
    simbav2,
    learning_rate=parts.LinearDecay(final=3e-5),
    actor=replace(simbav2.actor, architecture=_paper_network),
    critic=replace(simbav2.critic, architecture=_paper_network),
)

# Small networks learn fast with a high learning rate, and two critics keep what was learned; docs/results.md has
# what was tried.
quick = replace(
    simbav2,
    env_steps=30_000,
    warmup_decisions=1_000,
    learning_rate=parts.LinearDecay(initial=1e-3, final=1e-5),
    actor=replace(simbav2.actor, width=64),
    critic=replace(simbav2.critic, width=64, num_critics=2),
    schedule=parts.Schedule(evaluate_every=5_000, log_every=500),
)

# Weight decay stands where the projection stood; the learning rate decays as SimbaV2's does.
simba_plus = replace(
    simbav2,
    actor=replace(simbav2.actor, architecture=parts.PreLayerNorm()),
    critic=replace(simbav2.critic, architecture=parts.PreLayerNorm()),
    optimizer=parts.AdamW(),
)
simba = replace(simba_plus, value=parts.Scalar(), rewards=parts.RawRewards(), learning_rate=parts.Constant(1e-4))
sac = replace(
    simba,
    actor=Actor(width=256, depth=2, architecture=parts.MLP()),
    critic=Critic(width=256, depth=2, architecture=parts.MLP(), num_critics=2),
    policy=parts.Gaussian(initial_temperature=1.0, target_entropy=-1.0),
    learning_rate=parts.Constant(3e-4),
    optimizer=parts.Adam(),
)
ddpg_simbav2 = replace(simbav2, policy=parts.Deterministic())
ddpg_simba = replace(simba, policy=parts.Deterministic())
ddpg_mlp = replace(sac, policy=parts.Deterministic(), critic=replace(sac.critic, num_critics=None))

# The methods below keep the constants of their own papers; docs/methods.md says where paper and code differ.
_clipped = parts.Gaussian(
    log_std_low=-20.0,
    log_std_bound="clip",
    initial_temperature=1.0,
    target_entropy=-1.0,
    temperature_loss="log_alpha",
)
_plain = Critic(width=256, depth=2, architecture=parts.MLP(init="lecun"), num_critics=2)
_critic_first = replace(
    sac,
    actor=Actor(width=256, depth=2, architecture=parts.MLP(init="lecun")),
    critic=_plain,
    policy=_clipped,
    observations=parts.RawObservations(),
    discount=0.99,
    updates_per_decision=1.0,
    update_order="critic-first",
    actor_turn="last",
)
td3 = replace(
    _critic_first,
    critic=replace(_plain, actor_q="first"),
    policy=parts.Deterministic(target_network=True, target_noise=0.2),
    target=parts.SoftTarget(with_actor=True),
    actor_every=2,
    warmup_decisions=10_000,
)
tqc = replace(
    _critic_first,
    critic=replace(_plain, width=512, depth=3, num_critics=5, actor_q="mean"),
    value=parts.Quantile(),
)
redq = replace(
    _critic_first,
    critic=replace(_plain, num_critics=10, target_subset=2, actor_q="mean"),
    updates_per_decision=20.0,
    actor_every=20,
)
droq = replace(
    redq,
    critic=replace(_plain, architecture=parts.MLP(dropout=0.01, layer_norm=True, init="lecun"), actor_q="mean"),
)
_renorm = parts.BatchNormMLP(norm=parts.BatchRenorm(), norm_first=False, unit_weights=False)
crossq = replace(
    _critic_first,
    actor=Actor(width=256, depth=2, architecture=_renorm),
    critic=replace(_plain, width=2048, architecture=_renorm, joint_batch=True),
    policy=replace(_clipped, temperature_loss="alpha"),
    value=parts.Scalar(weight=0.5),
    target=parts.NoTarget(),
    optimizer=parts.Adam(b1=0.5),
    learning_rate=parts.Constant(1e-3),
    actor_every=3,
    action_repeat=1,
)
xqc = replace(
    simbav2,
    actor=Actor(width=256, depth=4, architecture=parts.BatchNormMLP(), statistics_when_skipped=True),
    critic=Critic(width=512, depth=4, architecture=parts.BatchNormMLP(), num_critics=2, joint_batch=True),
    policy=parts.Gaussian(log_std_bound="clip"),
    observations=parts.RawObservations(),
    rewards=parts.RewardScaling(bound=None),
    learning_rate=parts.LinearDecay(initial=3e-4, final=3e-5),
    update_order="critic-first",
    actor_every=3,
)
flashsac = replace(
    simbav2,
    actor=Actor(width=128, depth=2, architecture=parts.BatchNormResidual(), joint_batch=True),
    critic=Critic(
        width=256, depth=2, architecture=parts.BatchNormResidual(), num_critics=2, loss="mean", joint_batch=True
    ),
    policy=parts.Gaussian(target_std=0.15, noise_repeat=16),
    observations=parts.RawObservations(),
    target=parts.SoftTarget(tau=0.01),
    learning_rate=parts.CosineDecay(hold=1),
    replay=parts.ReplayConfig(batch_size=512),
    discount=0.99,
    updates_per_decision=1.0,
    action_repeat=1,
    warmup_decisions=10_000,
    actor_every=2,
)


def from_data(config: Config) -> Config:
    """The same method with what learning from data alone demands, where it lacks it: cloning and two critics."""
    if config.imitates:
        return config
    critic = replace(config.critic, num_critics=2)
    # Half of a batch online is new: of a few steps alone it would be the same ones over and over.
    return replace(config, objective=parts.ReturnPlusBC(), critic=critic, warmup_decisions=1_000)


offline = replace(from_data(simbav2), learning_rate=parts.LinearDecay(final=1e-5))
# Its critic guides nobody; the smallest will do.
cloning = replace(offline, objective=parts.BehaviorCloning(), critic=Critic(width=16, depth=1, num_critics=1))

PRESETS = {
    "simbav2": Preset(simbav2, "SimbaV2 as its published results were made: the released networks, UTD 2"),
    "paper": Preset(paper, "SimbaV2 as the paper describes it (section 4, appendix of hyperparameters)"),
    "release": Preset(release, "SimbaV2 as the authors' code is configured: one update per decision on MuJoCo"),
    "quick": Preset(quick, "SimbaV2 with small networks and a short warm-up: minutes on a laptop"),
    "simba": Preset(simba, "Simba, the predecessor: layer normalisation, one Q value (section 3.2)"),
    "simba-plus": Preset(simba_plus, "Simba with SimbaV2's critic and rewards (appendix, Scalability Effect)"),
    "sac": Preset(sac, "plain SAC, two hidden layers of 256: the baseline on equal terms (section 3.1)"),
    "ddpg-simbav2": Preset(ddpg_simbav2, "DDPG with SimbaV2's networks (appendix, Effectiveness beyond SAC)"),
    "ddpg-simba": Preset(ddpg_simba, "DDPG with Simba's networks (appendix, Effectiveness beyond SAC)"),
    "ddpg-mlp": Preset(ddpg_mlp, "DDPG with plain networks (appendix, Effectiveness beyond SAC)"),
    "td3": Preset(td3, "TD3 (arXiv 1802.09477): target policy smoothing, delayed actor and targets"),
    "tqc": Preset(tqc, "TQC (arXiv 2005.04269): five quantile critics, their pooled targets truncated"),
    "crossq": Preset(crossq, "CrossQ (arXiv 1902.05605): batch renormalisation, wide critics, no target network"),
    "redq": Preset(redq, "REDQ (arXiv 2101.05982): ten critics, a random pair in the target, UTD 20"),
    "droq": Preset(droq, "DroQ (arXiv 2110.02034): dropout and layer normalisation, 20 updates per decision"),
    "xqc": Preset(xqc, "XQC (Palenicek et al., 2025): batch normalisation, unit weights, categorical critic"),
    "flashsac": Preset(flashsac, "FlashSAC (SimbaV2's authors, 2026): residual batch normalisation, held noise"),
    "offline": Preset(offline, "SimbaV2 with a cloning term, for recorded data (appendix, Offline RL)"),
    "cloning": Preset(cloning, "imitation of recorded data alone: the floor that offline learning is to beat"),
}
DEFAULT = "simbav2"  # by measurement: docs/results.md
FOR_DATA = "offline"  # the default where there is recorded data


class Ablation(NamedTuple):
    """One change of the paper's ablation study (section 5.5, table 2), to any config with the part it changes."""

    about: str
    parts: tuple[str, ...]  # dotted names
    kind: type  # what these parts must be
    change: Callable[[Any], Any]  # the part before -> the part after


def _of_spheres(about: str, change: Callable[[parts.Hyperspherical], parts.Hyperspherical]) -> Ablation:
    return Ablation(about, ("actor.architecture", "critic.architecture"), parts.Hyperspherical, change)


def _of_rewards(about: str, change: Callable[[parts.RewardScaling], Any]) -> Ablation:
    return Ablation(about, ("rewards",), parts.RewardScaling, change)


def _scaler(sphere: parts.Hyperspherical, **changes: float) -> parts.Hyperspherical:
    return replace(sphere, scaler=replace(sphere.scaler, **changes))


def _lerp(sphere: parts.Hyperspherical, **changes: float) -> parts.Hyperspherical:
    return replace(sphere, lerp=replace(sphere.lerp, **changes))


ABLATIONS = {
    "a": _of_spheres("input shifted, not normalised", lambda s: replace(s, input=parts.Shifted(unit=False))),
    "b": _of_spheres("input normalised, not shifted", lambda s: replace(s, input=parts.Unshifted())),
    "c": _of_spheres("input shifted by 1 instead of 3", lambda s: replace(s, input=parts.Shifted(constant=1.0))),
    "d": _of_spheres("input resized instead of shifted", lambda s: replace(s, input=parts.Resized())),
    "e": Ablation("one value instead of a distribution", ("value",), parts.Categorical, lambda _: parts.Scalar()),
    "f": _of_rewards("rewards not scaled", lambda scaling: parts.RawRewards()),
    "g": _of_rewards("returns not bounded", lambda scaling: replace(scaling, bound=None)),
    "h": Ablation("target copied every 200 updates", ("target",), parts.SoftTarget, lambda _: parts.HardTarget()),
    "i": Ablation(
        "learning rate not decayed", ("learning_rate",), parts.LinearDecay, lambda d: parts.Constant(d.initial)
    ),
    "j": _of_spheres("scalers start at 1", lambda s: _scaler(s, initial=1.0)),
    "k": _of_spheres("scalers stored at scale 1", lambda s: _scaler(s, scale=1.0)),
    "l": _of_spheres("interpolation starts half-way", lambda s: _lerp(s, initial=0.5)),
    "m": _of_spheres("interpolation stored at scale 1", lambda s: _lerp(s, scale=1.0)),
}


def preset(name: str, ablation: str | None = None) -> Config:
    """The preset called `name`, with the change called `ablation` made to it."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; presets are {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    config = replace(PRESETS[name].config, preset=name)
    return config if ablation is None else changed(config, ablation)


def changed(config: Config, name: str) -> Config:
    if name not in ABLATIONS:
        raise InputError(f"unknown ablation {name!r}; ablations are {', '.join(ABLATIONS)}: see `simbav2 presets`")
    ablation = ABLATIONS[name]
    if not applies(name, config):
        raise InputError(
            f"ablation {name!r} ({ablation.about}) does not apply to preset {config.preset!r}: "
            f"its {ablation.parts[0]} is not {ablation.kind.__name__}"
        )
    after = override(config, {part: ablation.change(lookup(config, part)) for part in ablation.parts})
    return replace(after, ablation=name)


def applies(name: str, config: Config) -> bool:
    """Whether a config has the parts that an ablation changes."""
    ablation = ABLATIONS[name]
    return all(isinstance(lookup(config, part), ablation.kind) for part in ablation.parts)


OF_TASK = ("task", "action_repeat", "discount", "critic.num_critics", "updates_per_decision")  # may follow from it
OF_DATA = ("data.source", "data.file", "data.transitions", "data.sha256", "env_steps")  # follow from the data set


def given(config: Config, task: Task) -> dict[str, Any]:
    """What a resolved config changes in its preset and ablation, by dotted name; not what follows from data."""
    base = replace(preset(config.preset, config.ablation), seed=config.seed).resolve(task)
    changes = {name: after for name, (_, after) in difference(config, base).items()}
    if config.data.source is None:
        return changes
    online = config.env_steps - config.offline_updates
    own = {name: value for name, value in changes.items() if name not in OF_DATA}
    return own | ({"then_online": online} if online else {})


def difference(config: Config, base: Config = simbav2) -> dict[str, tuple[Any, Any]]:
    """Dotted name -> (value in `base`, value in `config`), for every setting of `config` that differs."""
    theirs = leaves(base)
    return {
        name: (theirs.get(name), ours)
        for name, ours in leaves(config).items()
        if name not in theirs or theirs[name] != ours
    }
