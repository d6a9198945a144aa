import dataclasses
import json

import pytest
from packaging.requirements import Requirement

from simbav2.envs.humanoid_bench import assets
from simbav2.errors import InputError
from simbav2.experiments import doctor


def test_an_examination_finds_the_suites_working_and_can_be_written_as_json(monkeypatch):
    def refuse():
        raise InputError("no frame can be rendered; install something")

    monkeypatch.setattr(doctor, "choose_library", refuse)
    findings = doctor.examine()
    found = {finding.name: finding for finding in findings}
    assert all(found[f"suite {suite}"].ok for suite in ("mujoco", "dmc-easy", "dmc-hard"))
    assert {"python", "device", "threads", "memory", "disk"} <= found.keys()
    assert (found["rendering"].ok, found["rendering"].remedy) == (False, doctor.REMEDY)
    assert all(finding.remedy for finding in findings if not finding.ok)
    json.dumps([dataclasses.asdict(finding) for finding in findings])


@pytest.mark.parametrize(
    ("line", "ok", "optional", "remedy"),
    [
        ("numpy>=1", True, False, ""),
        ("numpy<1", False, False, "pip install --upgrade simbav2"),
        ("no-such-package>=1", False, False, "pip install --upgrade simbav2"),
        ("no-such-package>=1; extra == 'onnx'", False, True, "pip install 'simbav2[onnx]'"),
    ],
)
def test_a_package_is_checked_against_its_bounds(line, ok, optional, remedy):
    finding = doctor._package(Requirement(line))
    assert (finding.ok, finding.optional, finding.remedy) == (ok, optional, remedy)


def test_a_suite_that_cannot_be_built_comes_with_its_remedy(monkeypatch, capsys):
    def fail(name, **_):
        raise InputError(f"{name} cannot be built (no module); pip install 'simbav2[myosuite]'")

    monkeypatch.setattr("simbav2.envs.make.make_env", fail)
    findings = list(doctor._suites())
    assert not any(finding.ok for finding in findings)
    remedies = {finding.remedy for finding in findings if finding.name != "suite hbench"}
    assert remedies == {"pip install 'simbav2[myosuite]'"}
    assert [finding.name for finding in findings if finding.optional] == ["suite myosuite", "suite hbench"]
    doctor.show(findings)
    assert "simbav2[myosuite]" in capsys.readouterr().out


def test_altered_model_files_are_found(monkeypatch, humanoid_bench):
    monkeypatch.setattr(assets, "differing", lambda folder: ("envs/h1_pos_walk.xml",))
    (finding,) = (finding for finding in doctor._suites() if finding.name == "suite hbench")
    assert (finding.ok, finding.optional) == (False, True)
    assert "1 of the 54" in finding.detail
    assert assets.COMMAND in finding.remedy
