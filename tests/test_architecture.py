"""The shape of the package: who may import whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

import simbav2
from simbav2.config import presets

ROOT = Path(simbav2.__file__).parent
# From the bottom up; each may import only those before it. `training` is imported lazily by `agent`.
LAYERS = [
    "errors",
    "cache",
    "types",
    "xla_flags",
    "backend",
    "envs",
    "config",
    "presets",
    "networks",
    "losses",
    "learner",
    "diagnostics",
    "statistics",
    "replay",
    "datasets",
    "agent",
    "training",
    "sweep",
    "interop",
]
NEURAL = {"flax"}


def imports(file: Path, lazy: bool = False) -> set[str]:
    """Modules a file imports: at its top level, or anywhere with `lazy`."""
    tree = ast.parse(file.read_text())
    nodes = ast.walk(tree) if lazy else iter(tree.body)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def layer(module: str) -> str:
    return module.removeprefix("simbav2.").split(".")[0]


def test_imports_point_one_way():
    for file in ROOT.rglob("*.py"):
        own = file.relative_to(ROOT).with_suffix("").parts[0]
        if own not in LAYERS:
            continue
        for module in imports(file):
            if module.startswith("simbav2.") and layer(module) in LAYERS:
                assert LAYERS.index(layer(module)) <= LAYERS.index(own), f"{file.name} imports {module}"


# What Python has on POSIX systems alone: Windows must be able to import every module.
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2"),
    *("fork", "getuid", "killpg", "pread", "pwrite", "sched_getaffinity", "sysconf"),
}


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """All of a module but the bodies of its functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from run_at_import(child)


def test_every_module_can_be_imported_on_windows():
    for file in ROOT.rglob("*.py"):
        for node in run_at_import(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not {name.name for name in node.names} & POSIX_MODULES, file
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in POSIX_MODULES, file
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id not in ("os", "signal") or node.attr not in POSIX_NAMES, (
                    f"{file}: {node.attr}"
                )


def test_only_networks_know_the_neural_library():
    for file in ROOT.rglob("*.py"):
        if "networks" not in file.parts:
            assert not {module.split(".")[0] for module in imports(file, lazy=True)} & NEURAL, file


def test_the_report_never_imports_the_learning_side():
    for file in (ROOT / "experiments" / "report").rglob("*.py"):
        ours = {layer(module) for module in imports(file, lazy=True) if module.startswith("simbav2.")}
        assert ours <= {"experiments", "envs", "errors", "config", "checkpoint", "datasets"}, file
        assert "jax" not in {module.split(".")[0] for module in imports(file, lazy=True)}


# The files that know what a part of the config means, beside `config` and `presets`: one for every part, and
# one that knows what a whole actor computes.
HOMES = {
    "experiments/compute.py": {"Hyperspherical", "PreLayerNorm", "MLP", "Deterministic", "Categorical"},
    "export/program.py": {"Hyperspherical", "PreLayerNorm", "MLP", "Shifted", "Unshifted", "Resized"},
    "networks/architectures.py": {"Hyperspherical", "PreLayerNorm", "MLP", "Shifted", "Unshifted", "Resized"},
    "networks/policies.py": {"Gaussian", "Deterministic"},
    "networks/critics.py": {"Categorical", "Scalar"},
    "normalization.py": {"RewardScaling", "RawRewards"},
    "losses.py": {"MaximizeReturn", "ReturnPlusBC", "BehaviorCloning"},
    "learner.py": {"SoftTarget", "HardTarget", "LinearDecay", "Constant"},
}
# `report`, `benchmark` and `interop/release` are about methods: they name those they compare or read. A command is
# called like its preset.
ABOUT_METHODS = {
    "config/__init__.py",
    "config/presets.py",
    "experiments/benchmark.py",
    "cli/offline.py",
    "experiments/sweep/plan.py",
    "interop/release.py",
}


def test_no_variant_is_named_outside_presets_and_its_own_part():
    """Neither a branch on a preset or an ablation, nor a part outside its home."""
    methods = {*presets.PRESETS, *(name.replace("-", "_") for name in presets.PRESETS)}
    methods.remove("simbav2")  # also the name of the package
    checked = 0
    for file in ROOT.rglob("*.py"):
        place = file.relative_to(ROOT).as_posix()
        if place in ABOUT_METHODS or place.startswith("experiments/report/"):
            continue
        parts = set().union(*HOMES.values()) - HOMES.get(place, set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant):
                assert node.value not in methods, f"{place} names the preset {node.value!r}"
            elif isinstance(node, ast.Name | ast.Attribute | ast.ClassDef | ast.alias):
                name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
                assert name not in parts, f"{place} names the part {name}"
                assert not set(str(name).lower().split("_")) & {"simba", "ddpg", "sac"}, f"{place}: {name}"
                checked += 1
            elif isinstance(node, ast.Compare):
                compared = ast.unparse(node)
                assert ".preset" not in compared, f"{place} branches on a preset: {compared}"
                assert ".ablation" not in compared, f"{place} branches on an ablation: {compared}"
    assert checked > 5_000
