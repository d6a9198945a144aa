"""`simbav2 tasks --check`, `assets` and `evaluate --video`, as a person meets them."""

import hashlib
import json
import sys

import pytest

from simbav2 import SimbaV2
from simbav2.cli import main
from simbav2.envs import rendering
from simbav2.envs.humanoid_bench import assets

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


def refused(capsys, *arguments) -> str:
    assert main([str(word) for word in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


# tasks --check


def test_a_suite_that_works_is_counted(capsys):
    assert main(["tasks", "mujoco", "--check"]) == 0
    assert capsys.readouterr().out == "mujoco     5 of  5 tasks work\n5 of 5 tasks work\n"


def test_what_is_missing_is_told_once_with_its_remedy(capsys, folder, monkeypatch):
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


def test_the_table_fits_a_terminal(capsys):
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 5 + 57
    assert max(map(len, lines)) <= 80


# assets


def test_files_are_installed_and_then_already_there(capsys, folder):
    assert main(["assets", "humanoid-bench", "--from", str(folder)]) == 0
    assert capsys.readouterr().out == f"2 HumanoidBench files installed: {assets.cache_folder()}\n"
    assert main(["assets", "humanoid-bench", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"folder": str(assets.cache_folder()), "files": 2, "fetched": False}


def test_spoilt_files_are_fetched_again(capsys, folder, monkeypatch):
    main(["assets", "humanoid-bench", "--from", str(folder)])
    (assets.cache_folder() / "envs/h1_pos_walk.xml").write_bytes(b"spoilt")
    monkeypatch.setattr(assets, "UPSTREAM", str(folder))
    capsys.readouterr()
    assert main(["assets", "humanoid-bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fetched"]
    assert assets.verify() == assets.cache_folder()


def test_sources_and_names_that_are_none_are_refused(capsys, folder, monkeypatch):
    assert "expected a folder, a zip file" in refused(capsys, "assets", "humanoid-bench", "--from", "/nowhere")
    assert "humanoid-bench" in refused(capsys, "assets", "humanoid")
    monkeypatch.setenv(assets.VARIABLE, str(folder.parent / "elsewhere"))
    assert "correct or unset it" in refused(capsys, "assets", "humanoid-bench", "--from", folder)
    (folder.parent / "elsewhere").symlink_to(folder)
    assert f"{assets.VARIABLE} names another" in refused(capsys, "assets", "humanoid-bench", "--from", folder)


# evaluate --video


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents") / "hopper"  # which falls at once
    SimbaV2("mujoco/Hopper-v4", **{"actor.width": 8, "critic.width": 8}).save(folder)
    return folder


def test_a_policy_is_filmed(capsys, agent, tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="pip install 'simbav2[video]'")
    if not any(map(rendering.draws, ("egl", "osmesa"))):
        pytest.skip("no GL library draws here")
    path = tmp_path / "out.mp4"
    assert main(["evaluate", str(agent), "--episodes", "1", "--video", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["video"] == str(path)
    assert path.stat().st_size > 1000


def test_without_a_gl_library_the_packages_to_install_are_named(capsys, agent, tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg", reason="pip install 'simbav2[video]'")
    rendering.choose_library.cache_clear()
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "draws", lambda library: False)
    assert "install libegl1 or libosmesa6" in refused(capsys, "evaluate", agent, "--video", tmp_path / "out.mp4")
    assert not list(tmp_path.iterdir())


def test_without_the_package_for_videos_its_install_line_is_given(capsys, agent, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert "pip install 'simbav2[video]'" in refused(capsys, "evaluate", agent, "--video", tmp_path / "out.mp4")
