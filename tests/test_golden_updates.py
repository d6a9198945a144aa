"""Our updates are those of the authors' code, by recorded traces of it; skipped where these are not at hand."""

from pathlib import Path

import golden_updates
import numpy as np
import pytest

pytestmark = pytest.mark.numerics
PLACE = Path(__file__).parents[2] / "shared" / "golden_updates"
RECORDS = {"simbav2": PLACE / "simbav2-sample", "simba": PLACE / "simba-sample.npz"}


def record(method: str) -> Path:
    if not RECORDS[method].exists():
        pytest.skip(f"{RECORDS[method]} is missing: the recorded traces are not part of the repository")
    return RECORDS[method]


def test_every_method_has_a_record():
    assert RECORDS.keys() == golden_updates.METHODS.keys()


@pytest.mark.parametrize("method", golden_updates.METHODS)
def test_updates_are_those_of_the_authors_code(method, capsys):
    assert golden_updates.main([method, str(record(method))]) == 0
    printed = capsys.readouterr().out
    assert "worst" in printed
    assert "rms" in printed


def changed(file: Path, folder: Path, **changes: np.ndarray) -> str:
    """A copy of a record with some of its arrays replaced."""
    with np.load(file) as data:
        np.savez(folder / "changed.npz", **{**data, **changes})
    return str(folder / "changed.npz")


def test_an_update_that_differs_is_beyond_the_limits(tmp_path, capsys):
    file = record("simba")
    with np.load(file) as data:
        actor, following, terminated = (data[name] for name in ("noise/actor", "noise/next", "batch/terminated"))
    for changes in (
        {"noise/actor": following, "noise/next": actor},
        {"batch/terminated": np.ones_like(terminated)},
        {"metrics/critic_loss": np.full(len(actor), np.nan)},
    ):
        assert golden_updates.main(["simba", changed(file, tmp_path, **changes)]) == 1
        assert "TOO FAR" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "value"),
    [("simbav2.learner._B2", 0.998), ("simbav2.learner._EPSILON", 1e-7)],
)
def test_small_mistakes_in_the_learner_are_noticed(monkeypatch, capsys, place, value):
    file = record("simba")
    monkeypatch.setattr(place, value)
    assert golden_updates.main(["simba", str(file)]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected METHOD FILE_OR_FOLDER"),
        (["simbav3", "x"], "unknown method 'simbav3'; expected simbav2 or simba; did you mean 'simbav2'?"),
        (["simba", "nowhere.npz"], "nowhere.npz cannot be read"),
        (["simba", "garbage.npz"], "garbage.npz"),
        (["simba", "empty.npz"], "empty.npz is damaged: it lacks 'batch/terminated'"),
        (["simbav2", "."], "trace.npz cannot be read"),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    Path("garbage.npz").write_bytes(b"PK\x03\x04 and nothing more")
    np.savez("empty.npz", nothing=np.zeros(1))
    assert golden_updates.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_the_share_of_entries_beyond_a_limit_counts():
    limit = golden_updates.Limit(worst=1e-2, beyond=1e-3, share=0.25)
    ours, theirs = {"w": np.array([1.0, 2.0, 3.0, 4.005])}, {"w": np.array([1.0, 2.0, 3.0, 4.0])}
    found = golden_updates.compare(ours, theirs, limit)
    assert found.within
    assert "25.000% of the entries beyond 0.001" in str(found)
    assert found.rms == pytest.approx(0.0025)
    assert not golden_updates.compare(ours, theirs, limit._replace(share=0.2)).within
    assert golden_updates.compare(ours, theirs, limit, relative=True).worst == pytest.approx(0.005 / 4)
    assert not golden_updates.compare({"w": np.array([np.nan])}, {"w": np.array([0.0])}, limit).within


def test_noise_that_is_not_what_the_update_draws_is_refused():
    draws = {"normal": (np.zeros((2, 3)),)}
    with golden_updates.recorded(draws):
        assert golden_updates.jax.random.normal(None, (2, 3)) is draws["normal"][0]
    with pytest.raises(golden_updates.InputError, match="not what was recorded"), golden_updates.recorded(draws):
        golden_updates.jax.random.normal(None, (3, 3))
    with pytest.raises(golden_updates.InputError, match="less than was recorded"), golden_updates.recorded(draws):
        pass
