"""Files from a server: complete, resumed after a break, refused when wrong."""

import hashlib
import sys
from pathlib import Path

import pytest
from servers import NOBODY, OneFile, serving

from simbav2 import InputError
from simbav2.download import fetch
from simbav2.runtime import cache_folder

CONTENT = bytes(range(256)) * 10
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def address(monkeypatch):
    OneFile.reset(monkeypatch, CONTENT)
    with serving(OneFile) as address:
        yield f"{address}/some/file"


def get(path, *addresses, sha256=SHA256, **options):
    return fetch(path, addresses, "the file", "copy it", sha256, **options)


@pytest.mark.parametrize("sends_length", [True, False])
def test_a_file_arrives_complete_and_reports_its_progress(address, tmp_path, monkeypatch, sends_length):
    monkeypatch.setattr(OneFile, "sends_length", sends_length)
    seen = []
    path = get(tmp_path / "new" / "file", address, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT) if sends_length else None)
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_a_broken_download_resumes(address, tmp_path, monkeypatch):
    monkeypatch.setattr(OneFile, "breaks_after", 1000)
    with pytest.raises(
        InputError, match=r"^the file could not be downloaded \(127.0.0.1: .*; check .* or copy it$"
    ):
        get(tmp_path / "file", address)
    monkeypatch.setattr(OneFile, "breaks_after", None)
    assert get(tmp_path / "file", address).read_bytes() == CONTENT
    assert OneFile.asked[-1] == "/some/file bytes=1000-"


def test_a_partial_file_that_is_complete_is_taken(address, tmp_path):
    (tmp_path / ".file.127.0.0.1.part").write_bytes(CONTENT)
    assert get(tmp_path / "file", address).read_bytes() == CONTENT


def test_another_file_is_refused_and_the_next_mirror_asked(address, tmp_path, monkeypatch):
    monkeypatch.setattr(OneFile, "content", b"<html>Moved</html>")
    with pytest.raises(InputError, match=r"127.0.0.1: another file, its SHA-256 is not "):
        get(tmp_path / "file", address)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(OneFile, "content", CONTENT)
    assert get(tmp_path / "file", NOBODY, address).read_bytes() == CONTENT


def test_failures_are_one_line_and_leave_nothing(address, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"sends more than 1,000 bytes"):
        get(tmp_path / "file", address, largest=1000)
    monkeypatch.setattr(OneFile, "status", 404)
    with pytest.raises(InputError, match=r"Not Found"):
        get(tmp_path / "file", address)
    with pytest.raises(InputError, match=r"refused") as error:
        get(tmp_path / "file", NOBODY)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("platform", "below"), [("darwin", "Library/Caches"), ("linux", ".cache")])
def test_the_cache_is_where_the_platform_keeps_caches(platform, below, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative paths do not count")
    assert cache_folder("name") == Path.home() / below / "simbav2" / "name"
