"""Finding and installing HumanoidBench's files. No network: a local server plays upstream."""

from __future__ import annotations

import hashlib
import http.server
import importlib
import shutil
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simbav2.envs.humanoid_bench import assets
from simbav2.errors import InputError

TOP = "humanoid-bench-791405f/"  # what GitHub puts before every name in an archive of the commit

NAMES = ("envs/h1_pos_walk.xml", "robots/h1_pos.xml", "h1/assets/pelvis.stl")


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Nothing of this machine is found, nothing of it is touched, and three small files are all there is."""
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(assets, "sums", lambda: {name: digest(content(name)) for name in NAMES})


def content(name: str) -> bytes:
    return name.encode() * 1000


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def folder(tmp_path) -> Path:
    """An assets folder as upstream has it."""
    for name in NAMES:
        path = tmp_path / "upstream" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(name))
    return tmp_path / "upstream"


@pytest.fixture
def archive(tmp_path) -> Path:
    """The repository as GitHub zips it, with files nobody wants and names that try to climb out."""
    path = tmp_path / "upstream.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in NAMES:
            file.writestr(f"{TOP}humanoid_bench/assets/{name}", content(name))
        file.writestr(f"{TOP}LICENSE", "be nice")
        file.writestr(f"{TOP}humanoid_bench/assets/kitchen.xml", "unwanted")
        file.writestr("../../escaped", "slip")
        file.writestr("/tmp/simbav2-escaped", "slip")
        file.writestr(f"../{TOP}humanoid_bench/assets/envs/h1_pos_walk.xml", "slip")
    return path


class Server(http.server.ThreadingHTTPServer):
    body = b""
    status = 200
    length: int | None = None  # said to be sent; None says nothing

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/archive.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        if self.server.length is not None:
            self.send_header("Content-Length", str(self.server.length))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def files(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def refused(source: object, match: str) -> None:
    """The source is refused in one line, and what was installed before stays untouched."""
    before = files(assets.cache_folder().parent)
    with pytest.raises(InputError, match=match) as error:
        assets.install(str(source))
    assert "\n" not in str(error.value)
    assert files(assets.cache_folder().parent) == before


EXPECTED = {name: content(name) for name in NAMES}


# Installing


def test_a_folder_is_installed_and_found(folder):
    place = assets.install(str(folder))
    assert files(place) == EXPECTED
    assert assets.find() == place == assets.cache_folder()
    assert assets.differing(place) == ()


@pytest.mark.parametrize("inside", ["humanoid_bench/assets", "checkout/humanoid_bench/assets", "assets"])
def test_a_folder_may_hold_the_files_further_in(folder, tmp_path, inside):
    outer = tmp_path / "outer"
    shutil.copytree(folder, outer / inside)
    assert files(assets.install(str(outer))) == EXPECTED


def test_from_an_archive_only_wanted_files_are_taken_and_nothing_lands_elsewhere(archive, tmp_path):
    place = assets.install(str(archive))
    assert files(place) == EXPECTED | {"LICENSE": b"be nice"}
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert not list(tmp_path.rglob("escaped"))
    assert not Path("/tmp/simbav2-escaped").exists()


def test_an_archive_may_hold_the_files_at_its_top(folder):
    packed = shutil.make_archive(str(folder), "zip", folder)
    assert files(assets.install(packed)) == EXPECTED


def test_a_download_reports_its_progress(server, archive):
    server.body = archive.read_bytes()
    server.length = len(server.body)
    seen = []
    place = assets.install(server.url, progress=lambda done, total: seen.append((done, total)))
    assert files(place) == EXPECTED | {"LICENSE": b"be nice"}
    assert seen[-1] == (len(server.body), len(server.body))


def test_a_download_of_unknown_length_will_do(server, archive):
    server.body = archive.read_bytes()
    assert files(assets.install(server.url)) == EXPECTED | {"LICENSE": b"be nice"}


def test_upstream_is_the_default(server, archive, monkeypatch):
    server.body = archive.read_bytes()
    monkeypatch.setattr(assets, "UPSTREAM", server.url)
    assert files(assets.install()) == EXPECTED | {"LICENSE": b"be nice"}


def test_installing_again_replaces_what_was_there(folder):
    place = assets.install(str(folder))
    (place / NAMES[0]).write_bytes(b"spoilt")
    (place / "stray").write_bytes(b"")
    assert assets.differing(place) == (NAMES[0],)
    assert files(assets.install(str(folder))) == EXPECTED


# Refusals


def test_a_damaged_file_is_named(folder):
    assets.install(str(folder))
    (folder / NAMES[1]).write_bytes(b"x" + content(NAMES[1])[1:])
    refused(folder, rf"{NAMES[1]} in .* is damaged or of another version \(SHA-256 .*, expected .*\)")


def test_a_truncated_file_is_named(folder):
    (folder / NAMES[2]).write_bytes(content(NAMES[2])[:-1])
    refused(folder, rf"{NAMES[2]} in .* is damaged")


def test_a_missing_file_is_named(folder):
    (folder / NAMES[1]).unlink()
    refused(folder, rf"lacks 1 of the 3 HumanoidBench files, such as {NAMES[1]}")


def test_a_folder_or_archive_of_something_else_is_refused(tmp_path):
    (tmp_path / "other").mkdir()
    refused(tmp_path / "other", "lacks 3 of the 3")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("hello", "world")
    refused(tmp_path / "other.zip", "lacks 3 of the 3")


def test_a_file_far_too_large_is_not_read_to_its_end(folder, monkeypatch):
    monkeypatch.setattr(assets, "LARGEST_FILE", 100)
    refused(folder, "is damaged")


def test_a_source_that_is_not_there_is_refused(tmp_path):
    refused(tmp_path / "nowhere", "expected a folder, a zip file or an http")
    refused("ftp://127.0.0.1/x.zip", "expected a folder, a zip file or an http")


def flip_a_byte(data: bytes) -> bytes:
    middle = 60  # inside the first file's compressed content
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda data: data[: len(data) // 2], "not a whole one"),
        (lambda data: b"<html>sign in to the hotel network</html>", "no zip file"),
        (flip_a_byte, "cannot read|is damaged"),
        (lambda data: b"", "no zip file"),
    ],
    ids=["truncated", "a web page", "corrupted", "empty"],
)
def test_a_spoilt_archive_is_refused(server, archive, spoil: Callable[[bytes], bytes], match):
    spoilt = spoil(archive.read_bytes())
    archive.write_bytes(spoilt)
    refused(archive, match)
    server.body = spoilt
    refused(server.url, match)


def test_a_download_that_breaks_off_is_refused(server, archive):
    server.body = archive.read_bytes()[:-100]
    server.length = archive.stat().st_size
    refused(server.url, "broke off after|could not download")


def test_a_server_that_refuses_is_quoted(server):
    server.status = 404
    refused(server.url, r"could not download http://.* \(.*Not Found.*\); check the network, or pass a folder")


def test_a_network_that_is_down_is_one_clear_line():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    refused(f"http://127.0.0.1:{port}/x.zip", r"could not download .* \(.*refused.*\); check the network")


def test_an_endless_download_is_cut_short(server, monkeypatch):
    monkeypatch.setattr(assets, "LARGEST_ARCHIVE", 1000)
    server.body = b"0" * 2000
    refused(server.url, "sends more than 1,000 bytes")


def test_a_cache_that_cannot_be_written_is_explained(folder, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(InputError, match=r"cannot install into .*; set XDG_CACHE_HOME"):
        assets.install(str(folder))


# Finding


def test_the_variable_comes_first_then_the_cache_then_the_package(folder, tmp_path, monkeypatch):
    package = tmp_path / "site" / "humanoid_bench"
    shutil.copytree(folder, package / "assets")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.undo()  # back to the real find_spec
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(assets, "sums", lambda: {name: digest(content(name)) for name in NAMES})
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(package.parent)
    assert assets.find() == package / "assets"
    assert "humanoid_bench" not in sys.modules
    assets.install(str(folder))
    assert assets.find() == assets.cache_folder()
    monkeypatch.setenv(assets.VARIABLE, str(folder))
    assert assets.find() == folder


def test_without_files_the_command_that_fetches_them_is_named():
    with pytest.raises(InputError, match="fetch them: simbav2 assets humanoid-bench"):
        assets.find()


def test_a_variable_that_names_the_wrong_folder_is_an_error_all_the_same(folder, monkeypatch, tmp_path):
    assets.install(str(folder))
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


@pytest.mark.parametrize(("platform", "below"), [("darwin", "Library/Caches"), ("linux", ".cache")])
def test_the_cache_is_where_the_platform_keeps_caches(platform, below, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative paths do not count")
    assert assets.cache_folder() == Path.home() / below / "simbav2" / "humanoid-bench"


# The real files


def test_the_sums_we_ship_are_those_of_the_real_files(monkeypatch, humanoid_bench):
    monkeypatch.undo()
    assert len(assets.sums()) == 54
    assert assets.verify() == humanoid_bench
