"""The config tree: overrides, JSON, derived values, presets."""

import json
from dataclasses import replace

import pytest

from simbav2 import presets, tasks
from simbav2.config import Config, from_json, heuristic_discount, leaves, override, to_json
from simbav2.errors import InputError

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


@pytest.mark.parametrize(("suite", "expected"), [("mujoco", 0.995), ("dmc-easy", 0.99), ("dmc-hard", 0.99)])
def test_discount_of_every_task_of_a_suite(suite, expected):
    for task in tasks(suite):
        assert Config().resolve(task).discount == pytest.approx(expected), task.id


def test_resolve_fills_in_what_the_task_decides():
    walker, hopper = BY_ID["dmc/walker-walk"], BY_ID["mujoco/Hopper-v4"]
    assert Config().resolve(walker).critic.members == 1
    assert Config().resolve(hopper).critic.members == 2
    assert presets.preset("paper").resolve(hopper).updates_per_decision == 2
    assert presets.preset("release").resolve(hopper).updates_per_decision == 1
    assert presets.preset("release").resolve(walker).updates_per_decision == 2
    chosen = override(Config(), {"discount": 0.9, "action_repeat": 4, "critic.members": 3}).resolve(walker)
    assert (chosen.discount, chosen.action_repeat, chosen.critic.members) == (0.9, 4, 3)


def test_derived_numbers():
    config = Config().resolve(BY_ID["dmc/walker-walk"])
    assert config.decisions == 500_000
    assert config.updates == 990_000
    assert config.rhythm == (2, 1)


@pytest.mark.parametrize(
    ("ratio", "num_envs", "rhythm"),
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
def test_fractional_updates_keep_one_dispatch_size(ratio, num_envs, rhythm):
    assert replace(Config(), updates_per_decision=ratio, num_envs=num_envs).rhythm == rhythm


def test_a_run_too_short_for_its_first_update_is_refused():
    walker = BY_ID["dmc/walker-walk"]
    assert Config(updates_per_decision=1 / 500_000).resolve(walker).rhythm == (1, 500_000)
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
        ({"critic.members": "many"}, "expected int or none"),
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


@pytest.mark.parametrize("damage", [{"sead": 1}, {"critic": 3}, {"env_steps": "many"}])
def test_damaged_json_is_refused(damage):
    with pytest.raises(InputError):
        from_json({**to_json(Config()), **damage})
    incomplete = to_json(Config())
    del incomplete["actor"]
    with pytest.raises(InputError, match="lacks actor"):
        from_json(incomplete)


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


def test_leaves_reach_every_setting():
    assert {"seed", "critic.architecture.head_scaler.scale", "schedule.evaluate_every"} <= leaves(Config()).keys()
