"""The model card of a policy on the hub: its task, its return, the versions and the command that made it."""

from __future__ import annotations

import json
from pathlib import Path

from simbav2.experiments.report.curves import draw_curves, task_panel
from simbav2.experiments.report.methods import methods
from simbav2.experiments.report.runs import RunRecord, command, read_run
from simbav2.experiments.report.scores import metric
from simbav2.experiments.report.statistics import bootstrap_interval, mean
from simbav2.experiments.report.tables import interval, plain
from simbav2.interop.hub import CARD, CURVE


def write_card(folder: Path, repo: str, out: Path) -> list[Path]:
    """The card of the run or saved agent in `folder`, and its learning curve if it was ever evaluated."""
    run = read_run(folder)
    written = [out / CARD]
    if len(run.evaluations.env_step):
        found = methods([run])
        draw_curves([task_panel(run.task, found)], [found[0].label], out / Path(CURVE).stem)
        written.append(out / CURVE)
    (out / CARD).write_text(_text(run, repo, curve=len(written) > 1), encoding="utf-8")
    return written


def _text(run: RunRecord, repo: str, curve: bool) -> str:
    lines = [
        *_front_matter(run),
        f"# {plain(repo)}",
        "",
        f"A SimbaV2 policy for `{_code(run.task)}`: soft actor-critic on the unit hypersphere.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _facts(run).items()),
        "",
        *([f"![learning curve]({CURVE})", ""] if curve else []),
        "```bash",
        "pip install 'simbav2[hub,video]'",
        f"simbav2 pull {repo} --out policy",
        "simbav2 evaluate policy --video policy.mp4",
        "```",
    ]
    if curve:
        lines += ["", "Made by", "", "```bash", *command(run).splitlines(), "```"]
    return "\n".join(lines) + "\n"


def _front_matter(run: RunRecord) -> list[str]:
    """The YAML header that the hub reads. JSON is YAML, and its strings are escaped."""
    content = {
        "library_name": "simbav2",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "continuous-control", run.task],
    }
    return ["---", *(f"{name}: {json.dumps(value)}" for name, value in content.items()), "---", ""]


def _facts(run: RunRecord) -> dict[str, str]:
    facts = {"task": f"`{_code(run.task)}`", "preset": plain(run.preset), "seed": str(run.seed)}
    if len(run.evaluations.env_step):
        facts |= {run.step_unit: f"{run.env_steps:,}", metric(run.task): _result(run)}
    return facts | {"versions": plain(", ".join(f"{name} {version}" for name, version in run.versions.items()))}


def _result(run: RunRecord) -> str:
    """Of the last evaluation. One run has no interval over seeds, so the text says what this one is over."""
    records = run.evaluations
    last = records.env_step == records.env_step.max()
    scores = (records.success if metric(run.task) == "success" else records.returns)[last]
    low, high = bootstrap_interval(scores[:, None], mean)
    digits = 2 if metric(run.task) == "success" else 1
    shown = interval(float(scores.mean()), low, high, digits)
    return f"{shown} (95 % interval over {len(scores)} evaluation episodes of this one seed)"


def _code(text: str) -> str:
    return "".join(each for each in text if each.isprintable() and each not in "`|")
