"""The command line as a person meets it."""

import json
import subprocess
import sys

import pytest
from sweep_plan import SETTINGS

from simbav2 import tasks
from simbav2.cli import main
from simbav2.config import presets
from simbav2.config.tree import settings


def refused(capsys, *arguments: str) -> str:
    """The one line on stderr with which a call is refused."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("simbav2: ")
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "dmc/walker-wlak"], "did you mean 'dmc/walker-walk'"),
        (["train", "dmc/walker-walk", "--preset", "papper"], "did you mean 'paper'"),
        (["train", "dmc/walker-walk", "--critic.widht", "128"], "did you mean 'critic.width'"),
        (["train", "dmc/walker-walk", "--critic.width", "wide"], "expected int"),
        (["train", "dmc/walker-walk", "--critic.width"], "has no value"),
        (["train", "dmc/walker-walk", "--env-steps", "0"], "at least 1"),
        (["train", "dmc/walker-walk", "--env-steps", "100", "--stop-after", "0"], "at least 1"),
        (["train", "CartPole-v1"], "Discrete"),
        (["train", "NoSuchThing-v0"], "NoSuchThing-v0"),
        (["evaluate", "/nowhere"], "holds no saved agent"),
        (["evaluate", "/nowhere", "--episodes", "0"], "at least 1"),
        (["resume", "/nowhere"], "holds no run"),
        (["report", "/nowhere"], "/nowhere"),
        (["report", "/nowhere", "--watch", "0"], "at least 1"),
        (["tasks", "dmc-eazy"], "dmc-easy"),
        (["tasks", "--jason"], "--jason"),
        (["trian"], "trian"),
    ],
)
def test_bad_input_gets_one_clear_line(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


def test_tasks_as_json_and_as_a_table(capsys):
    assert main(["tasks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [task["id"] for task in listed] == [task.id for task in tasks()]
    assert main(["tasks", "mujoco"]) == 0
    assert "mujoco/Humanoid-v4" in capsys.readouterr().out


def test_presets_show_their_difference_from_the_default(capsys):
    assert main(["presets", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == list(presets.PRESETS)
    assert shown["simbav2"]["differs"] == {}
    assert shown["release"]["differs"] == {"updates_per_decision": None}
    assert shown["quick"]["differs"]["critic.width"] == 64
    assert "".join(shown["paper"]["ablations"]) == "abcdefghijklm"
    assert "".join(shown["sac"]["ablations"]) == "h"
    assert [name for name, preset in shown.items() if preset["default"]] == [presets.DEFAULT]
    assert main(["presets"]) == 0
    assert "--learning-rate.final" in capsys.readouterr().out


def test_train_evaluate_report(capsys, tmp_path):
    folder = str(tmp_path / "run")
    small = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    command = ["train", "Pendulum-v1", "--preset", "sac", *small, "--seed=2", "--out", folder]
    assert main(command) == 0
    assert "after 600 steps" in capsys.readouterr().out
    assert "already holds a run" in refused(capsys, *command)
    assert main(["evaluate", folder, "--episodes", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["episodes"]) == 2
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "index.html").exists()
    assert main([*command, "--overwrite", "--stop-after", "100"]) == 0
    assert "after 100 steps" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["tasks", "--json"], ["presets"]])
def test_facts_and_help_load_nothing_heavy(arguments):
    code = (
        "import sys\nfrom simbav2.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'jax', 'flax', 'gymnasium', 'mujoco', 'dm_control', 'matplotlib', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_importing_the_package_is_light():
    code = "import sys, simbav2; assert not {'jax', 'gymnasium', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_explains_common_settings_and_help_all_every_one(capsys):
    def printed(option: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["train", option])
        assert stop.value.code == 0
        return capsys.readouterr().out

    common, everything = printed("--help"), printed("--help-all")
    assert "--stop-after" in common
    assert "--critic.width 512 " in common
    assert "--critic.architecture.head-scaler.scale" not in common
    for setting in settings(presets.preset(presets.DEFAULT)):
        assert setting.help, f"{setting.name} has no help sentence"
        assert len(setting.help.split()) > 1
        option = f"  --{setting.name.replace('_', '-')} {'none' if setting.value is None else setting.value}"
        own = setting.name.startswith(
            ("task", "preset", "ablation", "data.")
        )  # of `simbav2 offline`, or its own option
        assert (option in everything) != own
    assert all(len(line) <= 115 for line in everything.splitlines())


def test_bounds_stand_beside_the_fields(capsys):
    assert main(["train", "Pendulum-v1", "--target.tau", "1.5"]) == 2
    assert "target.tau is 1.5; expected more than 0 and at most 1" in capsys.readouterr().err
