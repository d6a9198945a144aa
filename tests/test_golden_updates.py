"""Our updates are those of the authors' code, by recorded traces of it; skipped where these are not at hand."""

from pathlib import Path

import golden_updates
import numpy as np
import pytest

from simbav2.config import override, presets

pytestmark = pytest.mark.numerics
PLACE = Path(__file__).parents[2] / "shared" / "golden_updates"
# The method of a record is its name before the dash; `double/` has some again in double precision.
RECORDS = [path for pattern in ("*-*", "double/*-*") for path in sorted(PLACE.glob(pattern))]
IDS = [path.relative_to(PLACE).as_posix() for path in RECORDS]
MISSING = "the recorded traces are not part of the repository"


def record(method: str) -> Path:
    found = [path for path in RECORDS if path.name.startswith(f"{method}-")]
    if not found:
        pytest.skip(MISSING)
    return found[0]


@pytest.mark.skipif(not RECORDS, reason=MISSING)
def test_every_method_has_a_record():
    assert {path.name.partition("-")[0] for path in RECORDS} == golden_updates.METHODS.keys()


# `make test` replays one of each kind of record, `make test-all` every one.
KINDS = ("simbav2-sample", "simba-sample.npz", "td3sb3-sample.npz", "xqc_warm-sample.npz", "flashsac-warm.npz")


@pytest.mark.skipif(not RECORDS, reason=MISSING)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(p, marks=() if name in KINDS else pytest.mark.full, id=name)
        for p, name in zip(RECORDS, IDS, strict=True)
    ],
)
def test_updates_are_those_of_the_authors_code(place, capsys):
    assert golden_updates.main([place.name.partition("-")[0], str(place)]) == 0, capsys.readouterr().out
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
    ("method", "preset", "change"),
    [
        ("simba", "simba", {"optimizer.b2": 0.998}),
        ("simba", "simba", {"optimizer.epsilon": 1e-7}),
        ("xqc_warm", "xqc", {"actor_turn": "last"}),
        ("xqc_warm", "xqc", {"actor.statistics_when_skipped": False}),
        ("flashsac", "flashsac", {"actor.joint_batch": False}),
        ("td3sb3", "td3", {"target.with_actor": False}),
        ("redqpaper", "redq", {"update_order": "together"}),
    ],
)
def test_small_mistakes_are_noticed(monkeypatch, capsys, method, preset, change):
    place, config = record(method), presets.PRESETS[preset].config
    wrong = presets.PRESETS[preset]._replace(config=override(config, change))
    monkeypatch.setitem(presets.PRESETS, preset, wrong)
    assert golden_updates.main([method, str(place)]) != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected METHOD FILE_OR_FOLDER"),
        (["simbav3", "x"], "unknown method 'simbav3'; expected simbav2 or simba or"),
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
    assert golden_updates.compare(ours, theirs, limit, "largest").worst == pytest.approx(0.005 / 4)
    assert not golden_updates.compare({"w": np.array([np.nan])}, {"w": np.array([0.0])}, limit).within


def test_noise_that_is_not_what_the_update_draws_is_refused():
    draws = {"normal": (np.zeros((2, 3)),)}
    with golden_updates.recorded(draws):
        assert golden_updates.jax.random.normal(None, (2, 3)) is draws["normal"][0]
    with pytest.raises(golden_updates.InputError, match="not what was recorded"), golden_updates.recorded(draws):
        golden_updates.jax.random.normal(None, (3, 3))
    with pytest.raises(golden_updates.InputError, match="less than was recorded"), golden_updates.recorded(draws):
        pass
