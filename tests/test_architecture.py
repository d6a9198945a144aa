"""The shape of the package: who may import whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

import simbav2
from simbav2.config import presets

ROOT = Path(simbav2.__file__).parent
# From the bottom up: a module may import its own row and those above it in this list. The longest name that fits
# counts: the parts of `training` that make or load an agent are above `agent`, the rest is below.
LAYERS = [
    ("errors", "types", "runtime", "download"),
    ("backend", "envs"),
    ("config",),
    ("networks",),
    ("losses",),
    ("learner",),
    ("diagnostics", "normalization", "replay"),
    ("datasets",),
    ("actor_critic",),
    ("checkpoint",),
    ("training",),
    ("agent",),
    ("training.run", "training.offline", "training.make_dataset", "training.video"),
    ("export",),
    ("interop",),
    ("experiments",),
    ("cli", "__main__"),
]
ROOM = {name: row for row, names in enumerate(LAYERS) for name in names}
ENTRY = {"", "interop"}  # `import simbav2` makes names of all rooms available when they are first used
UPWARDS = {("experiments.sweep.worker", "cli")}  # a process that is a command


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, without `simbav2.`."""
    found = {}
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(file: Path) -> set[str]:
    """What a file imports anywhere: at its top, inside functions, for type checkers alone."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def room(module: str) -> str:
    """The longest name in LAYERS that fits."""
    fitting = [name for name in ROOM if f"{module}.".startswith(f"{name}.")]
    assert fitting, f"{module} has no place in LAYERS"
    return max(fitting, key=len)


def test_imports_point_one_way():
    known = modules()
    checked = 0
    for module, file in known.items():
        for imported in imports(file):
            name, _, rest = imported.partition(".")
            if module in ENTRY or name != "simbav2" or rest.partition(".")[0] not in known:
                continue
            checked += 1
            above = ROOM[room(rest)] > ROOM[room(module)]
            assert not above or (module, room(rest)) in UPWARDS, f"{module} imports {imported}"
    assert checked > 300


def test_imports_have_no_cycle():
    """Lazy and type-only ones included."""
    known = {f"simbav2.{name}": file for name, file in modules().items() if name not in ENTRY}
    todo = {}
    for module, file in known.items():
        whole = {name if name in known else name.rpartition(".")[0] for name in imports(file)}
        todo[module] = (whole & known.keys()) - {module}
    todo["simbav2.experiments.sweep.worker"].discard("simbav2.cli")
    while free := [module for module, needed in todo.items() if not needed & todo.keys()]:
        for module in free:
            del todo[module]
    assert not todo


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
            assert not {module.split(".")[0] for module in imports(file)} & {"flax"}, file


def test_the_report_needs_no_jax():
    for file in (ROOT / "experiments" / "report").rglob("*.py"):
        found = imports(file)
        ours = {room(module.removeprefix("simbav2.")) for module in found if module.startswith("simbav2.")}
        assert ours <= {"experiments", "envs", "errors", "config", "checkpoint", "datasets"}, file
        assert "jax" not in {module.split(".")[0] for module in found}


# The files that know what a part of the config means, beside `config` and `presets`: one for every part, and
# one that knows what a whole actor computes.
HOMES = {
    "experiments/compute.py": {
        *("Hyperspherical", "PreLayerNorm", "MLP", "BatchNormMLP", "BatchNormResidual"),
        *("Deterministic", "Categorical", "Quantile", "NoTarget"),
    },
    "export/program.py": {
        *("Hyperspherical", "PreLayerNorm", "MLP", "Shifted", "Unshifted", "Resized"),
        *("BatchNorm", "BatchNormMLP", "BatchNormResidual"),
    },
    "networks/architectures.py": {
        *("Hyperspherical", "PreLayerNorm", "MLP", "Shifted", "Unshifted", "Resized"),
        *("BatchNorm", "BatchRenorm", "BatchNormMLP", "BatchNormResidual"),
    },
    "networks/policies.py": {"Gaussian", "Deterministic"},
    "networks/critics.py": {"Categorical", "Scalar", "Quantile"},
    "normalization.py": {"RewardScaling", "RawRewards", "RunningNorm", "RawObservations"},
    "losses.py": {"MaximizeReturn", "ReturnPlusBC", "BehaviorCloning", "NoTarget"},
    "learner.py": {
        *("SoftTarget", "HardTarget", "NoTarget", "LinearDecay", "CosineDecay", "Constant"),
        *("Adam", "AdamW"),
    },
}
# The report, the benchmark and `interop/release` are about methods: they name those they compare or read. A
# command is called like its preset.
ABOUT_METHODS = {
    "config/__init__.py",
    "config/presets.py",
    "experiments/benchmark.py",
    "cli/runs.py",
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
