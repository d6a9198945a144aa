"""Policies to a hub and back: the same agent, a card, and nothing but the files of a policy."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fake_hub import FakeHub
from servers import serving
from short_runs import rows

from simbav2 import SimbaV2
from simbav2.config import presets
from simbav2.errors import CheckpointError, Failure, InputError
from simbav2.experiments.model_card import write_card
from simbav2.experiments.report.report import write_report
from simbav2.experiments.report.runs import read_run
from simbav2.interop import hub

pytestmark = pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")
REPO = FakeHub.repo


def connect(address):
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    return HfApi(endpoint=address, token=FakeHub.token)


@pytest.fixture
def server(monkeypatch):
    """An empty hub of our own; its address."""
    for name, value in {"exists": False, "private": None, "files": {}, "told_sizes": {}}.items():
        monkeypatch.setattr(FakeHub, name, value)
    with serving(FakeHub) as address:
        yield address


@pytest.fixture
def api(server):
    return connect(server)


@pytest.fixture(scope="module")
def pushed(finished):
    """The files of one push."""
    with pytest.MonkeyPatch.context() as monkeypatch, serving(FakeHub) as address:
        monkeypatch.setattr(FakeHub, "exists", False)
        monkeypatch.setattr(FakeHub, "files", {})
        hub.push(connect(address), finished, REPO, write_card=write_card)
        return dict(FakeHub.files)


@pytest.fixture
def on_the_hub(server, pushed, monkeypatch):
    monkeypatch.setattr(FakeHub, "exists", True)
    monkeypatch.setattr(FakeHub, "files", dict(pushed))
    return FakeHub.files


def command(server, tmp_path, *words: str, token: str = FakeHub.token) -> subprocess.CompletedProcess:
    told = {"HF_ENDPOINT": server, "HF_TOKEN": token, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "*"}
    told |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    line = [sys.executable, "-m", "simbav2", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | told, cwd=tmp_path)


def test_a_run_goes_to_the_hub_and_comes_back_as_the_same_agent(server, api, finished, tmp_path):
    pushed = command(server, tmp_path, "push", str(finished), REPO, "--private", "--json")
    assert pushed.returncode == 0, pushed.stderr
    assert json.loads(pushed.stdout)["commit"].startswith(f"{server}/{REPO}/commit/")
    assert FakeHub.private is True
    pulled = command(server, tmp_path, "pull", REPO)
    assert pulled.returncode == 0, pulled.stderr
    assert "simbav2 evaluate runs/walker" in pulled.stdout
    folder = tmp_path / "runs" / "walker"
    assert not [path for path in folder.parent.iterdir() if path != folder]

    before, after = SimbaV2.load(finished), SimbaV2.load(folder)
    observations = np.random.default_rng(0).normal(size=(16, before.task.observation_size)).astype(np.float32)
    np.testing.assert_array_equal(before.predict(observations)[0], after.predict(observations)[0])
    assert not (folder / "replay").exists()
    assert write_report([read_run(folder)], tmp_path / "report").exists()
    with pytest.raises(InputError, match="walker exists already; choose another --out"):
        hub.pull(api, REPO, folder)


def test_the_card_says_what_the_policy_is(on_the_hub, finished):
    card = on_the_hub["README.md"].decode()
    last = [float(row["return"]) for row in rows(finished / "evaluations.csv") if row["env_step"] == "1600"]
    summary = json.loads((finished / "summary.json").read_text())
    assert card.startswith('---\nlibrary_name: "simbav2"\n')
    assert "`mujoco/Hopper-v4`" in card
    assert f"| return | {np.mean(last):,.1f} [" in card
    assert "of this one seed" in card
    assert f"jax {summary['versions']['jax']}" in card
    assert f"simbav2 train mujoco/Hopper-v4 --preset {presets.DEFAULT} --seed 1 " in card
    assert "![learning curve](curve.png)" in card
    assert on_the_hub["curve.png"].startswith(b"\x89PNG")
    assert f"simbav2 pull {REPO} --out policy" in card
    kinds = {".md", ".png", ".json", ".csv", ".jsonl", ".safetensors"}
    assert {Path(name).suffix for name in on_the_hub} == kinds


def test_a_saved_agent_is_pushed_in_the_place_of_a_run(api, on_the_hub, finished, tmp_path):
    assert any(name.startswith("checkpoints/") for name in on_the_hub)
    SimbaV2.load(finished).save(tmp_path / "agent")
    hub.push(api, tmp_path / "agent", REPO, write_card=write_card)
    saved = {path.name for path in (tmp_path / "agent").iterdir()}
    assert set(on_the_hub) == {*saved, "README.md"}
    assert "Made by" not in on_the_hub["README.md"].decode()
    assert SimbaV2.load(hub.pull(api, REPO, tmp_path / "back").folder).updates == SimbaV2.load(finished).updates


@pytest.mark.parametrize(
    "name",
    [
        "policy.pkl",
        "checkpoints/000000001600/learner.pt",
        "checkpoints/000000001600/../../../config.json",
        "../config.json",
        "/etc/config.json",
        "checkpoints/latest/config.json",
        "config.json\n",
        ".git/config",
        "sitecustomize.py",
    ],
)
def test_other_files_are_refused_before_any_is_fetched(api, on_the_hub, name, tmp_path):
    on_the_hub[name] = b"{}"
    with pytest.raises(InputError, match="is not a file of a simbav2 policy"):
        hub.pull(api, REPO, tmp_path / "new" / "policy")
    assert not (tmp_path / "new").exists()


def test_too_much_is_refused(api, on_the_hub, tmp_path, monkeypatch):
    monkeypatch.setattr(FakeHub, "told_sizes", {"config.json": hub.LIMIT})
    with pytest.raises(InputError, match="a policy has at most"):
        hub.pull(api, REPO, tmp_path / "policy")
    monkeypatch.setattr(FakeHub, "told_sizes", {"config.json": 7})
    with pytest.raises((CheckpointError, Failure), match=r"config.json|size"):
        hub.pull(api, REPO, tmp_path / "policy")
    assert not list(tmp_path.glob("*policy*"))


@pytest.mark.parametrize("change", ["cut", "missing", "another"])
def test_a_damaged_policy_leaves_nothing(api, on_the_hub, tmp_path, change):
    name = next(name for name in on_the_hub if name.endswith("learner.safetensors"))
    match change:
        case "cut":
            on_the_hub[name] = on_the_hub[name][:-1]
        case "missing":
            del on_the_hub[name]
        case "another":
            on_the_hub[name] = on_the_hub[name][::-1]
    with pytest.raises(CheckpointError, match="holds no complete policy"):
        hub.pull(api, REPO, tmp_path / "policy")
    assert not list(tmp_path.iterdir())


def test_links_are_not_pushed(api, finished, tmp_path):
    SimbaV2.load(finished).save(tmp_path / "agent")
    secret = (tmp_path / "secret").absolute()
    secret.write_text("{}")
    (tmp_path / "agent" / "summary.json").symlink_to(secret)
    with pytest.raises(InputError, match=r"summary\.json"):
        hub.push(api, tmp_path / "agent", REPO)
    assert not FakeHub.files


def test_what_goes_wrong_is_one_line(server, api, finished, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=rf"^{REPO} is not on the hub, or is private; log in"):
        hub.pull(api, REPO, tmp_path / "policy")
    with pytest.raises(InputError, match="is not a repository"):
        hub.pull(api, "one/two/three", tmp_path / "policy")
    with pytest.raises(InputError, match="holds no saved agent"):
        hub.push(api, tmp_path, REPO)
    refused = command(server, tmp_path, "push", str(finished), REPO, token="another")
    assert refused.returncode in (1, 2)
    assert refused.stderr.startswith(f"simbav2: {REPO}")
    assert refused.stderr.count("\n") == 1
    assert not FakeHub.files
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"pip install 'simbav2\[hub\]'"):
        hub.connect()
