"""Every line of every shell block in the README and docs runs, each block in its own folder.

`simbav2` commands run in this process, small and short: `SMALLER` and `SHORTER` are appended and win. Fixtures
(`STAND_INS`) replace what is not on this machine: mirrors, a hub, a Ray cluster, Slurm, measured times, runs.
Programs that are not run are in `NOT_RUN`, with the reason. Equal trainings run once.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import ray_nodes
from doc_pages import ROOT, every_block, programs, scripts
from fake_hub import FakeHub
from servers import serving

from simbav2 import cli
from simbav2.cli.parser import parse
from simbav2.experiments import benchmark
from simbav2.experiments.sweep.plan import read_plan
from simbav2.training.trainer import Trainer

NOT_RUN = {
    "pip": "changes the environment that the tests run in; tests/test_docs.py checks the extras",
    "hf": "asks for a password",
    "tensorboard": "a server for a browser",
}
SIZES = {"actor.width": 16, "critic.width": 16, "critic.depth": 1, "critic.num_critics": 1}
SIZES |= {"warmup_decisions": 40, "replay.batch_size": 16, "replay.capacity": 1_000}
SIZES |= {"schedule.evaluation_episodes": 1, "schedule.log_every": 60}
SMALL = SIZES | {"env_steps": 120}


def as_words(settings: dict[str, object]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


# Appended to every line of a command.
SMALLER = {"train": as_words(SMALL), "offline": as_words(SIZES | {"data.passes": 4}), "evaluate": ["--episodes=1"]}
# Appended to lines that have the option.
SHORTER = {"--episodes": 1, "--seeds": 0, "--stop-after": 100, "--then-online": 60, "--transitions": 60}
SHORTER |= {"--schedule.checkpoint-every": 40}
# The fixture that a command needs.
STAND_INS = {"bench": "measured_machine", "offline": "data_sets", "pull": "hub", "push": "hub"}
STAND_INS |= {"resume": "bare_runs", "sweep": "plans", "train": "bare_runs"}
# The package that a block with this word needs.
NEEDS = {"ray": "ray", "wandb": "wandb", ".mp4": "imageio_ffmpeg", ".hdf5": "h5py", "onnx": "onnx"}
NEEDS |= {"arm": "imageio_ffmpeg"}
OF_RUNS = ("resume", "evaluate", "export", "push", "report", "dataset")  # commands that take runs
ROWS = 64  # of recorded data
TUTORIAL = ROOT / "docs" / "tutorial.md"  # its blocks build on each other and have a test of their own
SCRIPTS = [script for script in scripts() if script.page != TUTORIAL.name]
FIRST = SCRIPTS[0]  # from a clone to a trained policy, its video and its export
# `make test` runs these: the first, one without a simulator of ours, one that trains nothing.
EVERY_TIME = ("README.md: block 0", "interop.md: block 0", "sharing.md: block 1")


class Shell:
    """Runs the lines of one block."""

    def __init__(self, request, folder: Path, monkeypatch) -> None:
        self.request, self.folder, self.monkeypatch = request, folder, monkeypatch
        self.made: set[str] = set()  # runs, by all that was asked for

    def run(self, program: str, *words: str) -> None:
        if program not in NOT_RUN:
            getattr(self, program)(*(re.sub("^(~|(?=/shared))/", f"{self.folder}/", word) for word in words))

    def simbav2(self, name: str, *words: str) -> None:
        given = {word.partition("=")[0] for word in words}
        behind = [f"{option}={value}" for option, value in SHORTER.items() if option in given]
        if "--address" in given:
            behind.append(f"--address={self.request.getfixturevalue('cluster')}")
        words = (name, *words, *SMALLER.get(name, []), *behind)
        if name in STAND_INS:
            self.request.getfixturevalue(STAND_INS[name])
        options = parse(words, [command.add for command in cli.COMMANDS])
        if name in ("train", "offline"):
            asked = str(vars(options) | {"settings": sorted(options.settings.items())})
            if asked in self.made:
                return
            self.made.add(asked)
        if name in OF_RUNS:
            self.lay_out(options)
        if name == "sweep" and not options.dry_run:
            plan = options.words[-1]
            words = tuple(str(self.shortened(plan)) if word == plan else word for word in words)
        if "ray" in words:  # which forks; JAX's threads forbid that in this process
            subprocess.run([sys.executable, "-m", "simbav2", *words], check=True)
        else:
            assert cli.main(words) == 0, words

    def shortened(self, name: str) -> Path:
        """Of a plan the first run, small."""
        plan = read_plan(name)
        first = plan.runs[0]
        chosen = {"tasks": first.config.task, "presets": first.config.preset, "seeds": first.config.seed}
        lines = [f"{key} = {json.dumps([value])}" for key, value in chosen.items()] + ["[settings]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in (dict(first.settings) | SMALL).items()]
        path = self.folder / "short" / f"{plan.name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines))
        return path

    def lay_out(self, options) -> None:
        """Where no line before this one has made the run, the reader has: a small one that can go on."""
        folders = [options.folder] if hasattr(options, "folder") else options.folders
        for folder in folders:
            if not folder.exists():
                target = folder / "walker" if options.command == "report" else folder
                shutil.copytree(self.request.getfixturevalue("walker"), target)

    def make(self, target: str, *words: str) -> None:
        """What the Makefile calls, as a stand-in for the program writes it down; of the demo's runs two."""
        log = self.folder / "called"
        bin = self.program(f'printf "%s\\n" "$*" >> {log}')
        smaller = ["DEMO_PRESETS=quick", "DEMO_TASKS=mujoco/Hopper-v4"]
        call = ["make", "-C", ROOT, "-o", ".venv/.installed", f"BIN={bin}", target, *words, *smaller]
        # `make test` has flags of its own.
        plain = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
        subprocess.run(call, env=plain, check=True, capture_output=True)
        for line in log.read_text().splitlines() if log.exists() else ():
            self.simbav2(*line.split())

    def python(self, file: str, *words: str) -> None:
        """A file's `main` with smaller constants; the one that must not import us as a process."""
        if Path(file).stem == "deploy":
            subprocess.run([sys.executable, ROOT / file, *words, "--episodes=1"], check=True)
            return
        spec = spec_from_file_location(Path(file).stem, ROOT / file)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        constants, behind = globals()[f"small_{Path(file).stem}"](self, module)
        for name, value in constants.items():
            self.monkeypatch.setattr(module, name, value)
        self.monkeypatch.setattr(sys, "argv", [file, *words, *behind])
        module.main()

    def sbatch(self, script: str) -> None:
        """The only job of the array."""
        bin = self.program(f'exec {sys.executable} -m simbav2 "$@"')
        path = f"{bin}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", script], env={**os.environ, "PATH": path, "SLURM_ARRAY_TASK_ID": "0"}, check=True)

    def program(self, text: str) -> Path:
        """A folder with a stand-in for the program `simbav2`."""
        path = self.folder / "bin" / "simbav2"
        path.parent.mkdir()
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path.parent


# Scripts of the docs: smaller constants, and arguments to append. -----------------------------------------------


def small_scaling(shell: Shell, module):
    cases = [(updates, benchmark.Case("paper", 16, 1, updates)) for updates in (1, 2)]
    shell.monkeypatch.setattr(benchmark, "SQUARE", 64)
    return {"AXES": {"updates": cases}}, []


def small_against_sbx(shell: Shell, module):
    """SBX is not asked; we are, in this process."""

    def worker(python, method, width, decisions):
        if method == "ours":
            return module.ours(width, decisions)
        return {"updates_per_second": 1.0, "env_steps_per_second": 1.0}

    return {"WIDTHS": {16: 2}, "WARMUP": 20, "worker": worker}, ["--rounds=1"]


def small_offline_evidence(shell: Shell, module):
    """One task, one kind of data, one seed; results beside, not into our docs."""

    def simbav2(*words, **settings):
        shell.simbav2(*map(str, words), *(f"--{name}={value}" for name, value in settings.items()))

    (shell.folder / "images").mkdir()
    name, level = next(iter(module.TASKS)), "medium-replay"
    cases = [module.Case(name, level, method, 0) for method in module.METHODS]
    few = {"TASKS": {name: module.TASKS[name]}, "LEVELS": (level,), "SEEDS": (0,)}
    few |= {"CASES": cases, "ONLINE_CASES": cases[:1]}
    return few | {"simbav2": simbav2, "DOCS": shell.folder, "TIDY": shell.folder / "offline.csv"}, []


def small_custom_env(shell: Shell, module):
    shell.request.addfinalizer(lambda: gym.registry.pop("Arm-v0", None))
    return {}, ["--env-steps=120"]


# Stand-ins. -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def short_episodes(monkeypatch):
    limited = gym.wrappers.TimeLimit.__init__
    monkeypatch.setattr(
        gym.wrappers.TimeLimit, "__init__", lambda self, env, steps: limited(self, env, min(steps, 40))
    )


@pytest.fixture
def bare_runs(request, monkeypatch, script):
    """Nothing is sent; reports and diagnostics are left to the README's first block."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    if script != FIRST:
        request.getfixturevalue("empty_reports")
        monkeypatch.setattr(Trainer, "diagnostics", lambda trainer: {})


@pytest.fixture(scope="session")
def walker(tmp_path_factory):
    """A run with something left to do."""
    folder = tmp_path_factory.mktemp("runs") / "walker"
    words = ["train", "dmc/walker-walk", *SMALLER["train"], "--stop-after=80", f"--out={folder}"]
    assert cli.main(words) == 0
    return folder


@pytest.fixture
def data_sets(bare_runs, tmp_path, monkeypatch):
    """Small files of the right shape, wherever the commands look."""
    minari = pytest.importorskip("minari", reason="pip install 'simbav2[offline]'")
    from offline_files import mirrored

    from simbav2.datasets import hdf5

    rng = np.random.default_rng(0)

    def episode(observations: int, actions: int) -> hdf5.Episode:
        shapes = (ROWS + 1, observations), (ROWS, actions), (ROWS,)
        columns = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
        return hdf5.Episode(*columns, terminated=False)

    hdf5.write(Path("my-data.hdf5"), "Pendulum-v1", [episode(3, 1)])
    hopper = episode(11, 3)
    file = tmp_path / "data" / "hopper_medium-v2.hdf5"
    file.parent.mkdir()
    hdf5.write(file, "Hopper-v4", [hopper])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    recorded = minari.data_collector.EpisodeBuffer(
        observations=hopper.observation.astype(np.float64),
        actions=hopper.action,
        rewards=hopper.reward,
        terminations=np.zeros(ROWS, np.bool_),
        truncations=np.arange(ROWS) == ROWS - 1,
        infos={},
    )
    # Found here, it is not fetched.
    minari.create_dataset_from_buffers("mujoco/hopper/medium-v0", [recorded], gym.make("Hopper-v4"))
    with mirrored(file, monkeypatch, tmp_path / "cache"):
        yield


@pytest.fixture
def hub(monkeypatch):
    package = pytest.importorskip("huggingface_hub", reason="pip install 'simbav2[hub]'")
    from huggingface_hub.utils import disable_progress_bars

    from simbav2.interop import hub

    disable_progress_bars()
    values = {"repo": "someone/simbav2-walker", "exists": False, "private": None, "files": {}, "told_sizes": {}}
    for name, value in values.items():
        monkeypatch.setattr(FakeHub, name, value)
    with serving(FakeHub) as address:
        monkeypatch.setattr(hub, "connect", lambda: package.HfApi(endpoint=address, token=FakeHub.token))
        yield


@pytest.fixture
def measured_machine(measured, monkeypatch):
    """Measured once, at a small size."""
    monkeypatch.setattr(benchmark, "run", lambda plan: measured)


@pytest.fixture
def plans(tmp_path):
    shutil.copytree(ROOT / "plans", tmp_path / "plans", dirs_exist_ok=True)


@pytest.fixture
def cluster(monkeypatch):
    """A node that says it has what the docs ask for."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with ray_nodes.started(nodes=1, cpus=4, gpus=1) as process:
        yield process.address


def test_every_program_in_the_docs_is_known_here():
    ours = {name for name in vars(Shell) if not name.startswith("_")}
    assert programs() <= ours | set(NOT_RUN)
    assert set(NOT_RUN) <= programs()
    assert set(EVERY_TIME) <= {str(script) for script in SCRIPTS}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=str(script), marks=() if str(script) in EVERY_TIME else pytest.mark.full)
        for script in SCRIPTS
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb")
@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_every_block_runs_from_its_first_to_its_last_line(script, request, tmp_path, monkeypatch):
    words = " ".join(word for line in script.lines for word in line)
    for word, package in NEEDS.items():
        if word in words:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simba_utd2.csv").write_text(
        "exp_name,env_name,seed,metric,env_step,value\nsimba,walker_walk,0,avg_return,20000,800\n"
    )
    shell = Shell(request, tmp_path, monkeypatch)
    for line in script.lines:
        shell.run(*line)
    if script == FIRST:
        assert (tmp_path / "walker.mp4").stat().st_size > 10_000
        assert (tmp_path / "deployed" / "policy.npz").is_file()
        assert (tmp_path / "runs" / "walker" / "report" / "index.html").is_file()


@pytest.mark.full
def test_the_tutorial_from_its_first_to_its_last_line(request, tmp_path, monkeypatch):
    """Literally, in one folder, with shorter training: commands and Python in the order of the page."""
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shell, namespace = Shell(request, tmp_path, monkeypatch), {"__name__": "tutorial"}
    commands = (script for script in scripts() if script.page == TUTORIAL.name)
    for language, code in every_block(TUTORIAL):
        if language == "bash":
            for line in next(commands).lines:
                shell.run(*line)
            continue
        gym.registry.pop("Arm-v0", None)  # the command before registered it in this process
        exec(compile(code.replace("env_steps=2_000", "env_steps=120"), TUTORIAL.name, "exec"), namespace)
    assert next(commands, None) is None
    assert (tmp_path / "arm-page" / "index.html").is_file()
    for module in ("custom_env", "simbav2_policy"):
        sys.modules.pop(module, None)
