"""The shape of the package: who may import whom."""

import ast
from pathlib import Path

import simbav2

ROOT = Path(simbav2.__file__).parent
# From the bottom up; each may import only those before it. `training` is imported lazily by `agent`.
LAYERS = [
    "errors",
    "types",
    "backend",
    "envs",
    "config",
    "presets",
    "networks",
    "losses",
    "learner",
    "statistics",
    "replay",
    "agent",
    "training",
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


def test_only_networks_know_the_neural_library():
    for file in ROOT.rglob("*.py"):
        if "networks" not in file.parts:
            assert not {module.split(".")[0] for module in imports(file, lazy=True)} & NEURAL, file


def test_analysis_never_imports_the_learning_side():
    for file in (ROOT / "analysis").glob("*.py"):
        ours = {layer(module) for module in imports(file, lazy=True) if module.startswith("simbav2.")}
        assert ours <= {"analysis", "envs", "errors"}, file
        assert "jax" not in {module.split(".")[0] for module in imports(file, lazy=True)}
