"""Finding and installing HumanoidBench's files. No network: a local server plays upstream."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from servers import OneFile, serving

from simbav2.envs.humanoid_bench import assets
from simbav2.errors import InputError

TOP = "humanoid-bench-791405f/"  # what GitHub puts before every name in an archive of the commit
NAMES = ("envs/h1_pos_walk.xml", "robots/h1_pos.xml", "h1/assets/pelvis.stl")
EXPECTED = {name: name.encode() * 1000 for name in NAMES}
FROM_ARCHIVE = {**EXPECTED, "LICENSE": b"be nice"}


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Nothing of this machine is found or touched, and three small files are all there is."""
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in EXPECTED.items()}
    monkeypatch.setattr(assets, "checksums", lambda: sums)


@pytest.fixture
def folder(tmp_path) -> Path:
    """An assets folder as upstream has it."""
    for name, content in EXPECTED.items():
        path = tmp_path / "upstream" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "upstream"


@pytest.fixture
def archive(tmp_path) -> Path:
    """The repository as GitHub zips it, with files nobody wants and names that try to climb out."""
    path = tmp_path / "upstream.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in EXPECTED.items():
            file.writestr(f"{TOP}humanoid_bench/assets/{name}", content)
        file.writestr(f"{TOP}LICENSE", "be nice")
        file.writestr(f"{TOP}humanoid_bench/assets/kitchen.xml", "unwanted")
        file.writestr("../../escaped", "slip")
        file.writestr("/tmp/simbav2-escaped", "slip")
        file.writestr(f"../{TOP}humanoid_bench/assets/envs/h1_pos_walk.xml", "slip")
    return path


@pytest.fixture
def address(archive, monkeypatch):
    OneFile.reset(monkeypatch, archive.read_bytes())
    with serving(OneFile) as address:
        yield f"{address}/archive.zip"


def files(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def refused(source: object, match: str) -> None:
    """The source is refused in one line, and what was installed before stays untouched."""
    before = files(assets.cache_folder().parent)
    with pytest.raises(InputError, match=match) as error:
        assets.install(str(source))
    assert "\n" not in str(error.value)
    assert files(assets.cache_folder().parent) == before


# Installing


def test_a_folder_is_installed_and_found_and_installing_again_replaces_it(folder):
    place = assets.install(str(folder))
    assert files(place) == EXPECTED
    assert assets.find() == place == assets.cache_folder()
    (place / NAMES[0]).write_bytes(b"spoilt")
    (place / "stray").write_bytes(b"")
    assert assets.differing(place) == (NAMES[0],)
    assert files(assets.install(str(folder))) == EXPECTED


@pytest.mark.parametrize("inside", ["humanoid_bench/assets", "checkout/humanoid_bench/assets", "assets"])
def test_a_folder_may_hold_the_files_further_in(folder, tmp_path, inside):
    outer = tmp_path / "outer"
    shutil.copytree(folder, outer / inside)
    assert files(assets.install(str(outer))) == EXPECTED


def test_from_an_archive_only_wanted_files_are_taken_and_nothing_lands_elsewhere(archive, folder, tmp_path):
    place = assets.install(str(archive))
    assert files(place) == FROM_ARCHIVE
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert not list(tmp_path.rglob("escaped"))
    assert not Path("/tmp/simbav2-escaped").exists()
    at_its_top = shutil.make_archive(str(folder), "zip", folder)
    assert files(assets.install(at_its_top)) == EXPECTED


def test_a_download_reports_its_progress_and_upstream_is_the_default(address, monkeypatch):
    seen = []
    assert files(assets.install(address, progress=lambda *bytes: seen.append(bytes))) == FROM_ARCHIVE
    assert seen[-1] == (len(OneFile.content), len(OneFile.content))
    monkeypatch.setattr(assets, "UPSTREAM", address)
    assert files(assets.install()) == FROM_ARCHIVE


# Refusals


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (NAMES[1], b"x" + EXPECTED[NAMES[1]][1:], r"damaged or of another version \(SHA-256 .*, expected .*\)"),
        (NAMES[2], EXPECTED[NAMES[2]][:-1], "damaged"),
        (NAMES[2], None, f"lacks 1 of the 3 HumanoidBench files, such as {NAMES[2]}"),
    ],
)
def test_a_damaged_truncated_or_missing_file_is_named(folder, name, content, message):
    assets.install(str(folder))
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused(folder, message if content is None else rf"{name} in .* is {message}")


def test_a_source_of_something_else_or_far_too_large_is_refused(folder, address, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    refused(tmp_path / "other", "lacks 3 of the 3")
    refused(shutil.make_archive(str(tmp_path / "other"), "zip", tmp_path / "other"), "lacks 3 of the 3|complete")
    for source in (tmp_path / "nowhere", "ftp://127.0.0.1/x.zip"):
        refused(source, "expected a folder, a zip file or an http")
    monkeypatch.setattr(OneFile, "breaks_after", 100)
    refused(address, r"could not be downloaded .*; check the network .*, or pass a folder or zip file: simbav2")
    monkeypatch.setattr(assets, "LARGEST_FILE", 100)
    refused(folder, "is damaged")
    monkeypatch.setattr(assets, "LARGEST_ARCHIVE", 90)
    refused(address, "sends more than 90 bytes")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda data: data[: len(data) // 2], "not a complete zip file"),
        (lambda data: b"<html>sign in to the hotel network</html>", "not a complete zip file"),
        (lambda data: data[:60] + bytes([data[60] ^ 0xFF]) + data[61:], "cannot read|is damaged"),
    ],
    ids=["truncated", "a web page", "corrupted"],
)
def test_a_spoilt_archive_is_refused(address, archive, monkeypatch, spoil, match):
    spoilt = spoil(archive.read_bytes())
    archive.write_bytes(spoilt)
    refused(archive, match)
    monkeypatch.setattr(OneFile, "content", spoilt)
    refused(address, match)


def test_a_cache_that_cannot_be_written_is_explained(folder, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(InputError, match=r"cannot install into .*; set XDG_CACHE_HOME"):
        assets.install(str(folder))


# Finding


def test_the_variable_comes_first_then_the_cache_then_the_package(folder, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="fetch them: simbav2 assets humanoid-bench"):
        assets.find()
    package = tmp_path / "site" / "humanoid_bench"
    shutil.copytree(folder, package / "assets")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    sums = assets.checksums
    monkeypatch.undo()  # back to the real find_spec
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(assets, "checksums", sums)
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(package.parent)
    assert assets.find() == package / "assets"
    assert "humanoid_bench" not in sys.modules
    assets.install(str(folder))
    assert assets.find() == assets.cache_folder()
    monkeypatch.setenv(assets.VARIABLE, str(folder))
    assert assets.find() == folder
    monkeypatch.setenv(assets.VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=f"{assets.VARIABLE}=.*elsewhere holds no HumanoidBench files"):
        assets.find()


def test_files_that_differ_are_not_taken_for_the_benchmarks(folder):
    place = assets.install(str(folder))
    assert assets.verify() == place
    (place / NAMES[1]).unlink()
    (place / NAMES[2]).write_bytes(b"spoilt")
    with pytest.raises(InputError, match=rf"2 of the 3 .* altered, such as {NAMES[1]}; fetch .*: simbav2 assets"):
        assets.verify()


def test_the_checksums_we_ship_are_those_of_the_real_files(monkeypatch, humanoid_bench):
    monkeypatch.undo()
    assert len(assets.checksums()) == 54
    assert assets.verify() == humanoid_bench
