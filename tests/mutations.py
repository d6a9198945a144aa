"""Damage of every kind to a saved run, by chance and by intent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from short_runs import load_trainer
from toys import TINY, Chain

from simbav2 import SimbaV2
from simbav2.checkpoint import checkpoint, rotation
from simbav2.checkpoint.checkpoint import Manifest
from simbav2.checkpoint.files import Checksum
from simbav2.errors import CheckpointError
from simbav2.training import run

Rng = np.random.Generator


def saved_files(run: Path) -> list[Path]:
    """All that a checkpoint of the run consists of."""
    inside = [path for folder in rotation.checkpoints(run) for path in folder.iterdir()]
    return sorted([*inside, *(run / "replay").iterdir()])


def pick(run: Path, rng: Rng, ending: str = "") -> Path:
    files = [path for path in saved_files(run) if path.name.endswith(ending)]
    return files[rng.integers(len(files))]


# By chance: what disks, copies and people do. ---------------------------------------------------------------


def flip(run: Path, rng: Rng) -> None:
    path = pick(run, rng)
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def blank(run: Path, rng: Rng) -> None:
    """A block of zeros, as a lost sector leaves it."""
    path = pick(run, rng)
    data = path.read_bytes()
    start = int(rng.integers(len(data)))
    path.write_bytes(data[:start] + bytes(len(data[start : start + 512])) + data[start + 512 :])


def truncate(run: Path, rng: Rng) -> None:
    path = pick(run, rng)
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def extend(run: Path, rng: Rng) -> None:
    path = pick(run, rng)
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 5000))))


def swell(run: Path, rng: Rng) -> None:
    """A hundred gigabytes of nothing at the end, which only a reader would have to pay for."""
    os.truncate(pick(run, rng), 100 << 30)


def swap(run: Path, rng: Rng) -> None:
    one, two = pick(run, rng), pick(run, rng)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def remove(run: Path, rng: Rng) -> None:
    pick(run, rng).unlink()


def replace_by_folder(run: Path, rng: Rng) -> None:
    path = pick(run, rng)
    path.unlink()
    path.mkdir()


def replace_by_pipe(run: Path, rng: Rng) -> None:
    """Reading it would wait for ever."""
    path = pick(run, rng)
    path.unlink()
    os.mkfifo(path)


def replace_by_link(run: Path, rng: Rng) -> None:
    """The right bytes, but from outside the run."""
    path = pick(run, rng)
    path.rename(outside := run.parent / f"outside-{path.name}")
    path.symlink_to(outside)


# By intent: false sizes, types and names under right sums. ----------------------------------------------------


def resign(run: Path) -> None:
    """Make the manifest agree with the files, as a forger would."""
    (folder,) = rotation.checkpoints(run)
    found = checkpoint.read_manifest(folder)
    files = {name: _sum(folder / name) for name in found.files}
    replay = tuple(part._replace(checksum=_sum(run / "replay" / part.name)) for part in found.replay)
    checkpoint.write_manifest(folder, Manifest(files, replay))


def _sum(path: Path) -> Checksum:
    data = path.read_bytes()
    return Checksum(len(data), hashlib.sha256(data).hexdigest())


def _header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


def forge_header_size(run: Path, rng: Rng) -> None:
    path = pick(run, rng, ".safetensors")
    data = path.read_bytes()
    size = [1 << 62, 1 << 40, 1 << 31, len(data), 0, 3][rng.integers(6)]
    path.write_bytes(size.to_bytes(8, "little") + data[8:])
    resign(run)


def _forge_array(run: Path, rng: Rng, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the entry of one array in the header of one file."""
    path = pick(run, rng, ".safetensors")
    _header(path, lambda header: change(header[sorted(header)[rng.integers(len(header))]]))
    resign(run)


def forge_shape(run: Path, rng: Rng) -> None:
    factor = [1 << 20, 1 << 40, 0, -1, 1.5, "2"][rng.integers(6)]
    _forge_array(run, rng, lambda entry: entry.update(shape=[factor, *entry["shape"][1:]]))


def forge_offsets(run: Path, rng: Rng) -> None:
    def change(entry: dict[str, Any]) -> None:
        entry["data_offsets"][rng.integers(2)] += [1, -1, 1 << 40, -(1 << 40)][rng.integers(4)]

    _forge_array(run, rng, change)


def forge_dtype(run: Path, rng: Rng) -> None:
    def change(entry: dict[str, Any]) -> None:
        kinds = [kind for kind in ("F64", "BF16", "I8", "U64", "F8_E4M3", "X") if kind != entry["dtype"]]
        entry["dtype"] = kinds[rng.integers(len(kinds))]

    _forge_array(run, rng, change)


def _edit(path: Path, name: str, value: Any) -> None:
    data = node = json.loads(path.read_bytes())
    *parents, last = name.split(".")
    for parent in parents:
        node = node[parent]
    node[last] = value
    path.write_text(json.dumps(data))


SIZES = (
    *("actor.width", "critic.width", "critic.depth", "critic.num_critics", "value.atoms", "num_envs"),
    *("environment.observation_size", "environment.action_size"),
)
HUGE = [10**9, 10**12, 10**18, 10**30, -1, 0, "1", None, [], {}, 1e300]
STATES = {
    "decisions": (10**15, -5, "many"),
    "warmup_rng": (7,),
    "warmup_rng.bit_generator": ("os.system",),
    "replay_rng.state": ([],),
    "replay_steps": (10**15, None),
    "loop": (None,),
    "loop.lengths": ([10**9], [-1]),
    "loop.episodes": ([1, 2, 3], [None]),
    "loop.totals": (["x"],),
    "loop.ended": ([[1.0]], 5),
}


def forge_config(run: Path, rng: Rng) -> None:
    """A size that nobody has memory for, or no size at all."""
    _edit(pick(run, rng, "config.json"), SIZES[rng.integers(len(SIZES))], HUGE[rng.integers(len(HUGE))])
    resign(run)


def forge_state(run: Path, rng: Rng) -> None:
    changes = [(name, value) for name, values in STATES.items() for value in values]
    _edit(pick(run, rng, "state.json"), *changes[rng.integers(len(changes))])
    resign(run)


def forge_json(run: Path, rng: Rng) -> None:
    path = pick(run, rng, ".json")
    deep = "[" * 100_000
    texts = [deep, '{"a":' * 50_000, "NaN", "[1]", "null", '"x"', "{", "\0", "9" * 10_000]
    path.write_text(texts[rng.integers(len(texts))])
    if path.name != checkpoint.MANIFEST:
        resign(run)


def forge_manifest(run: Path, rng: Rng) -> None:
    """Other names, ranges and kinds, under a sum that is right."""
    (folder,) = rotation.checkpoints(run)
    path = folder / checkpoint.MANIFEST
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    entry = {"size": 1, "sha256": "0"}
    changes: list[Callable[[], Any]] = [
        lambda: content["files"].update({"../../outside": entry}),
        lambda: content["files"].update({"/etc/passwd": entry}),
        lambda: content["files"].update({".": entry}),
        lambda: content["files"].pop("learner.safetensors"),
        lambda: content["files"].pop("newest.safetensors"),
        lambda: content["files"]["state.json"].update(size=-1),
        lambda: content["files"]["state.json"].update(size=1 << 60),
        lambda: content.update(files=[]),
        lambda: content.update(replay={"first": 0}),
        lambda: content.update(format=99),
        lambda: content["replay"].pop(),
        lambda: content["replay"].reverse(),
        lambda: content["replay"][0].update(first=-3),
        lambda: content["replay"][0].update(last=1 << 60),
        lambda: content["replay"][-1].update(first="../x"),
    ]
    changes[rng.integers(len(changes))]()
    text = json.dumps({**content, "sha256": checkpoint._sha256(content)})
    path.write_text(text)


ACCIDENTS = (flip, flip, flip, blank, truncate, extend, swell, swap, remove, replace_by_folder)
ATTACKS = (
    *(replace_by_pipe, replace_by_link, forge_header_size, forge_shape, forge_offsets, forge_dtype),
    *(forge_config, forge_state, forge_json, forge_manifest),
)


def mutate(run: Path, copy: Path, rng: Rng) -> str:
    """A damaged copy of `run`; what was done to it."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    kinds = (*ACCIDENTS, *ATTACKS)
    kind = kinds[rng.integers(len(kinds))]
    kind(copy, rng)
    return kind.__name__


# What comes of loading it. ------------------------------------------------------------------------------------


def env() -> Chain:
    return Chain(7)


def honest_run(folder: Path, **settings: Any) -> Path:
    """A run of a few seconds with one checkpoint, several replay files, and an episode under way."""
    schedule = {"log_every": 100, "evaluate_every": 500, "evaluation_episodes": 1, "checkpoint_every": 100}
    given = TINY | {"env_steps": 500, "updates_per_decision": 0.1, "schedule.keep": 1}
    given |= {f"schedule.{name}": value for name, value in schedule.items()}
    run.start(SimbaV2(env, **{**given, **settings}), folder)
    return folder


def digest(folder: Path) -> str:
    """Of all that a run goes on from."""
    loop, _ = load_trainer(folder, env)
    agent = loop.agent
    replay, found = loop.replay, hashlib.sha256()
    arrays = [
        *jax.tree.leaves((agent.state, agent.statistics)),
        *replay.export_rows(replay.oldest, replay.added).values(),
    ]
    for array in (*arrays, replay.head, loop.observation):
        found.update(np.asarray(array).tobytes())
    states = [rng.bit_generator.state for rng in (loop.warmup_rng, loop.replay_rng)]
    found.update(json.dumps([agent.decisions, states, loop.snapshot()], sort_keys=True).encode())
    return found.hexdigest()


class Attempt(NamedTuple):
    result: str  # a digest, or the text of a CheckpointError
    refused: bool
    seconds: float
    megabytes: float  # resident memory at the most, above what was there before


def attempt(folder: Path) -> Attempt:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, began = _kilobytes("VmRSS"), time.monotonic()
    try:
        result, refused = digest(folder), False
    except CheckpointError as error:
        result, refused = str(error), True
    return Attempt(result, refused, time.monotonic() - began, (_kilobytes("VmHWM") - before) / 1024)


def _kilobytes(name: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0])


def campaign(scratch: Path, count: int, seed: int, **settings: Any) -> dict[str, Any]:
    """`count` damaged copies of one run: what became of each, and what it cost at the most."""
    shutil.rmtree(scratch / "honest", ignore_errors=True)
    folder, rng = honest_run(scratch / "honest", **settings), np.random.default_rng(seed)
    honest = attempt(folder)
    honest = attempt(folder)  # once more: the first compiles
    size = sum(path.stat().st_size for path in saved_files(folder)) / 2**20
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    slowest = most = 0.0
    for number in range(count):
        kind = mutate(folder, scratch / "copy", rng)
        found = attempt(scratch / "copy")
        named = found.refused and str(scratch / "copy") in found.result and "\n" not in found.result
        if not (named or found.result == honest.result):
            wrong.append(f"{number} {kind}: {found.result}")
        outcomes["refused" if found.refused else "identical"] += 1
        slowest, most = max(slowest, found.seconds), max(most, found.megabytes)
    return {
        "mutations": count,
        **outcomes,
        "wrong": wrong,
        "slowest_seconds": round(slowest, 2),
        "files_megabytes": round(size, 2),
        "honest_megabytes": round(honest.megabytes, 1),
        "most_megabytes": round(most, 1),
    }
