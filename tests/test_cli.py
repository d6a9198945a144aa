"""The command line as a person meets it."""

import hashlib
import json
import subprocess
import sys

import pytest
from sweep_plan import SETTINGS

from simbav2 import tasks
from simbav2.cli import main
from simbav2.config import presets
from simbav2.config.tree import settings
from simbav2.envs.humanoid_bench import assets


def refused(capsys, *arguments: object) -> str:
    """The one line on stderr with which a call is refused."""
    assert main([str(word) for word in arguments]) == 2
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
        (["export", "/nowhere", "--format", "onnx"], "holds no saved agent"),
        (["export", "/nowhere"], "--format"),
        (["import-release", "/nowhere", "--observation-size=5", "--action-size=1", "--out=x"], "/nowhere"),
        (["report", "/nowhere"], "/nowhere"),
        (["report", "/nowhere", "--watch", "0"], "at least 1"),
        (["tasks", "dmc-eazy"], "dmc-easy"),
        (["tasks", "--jason"], "--jason"),
        (["trian"], "trian"),
        (["train", "Pendulum-v1", "--target.tau", "1.5"], "is 1.5; expected more than 0 and at most 1"),
        (["train", "Pendulum-v1", "--seeds", "0", "1", "--seed", "2"], "both given"),
        (["train", "Pendulum-v1", "--seeds", "1", "1"], "twice"),
        (["train", "Pendulum-v1", "--seeds", "0", "--critic.widht", "3"], "critic.width"),
        (["sweep", "paper-onlin"], "did you mean 'paper-online'?"),
        (["sweep", "smoke", "paper-online"], "one plan at a time"),
        (["sweep", "smoke", "--workers", "0"], "--workers is 0; expected at least 1"),
        (["sweep", "smoke", "--retries", "-1"], "--retries is -1"),
        (["sweep", "smoke", "--address", "host:1"], "--backend ray"),
        (["sweep", "smoke", "--backend", "ray", "--address", "host:1", "--workers", "2"], "--cpus-per-run"),
        (["assets", "humanoid"], "humanoid-bench"),
    ],
)
def test_bad_input_gets_one_clear_line(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


def test_tasks_as_json_and_as_a_table(capsys):
    assert main(["tasks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [task["id"] for task in listed] == [task.id for task in tasks()]
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 5 + 57
    assert max(map(len, lines)) <= 80


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
    assert main(["presets", "xqc", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["xqc"]
    assert main(["presets", "xqz"]) == 2
    assert "did you mean 'xqc'?" in capsys.readouterr().err


@pytest.mark.full
def test_the_cost_of_a_preset_is_counted_and_measured(capsys):
    assert main(["presets", "sac", "--cost", "--json"]) == 0
    (cost,) = json.loads(capsys.readouterr().out)
    # cheetah-run: 17 observations, 6 actions; two layers of 256, two critics.
    assert cost["critic_parameters"] == 2 * (23 * 256 + 256 + 256 * 256 + 256 + 256 + 1)
    assert cost["updates_per_env_step"] == 1  # two per decision of two steps
    assert min(cost["updates_per_second"], cost["compile_seconds"]) > 0


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


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"], ["tasks", "--json"], ["presets"]])
def test_facts_and_help_load_nothing_heavy(arguments):
    code = (
        "import sys, simbav2\nfrom simbav2.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'jax', 'flax', 'gymnasium', 'mujoco', 'dm_control', 'matplotlib', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


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
        own = setting.name.startswith(("task", "preset", "ablation", "data."))  # an option, or of `offline`
        assert (option in everything) != own
    assert all(len(line) <= 115 for line in everything.splitlines())


FILES = {"envs/h1_pos_walk.xml": b"<mujoco/>", "h1/assets/pelvis.stl": b"solid"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A source of model files, and a machine that has none."""
    for name, content in FILES.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(assets, "checksums", lambda: sums)
    monkeypatch.setattr(assets, "_packages", list)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    return tmp_path / "source"


def test_tasks_are_checked_and_each_remedy_is_printed_once(capsys, folder, monkeypatch):
    assert main(["tasks", "mujoco", "--check"]) == 0
    assert capsys.readouterr().out == "mujoco     5 of  5 tasks work\n5 of 5 tasks work\n"
    assert main(["tasks", "hbench", "--check"]) == 1
    told = capsys.readouterr().out
    assert told.startswith(
        "hbench     0 of 14 tasks work\n    hbench/h1-balance-hard: the HumanoidBench model files"
    )
    assert told.count("→ fetch them: simbav2 assets humanoid-bench") == 1
    assert told.endswith("\n0 of 14 tasks work\n")

    monkeypatch.setitem(sys.modules, "simbav2.envs.myosuite", None)
    assert main(["tasks", "myosuite", "--check", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["working"], len(told["attempts"])) == (10, 0, 10)
    assert told["missing"]["myosuite"]["remedy"] == "pip install 'simbav2[myosuite]'"


def test_files_are_installed_kept_and_replaced_when_damaged(capsys, folder, monkeypatch):
    assert main(["assets", "humanoid-bench", "--from", str(folder)]) == 0
    assert capsys.readouterr().out == f"2 HumanoidBench files installed: {assets.cache_folder()}\n"
    assert main(["assets", "humanoid-bench", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"folder": str(assets.cache_folder()), "files": 2, "fetched": False}

    (assets.cache_folder() / "envs/h1_pos_walk.xml").write_bytes(b"damaged")
    monkeypatch.setattr(assets, "UPSTREAM", str(folder))
    assert main(["assets", "humanoid-bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fetched"]
    assert assets.verify() == assets.cache_folder()


def test_bad_sources_of_files_are_refused(capsys, folder, monkeypatch):
    assert "expected a folder, a zip file" in refused(capsys, "assets", "humanoid-bench", "--from", "/nowhere")
    monkeypatch.setenv(assets.VARIABLE, str(folder.parent / "elsewhere"))
    assert "correct or unset it" in refused(capsys, "assets", "humanoid-bench", "--from", folder)
    (folder.parent / "elsewhere").symlink_to(folder)
    assert f"{assets.VARIABLE} names another" in refused(capsys, "assets", "humanoid-bench", "--from", folder)
