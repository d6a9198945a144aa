"""Policies to and from the Hugging Face hub.

What is pushed is the newest checkpoint with the run's records, without its replay. What is pulled was written by
others: unknown file names are refused before any file is fetched, and nothing in the files is executed.
"""

from __future__ import annotations

import importlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simbav2.checkpoint import checkpoint, rotation
from simbav2.checkpoint.files import length
from simbav2.errors import CheckpointError, Failure, InputError, printable

CARD, CURVE = "README.md", "curve.png"
RECORDS = ("config.json", "summary.json", "evaluations.csv", "progress.csv", "metrics.jsonl", "warnings.jsonl")
SAVED = (*checkpoint.AGENT, checkpoint.NEWEST, checkpoint.MANIFEST)
IGNORED = ".gitattributes"  # the hub's own
LIMIT = 4 << 30  # bytes of all files together; ten times the largest networks of the paper
_KNOWN = re.compile(
    "|".join(map(re.escape, (CARD, CURVE, *RECORDS, *SAVED)))
    + rf"|checkpoints/[0-9]{{12}}/({'|'.join(map(re.escape, SAVED))})"
)


WriteCard = Callable[[Path, str, Path], list[Path]]  # of a run, for a repository, into a folder; the files


class Pulled(NamedTuple):
    folder: Path
    commit: str
    size: int  # bytes


def connect() -> Any:
    """The hub, with the account of `hf auth login` or HF_TOKEN; HF_ENDPOINT names another hub."""
    try:
        return importlib.import_module("huggingface_hub").HfApi()
    except ImportError as error:
        raise InputError(f"the hub needs one more package ({error}); pip install 'simbav2[hub]'") from error


def push(hub: Any, folder: Path, repo: str, private: bool = False, write_card: WriteCard | None = None) -> str:
    """Upload the run or saved agent in `folder` to the repository `repo`; returns the address of the commit.

    `write_card` makes its model card: `simbav2.experiments.model_card.write_card`.
    """
    package = importlib.import_module("huggingface_hub")
    with tempfile.TemporaryDirectory() as made:
        files = _to_push(folder)
        if write_card:
            files |= {file.name: file for file in write_card(folder, repo, Path(made))}
        _check_size(repo, sum(length(file) for file in files.values()))
        with _hub_errors(repo):
            hub.create_repo(repo, private=private, exist_ok=True)
            there = {file.rfilename for file in hub.model_info(repo).siblings}
            # Files of an earlier push, such as its checkpoint, must not mix with this one's.
            old = sorted(name for name in there - files.keys() if _KNOWN.fullmatch(name))
            operations = [package.CommitOperationDelete(name) for name in old]
            operations += [package.CommitOperationAdd(name, str(file)) for name, file in files.items()]
            commit = hub.create_commit(repo, operations, commit_message=f"Push {folder.name}")
    return str(commit.commit_url)


def pull(hub: Any, repo: str, out: Path) -> Pulled:
    """Fetch `repo` into the new folder `out`, for `Agent.load`; all of it or nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists already; choose another --out")
    with _hub_errors(repo):
        found = hub.model_info(repo, files_metadata=True)
    sizes = {file.rfilename: file.size for file in found.siblings if file.rfilename != IGNORED}
    for name in sizes:
        if not _KNOWN.fullmatch(name):
            raise InputError(
                f"{repo} holds {printable(name)!r}, which is not a file of a simbav2 policy; nothing was fetched"
            )
    _check_size(repo, sum(size or 0 for size in sizes.values()))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as temporary:
        fetched, policy = Path(temporary) / "fetched", Path(temporary) / "policy"
        for name, size in sizes.items():
            with _hub_errors(repo):
                hub.hf_hub_download(repo, name, revision=found.sha, local_dir=fetched)
            if length(fetched / name) != size:
                raise CheckpointError(f"{repo}: {name} has {length(fetched / name):,} bytes; the hub said {size}")
            (policy / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(fetched / name, policy / name)
        try:
            checkpoint.verify(_saved_in(policy), checkpoint.AGENT)
        except InputError as error:
            raise CheckpointError(f"{repo} holds no complete policy: {error}") from error
        if out.exists():
            out.rmdir()
        os.replace(policy, out)
    return Pulled(out, str(found.sha), sum(size or 0 for size in sizes.values()))


def _to_push(folder: Path) -> dict[str, Path]:
    """The files of a policy, by their names in the repository."""
    saved = _saved_in(folder)
    listed = checkpoint.verify(saved, checkpoint.AGENT)
    files = {
        (saved / name).relative_to(folder).as_posix(): saved / name
        for name in (*listed.files, checkpoint.MANIFEST)
    }
    files |= {name: folder / name for name in RECORDS if (folder / name).exists()}
    for name in files:
        if not _KNOWN.fullmatch(name):
            raise CheckpointError(f"{folder} holds {name!r}, which is not a file of a simbav2 policy")
    return files


def _saved_in(folder: Path) -> Path:
    """Where the agent is saved: the newest complete checkpoint of a run, or the folder itself."""
    if rotation.checkpoints(folder):
        return rotation.newest_whole(folder)
    if not (folder / checkpoint.MANIFEST).exists():
        raise InputError(f"{folder} holds no saved agent; expected a run or a folder written by `agent.save`")
    return folder


def _check_size(repo: str, size: int) -> None:
    if size > LIMIT:
        raise InputError(f"{repo}: {size:,} bytes; a policy has at most {LIMIT:,}")


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    """Errors of the hub as one line."""
    errors: Any = importlib.import_module("huggingface_hub.errors")
    try:
        yield
    except errors.HFValidationError as error:
        raise InputError(f"{repo!r} is not a repository; expected NAMESPACE/NAME ({_line(error)})") from error
    except (errors.RepositoryNotFoundError, errors.LocalTokenNotFoundError) as error:
        raise InputError(
            f"{repo} is not on the hub, or is private; log in with `hf auth login` or HF_TOKEN"
        ) from error
    except (errors.HTTPError, OSError) as error:
        raise Failure(f"{repo}: the hub failed: {_line(error)}") from error


def _line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))
