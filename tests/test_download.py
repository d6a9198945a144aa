"""D4RL's files from a server: whole, going on after a break, refused when wrong."""

import pytest
from offline_files import mirrored, write_columns

from simbav2 import InputError, download
from simbav2.cli import main
from simbav2.datasets import catalog

NAME = "d4rl/walker2d-medium-v2"


@pytest.fixture
def server(tmp_path, monkeypatch):
    with mirrored(write_columns(tmp_path / "source.hdf5"), monkeypatch, tmp_path / "cache") as server:
        yield server


def test_a_file_is_fetched_once(server):
    path = download.fetch(catalog.find(NAME))
    assert path.read_bytes() == server.content
    assert download.fetch(catalog.find(NAME)) == path
    assert server.asked == ["/d4rl/walker2d_medium-v2.hdf5 bytes=0-"]


def test_a_changed_file_is_noticed(server):
    path = download.fetch(catalog.find(NAME))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match=r"walker2d_medium-v2.hdf5 is damaged"):
        download.cached(catalog.find(NAME))


def test_a_broken_download_goes_on(server, monkeypatch):
    monkeypatch.setattr(server, "breaks_after", 1000)
    with pytest.raises(InputError, match=r"could not be downloaded .*127.0.0.1.*--data FILE"):
        download.fetch(catalog.find(NAME))
    monkeypatch.setattr(server, "breaks_after", None)
    assert download.fetch(catalog.find(NAME)).read_bytes() == server.content
    assert server.asked[-1].endswith("bytes=1000-")


def test_another_file_is_refused_and_the_next_mirror_asked(server, monkeypatch):
    good = server.content
    monkeypatch.setattr(server, "content", b"<html>Moved</html>")
    with pytest.raises(InputError, match=r"127.0.0.1: another file, its SHA-256 is not "):
        download.fetch(catalog.find(NAME))
    folder = catalog.find(NAME).path.parent
    assert not list(folder.iterdir())
    monkeypatch.setattr(catalog, "MIRRORS", ("http://127.0.0.1:9/", *catalog.MIRRORS))  # nobody listens there
    monkeypatch.setattr(server, "content", good)
    assert download.fetch(catalog.find(NAME)).read_bytes() == good


def test_without_a_network_one_line_says_what_to_do(server, monkeypatch, capsys):
    monkeypatch.setattr(catalog, "MIRRORS", ("http://127.0.0.1:9/",))  # nobody listens there
    assert main(["offline", NAME, "--download"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "could not be downloaded" in lines[0]
    assert "walker2d_medium-v2.hdf5" in lines[0]


def test_the_command_fetches_all_nine(server, capsys):
    assert main(["offline", "--download"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 9
    assert len(set(server.asked)) == 9
