"""The config tree: overrides, JSON, derived values, presets."""

import json
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path

import pytest

from simbav2 import config, tasks
from simbav2.checkpoint.checkpoint import read_description
from simbav2.config import (
    Config,
    from_json,
    heuristic_discount,
    leaves,
    lookup,
    override,
    presets,
    to_json,
    upgrade,
)
from simbav2.errors import CheckpointError, InputError

BY_ID = {task.id: task for task in tasks()}


@pytest.mark.parametrize(
    ("length", "repeat", "expected"),
    [
        (1000, 1, 0.995),  # MuJoCo: L = 1000, 199/200
        (1000, 2, 0.99),  # DMC and HumanoidBench: L = 500, 99/100
        (100, 2, 0.95),  # MyoSuite: L = 50, 9/10, raised to the floor
        (50, 2, 0.95),
        (500, 2, 0.98),  # L = 250, 49/50
        (5000, 1, 0.995),  # lowered to the ceiling
    ],
)
def test_discount_heuristic(length, repeat, expected):
    assert heuristic_discount(length, repeat) == pytest.approx(expected)


def test_resolve_fills_in_what_the_task_decides():
    walker, hopper = BY_ID["dmc/walker-walk"], BY_ID["mujoco/Hopper-v4"]
    assert Config().resolve(walker).critic.num_critics == 1
    assert Config().resolve(hopper).critic.num_critics == 2
    assert presets.preset("paper").resolve(hopper).updates_per_decision == 2
    assert presets.preset("release").resolve(hopper).updates_per_decision == 1
    assert presets.preset("release").resolve(walker).updates_per_decision == 2
    chosen = override(Config(), {"discount": 0.9, "action_repeat": 4, "critic.num_critics": 3}).resolve(walker)
    assert (chosen.discount, chosen.action_repeat, chosen.critic.num_critics) == (0.9, 4, 3)


def test_derived_numbers():
    config = Config().resolve(BY_ID["dmc/walker-walk"])
    assert config.decisions == 500_000
    assert config.updates == 990_000
    assert config.update_schedule == (2, 1)


@pytest.mark.parametrize(
    ("ratio", "num_envs", "update_schedule"),
    [
        *((2, 1, (2, 1)), (0.5, 1, (1, 2)), (1.5, 1, (3, 2)), (2, 4, (8, 1)), (0.1, 4, (2, 5))),
        # Below one in a thousand, and so with many environments.
        *(
            (1 / 4_000, 1, (1, 4_000)),
            (0.0007, 1, (7, 10_000)),
            (1 / 4_000, 100, (1, 40)),
            (0.0003, 5, (3, 2_000)),
        ),
    ],
)
def test_fractional_updates_keep_one_dispatch_size(ratio, num_envs, update_schedule):
    assert replace(Config(), updates_per_decision=ratio, num_envs=num_envs).update_schedule == update_schedule


def test_a_run_too_short_for_its_first_update_is_refused():
    walker = BY_ID["dmc/walker-walk"]
    assert Config(updates_per_decision=1 / 500_000).resolve(walker).update_schedule == (1, 500_000)
    with pytest.raises(InputError, match="first update comes after 600,000 decisions, and the run has 500,000"):
        Config(updates_per_decision=1 / 600_000).resolve(walker)
    # Four environments decide once each: that is a step, and enough for the updates after it.
    Config(num_envs=4, env_steps=2).resolve(walker)


def test_overrides_take_text_and_values():
    config = override(Config(), {"critic.width": "128", "learning-rate.final": 1e-5, "env_steps": "1e5"})
    assert (config.critic.width, config.learning_rate.final, config.env_steps) == (128, 1e-5, 100_000)
    assert override(config, {"critic.architecture.head_bias": "true"}).critic.architecture.head_bias is True
    assert override(config, {"discount": "none"}).discount is None
    assert Config().critic.width == 512


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"critic.widht": 128}, "did you mean 'critic.width'"),
        ({"crtic.width": 128}, "did you mean 'critic.width'"),
        ({"critic.width": "wide"}, "expected int"),
        ({"critic.width": 12.5}, "expected int"),
        ({"critic.width": True}, "expected int"),
        ({"critic.width": None}, "expected int"),
        ({"target.tau": "nan"}, "expected float"),
        ({"actor.architecture.head_bias": 1}, "expected bool"),
        ({"critic.num_critics": "many"}, "expected int or none"),
        ({"critic": 128}, "critic.width"),
        ({"critic.width.x": 1}, "unknown setting"),
        ({"env_steps": 0}, "at least 1"),
        ({"critic.depth": 0}, "at least 1"),
        ({"discount": 1.5}, "at most 1"),
        ({"updates_per_decision": 0}, "more than 0"),
        ({"value.low": 6.0}, "less than value.high"),
    ],
)
def test_bad_overrides_are_refused_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        override(Config(), changes)
    assert "\n" not in str(caught.value)


def test_json_there_and_back():
    config = override(presets.preset("release"), {"critic.width": 64, "seed": 7}).resolve(BY_ID["mujoco/Ant-v4"])
    again = from_json(json.loads(json.dumps(to_json(config))))
    assert again == config
    assert again.digest() == config.digest()
    assert again.digest() != replace(config, seed=8).digest()


def without(data, name):
    """A copy of nested `data` that lacks the entry at a dotted name."""
    head, _, rest = name.partition(".")
    if rest:
        return {**data, head: without(data[head], rest)}
    return {key: value for key, value in data.items() if key != head}


def frozen():
    """What a run folder's `config.json` held in version 0.1.0."""
    return json.loads((Path(__file__).parent / "data" / "config-0.1.0.json").read_text())


def frozen_settings():
    described = ("settings", "environment", "versions")
    return {name: value for name, value in frozen().items() if name not in described}


def test_a_config_of_version_0_1_0_loads():
    changes = {"critic.width": 64, "learning_rate.rate": 1e-3, "seed": 7, "schedule.log_every": 500}
    config = override(presets.preset("sac"), changes).resolve(BY_ID["mujoco/Hopper-v4"])
    assert from_json(frozen_settings()) == config
    assert config.name == "mujoco-Hopper-v4-sac-s7-64d624261c92"


def test_a_missing_field_takes_its_default():
    config = from_json(frozen_settings())
    kinds = {"actor.architecture": "MLP", "critic.architecture": "MLP", "learning_rate": "Constant"}
    kinds |= {"value": "Scalar", "rewards": "RawRewards"}
    frozen_today = upgrade(frozen_settings())
    for name, value in leaves(override(Config(), kinds)).items():
        # A setting takes the default of its own kind of part, a missing part is that of the default config.
        default = lookup(Config(), name) if is_dataclass(lookup(config, name)) else value
        assert from_json(without(frozen_today, name)) == override(config, {name: default}), name
    lacking = from_json({"actor": {"architecture": {"head_scaler": {"initial": 2.0}}}})
    assert lacking == override(Config(), {"actor.architecture.head_scaler.initial": 2.0})
    assert from_json({}) == Config()


def test_a_new_field_with_a_neutral_default_renames_nothing(monkeypatch):
    @dataclass(frozen=True)
    class MLP(config.MLP):
        dropout: float = 0.0

    @dataclass(frozen=True)
    class Critic(config.Critic):
        architecture: config.Hyperspherical | config.PreLayerNorm | MLP = Config().critic.architecture

    @dataclass(frozen=True)
    class Later(Config):
        critic: Critic = Critic()
        gradient_clip: float | None = None

    before = from_json(frozen_settings())
    monkeypatch.setattr(config, "Config", Later)
    after = from_json(frozen_settings())
    assert (after.gradient_clip, after.critic.architecture.dropout) == (None, 0.0)
    assert after.name == before.name
    for change in ({"gradient_clip": 1.0}, {"critic.architecture.dropout": 0.1}):
        assert override(after, change).digest() != before.digest()


def test_the_schedule_does_not_name_a_run():
    names = {override(Config(), {"schedule.evaluate_every": every, "schedule.keep": 5}).name for every in (1, 2)}
    assert names == {Config().name}
    others = ({"critic.width": 64}, {"value": "Scalar"}, {"env_steps": 10}, {"preset": "paper"})
    assert len({override(Config(), changes).digest() for changes in others} | {Config().digest()}) == 5


def test_a_run_folder_of_an_older_version_is_described_in_full(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(frozen()))
    complete = read_description(file)
    older = frozen()
    # The first two follow from the task, the others are the defaults.
    for name in ("discount", "critic.num_critics", "reset_every", "actor.depth", "schedule.keep"):
        older = without(older, name)
    file.write_text(json.dumps(older))
    found, task = read_description(file)
    assert (found, task) == (replace(complete[0], actor=replace(complete[0].actor, depth=1)), complete[1])
    file.write_text(json.dumps({**frozen(), "task": "mujoco/Ant-v4"}))
    with pytest.raises(CheckpointError, match=r"but environment\.id is 'mujoco/Hopper-v4'"):
        read_description(file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"sead": 1}, "unknown setting 'sead'; did you mean 'seed'"),
        ({"critic": 3}, "critic is 3; expected a group of settings"),
        ({"env_steps": "many"}, "expected int"),
        ({"value": {"kind": "Quantiles"}}, "value is 'Quantiles'; expected Categorical or Scalar"),
        ({"value": {"kind": "Scalar", "atoms": 3}}, "unknown setting 'value.atoms'"),
    ],
)
def test_damaged_json_is_refused(damage, message):
    with pytest.raises(InputError, match=message):
        from_json({**to_json(Config()), **damage})


def test_release_differs_from_paper_where_the_sources_do():
    changed = set(presets.difference(presets.release, presets.paper))
    heads = ("head_scaler.initial", "head_scaler.scale", "head_bias")
    assert changed == {"updates_per_decision", "learning_rate.final"} | {
        f"{network}.architecture.{name}" for network in ("actor", "critic") for name in heads
    }


def test_the_default_is_the_released_networks_with_two_updates_everywhere():
    assert presets.DEFAULT == Config().preset == "simbav2"
    assert set(presets.difference(presets.release)) == {"updates_per_decision"}
    for task in tasks():
        assert presets.preset("simbav2").resolve(task).updates_per_decision == 2


def test_every_preset_is_its_difference_from_the_default():
    for name, preset in presets.PRESETS.items():
        rebuilt = override(
            presets.simbav2, {key: new for key, (_, new) in presets.difference(preset.config).items()}
        )
        assert rebuilt == preset.config, name


def test_unknown_preset_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'paper'"):
        presets.preset("papper")


# Ablations. -----------------------------------------------------------------------------------------------

# The paper's ablation study (table 2): setting -> value after the change. Networks change alike in both.
CHANGES = {
    "a": {"architecture.input.unit": False},
    "b": {"architecture.input": "Unshifted"},
    "c": {"architecture.input.constant": 1.0},
    "d": {"architecture.input": "Resized"},
    "e": {"value": "Scalar", "value.weight": 1.0},
    "f": {"rewards": "RawRewards"},
    "g": {"rewards.bound": None},
    "h": {"target": "HardTarget", "target.every": 200},
    "i": {"learning_rate": "Constant", "learning_rate.rate": 1e-4},
    "j": {"architecture.scaler.initial": 1.0},
    "k": {"architecture.scaler.scale": 1.0},
    "l": {"architecture.lerp.initial": 0.5},
    "m": {"architecture.lerp.scale": 1.0},
}


@pytest.mark.parametrize("ablation", presets.ABLATIONS)
def test_an_ablation_changes_what_it_claims_and_nothing_else(ablation):
    expected = {"ablation": ablation}
    for name, value in CHANGES[ablation].items():
        of_networks = name.startswith("architecture.")
        expected |= {f"{net}.{name}": value for net in ("actor", "critic")} if of_networks else {name: value}
    changed = presets.difference(presets.preset("paper", ablation), presets.preset("paper"))
    assert {name: after for name, (_, after) in changed.items()} == expected


def test_an_ablation_is_refused_where_its_part_is_missing():
    with pytest.raises(InputError, match=r"'e' .* does not apply to preset 'simba'.*Categorical"):
        presets.preset("simba", "e")
    with pytest.raises(InputError, match="does not apply to preset 'sac'"):
        presets.preset("sac", "a")
    with pytest.raises(InputError, match="unknown ablation 'z'; ablations are a, b"):
        presets.preset("paper", "z")


def test_simba_plus_is_simba_with_the_critic_rewards_and_learning_rate_of_simbav2():
    differs = presets.difference(presets.preset("simba-plus"), presets.preset("simba"))
    assert set(differs) == {
        *("preset", "value", "value.low", "value.high", "value.atoms"),
        *("rewards", "rewards.bound", "rewards.epsilon"),
        *("learning_rate", "learning_rate.initial", "learning_rate.final"),
    }
    assert presets.simba_plus.learning_rate == presets.simbav2.learning_rate
