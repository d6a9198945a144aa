"""Policies to the Hugging Face hub and from it.

What is pushed is the newest checkpoint with the run's records, not its experience. What is pulled was written by
others: files are known by their names before any is fetched, and nothing in them is ever executed.
"""

from __future__ import annotations

import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.checkpoint import checkpoint, rotation
from simbav2.checkpoint.files import length
from simbav2.errors import CheckpointError, Failure, InputError, printable
from simbav2.interop.card import CARD, CURVE, write_card

RECORDS = ("config.json", "summary.json", "evaluations.csv", "progress.csv", "metrics.jsonl", "warnings.jsonl")
SAVED = (*checkpoint.AGENT, checkpoint.NEWEST, checkpoint.MANIFEST)
IGNORED = ".gitattributes"  # the hub's own
LIMIT = 4 << 30  # bytes of all files together; ten times the largest networks of the paper
_KNOWN = re.compile(
    "|".join(map(re.escape, (CARD, CURVE, *RECORDS, *SAVED)))
    + rf"|checkpoints/[0-9]{{12}}/({'|'.join(map(re.escape, SAVED))})"
)


class Pulled(NamedTuple):
    folder: Path
    commit: str
    size: int  # bytes


def connect() -> Any:
    """The hub, as whom `hf auth login` or HF_TOKEN says; HF_ENDPOINT names another."""
    try:
        return importlib.import_module("huggingface_hub").HfApi()
    except ImportError as error:
        raise InputError(f"the hub needs one more package ({error}); pip install 'simbav2[hub]'") from error


def push(hub: Any, folder: Path, repo: str, private: bool = False) -> str:
    """Put the run or saved agent in `folder` into the repository `repo`; the address of the commit."""
    package = importlib.import_module("huggingface_hub")
    with tempfile.TemporaryDirectory() as made:
        files = _to_push(folder) | {file.name: file for file in write_card(folder, repo, Path(made))}
        _check_size(repo, sum(length(file) for file in files.values()))
        with _talking_about(repo):
            hub.create_repo(repo, private=private, exist_ok=True)
            there = {file.rfilename for file in hub.model_info(repo).siblings}
            # What an earlier push left, such as its checkpoint, would be taken for part of this one.
            old = sorted(name for name in there - files.keys() if _KNOWN.fullmatch(name))
            operations = [package.CommitOperationDelete(name) for name in old]
            operations += [package.CommitOperationAdd(name, str(file)) for name, file in files.items()]
            commit = hub.create_commit(repo, operations, commit_message=f"Push {folder.name}")
    return str(commit.commit_url)


def pull(hub: Any, repo: str, out: Path) -> Pulled:
    """Fetch `repo` into the new folder `out`, which `Agent.load` takes; all of it or nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already; choose another --out")
    with _talking_about(repo):
        found = hub.model_info(repo, files_metadata=True)
    sizes = {file.rfilename: file.size for file in found.siblings if file.rfilename != IGNORED}
    for name in sizes:
        if not _KNOWN.fullmatch(name):
            raise InputError(
                f"{repo} holds {printable(name)!r}, which is no file of a simbav2 policy; it is not fetched"
            )
    _check_size(repo, sum(size or 0 for size in sizes.values()))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as beside:
        fetched, policy = Path(beside) / "fetched", Path(beside) / "policy"
        for name, size in sizes.items():
            with _talking_about(repo):
                hub.hf_hub_download(repo, name, revision=found.sha, local_dir=fetched)
            if length(fetched / name) != size:
                raise CheckpointError(f"{repo}: {name} has {length(fetched / name):,} bytes; the hub said {size}")
            (policy / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(fetched / name, policy / name)
        try:
            checkpoint.verify(_saved_in(policy), checkpoint.AGENT)
        except InputError as error:
            raise CheckpointError(f"{repo} holds no whole policy: {error}") from error
        if out.exists():
            out.rmdir()
        os.replace(policy, out)
    return Pulled(out, str(found.sha), sum(size or 0 for size in sizes.values()))


def _to_push(folder: Path) -> dict[str, Path]:
    """What belongs to a policy, by its name in the repository."""
    saved = _saved_in(folder)
    listed = checkpoint.verify(saved, checkpoint.AGENT)
    files = {
        (saved / name).relative_to(folder).as_posix(): saved / name
        for name in (*listed.files, checkpoint.MANIFEST)
    }
    files |= {name: folder / name for name in RECORDS if (folder / name).exists()}
    for name in files:
        if not _KNOWN.fullmatch(name):
            raise CheckpointError(f"{folder} holds {name!r}, which is no file of a simbav2 policy")
    return files


def _saved_in(folder: Path) -> Path:
    """Where the agent itself is: the newest whole checkpoint of a run, or the folder."""
    if rotation.checkpoints(folder):
        return rotation.newest_whole(folder)
    if not (folder / checkpoint.MANIFEST).exists():
        raise InputError(f"{folder} holds no saved agent; expected a run or a folder written by `agent.save`")
    return folder


def _check_size(repo: str, size: int) -> None:
    if size > LIMIT:
        raise InputError(f"{repo}: {size:,} bytes; a policy has at most {LIMIT:,}")


@contextmanager
def _talking_about(repo: str) -> Iterator[None]:
    """Whatever the hub answers but what was asked for is one line."""
    errors: Any = importlib.import_module("huggingface_hub.errors")
    try:
        yield
    except errors.HFValidationError as error:
        raise InputError(f"{repo!r} is no repository; expected NAMESPACE/NAME ({_line(error)})") from error
    except (errors.RepositoryNotFoundError, errors.LocalTokenNotFoundError) as error:
        raise InputError(
            f"{repo} is not on the hub, or not for you to see; `hf auth login` or HF_TOKEN tells it who you are"
        ) from error
    except (errors.HTTPError, OSError) as error:
        raise Failure(f"{repo}: the hub does not answer as it should: {_line(error)}") from error


def _line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))
