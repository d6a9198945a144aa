"""The command line. Heavy imports happen inside the commands, so that help comes at once.

`--section.field VALUE` is read by `config.override`, the same function that serves Python, so that both give the
same one-line errors; a parser library would only stand between.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from simbav2 import __version__, presets
from simbav2.config import leaves, override
from simbav2.envs.tasks import Task, tasks
from simbav2.errors import InputError

DEFAULT_TASK = "dmc/walker-stand"
_TRAIN_OPTIONS = ("preset", "design", "seeds", "stop-after", "out", "overwrite", "help")
STOPPED = 130  # the shell's status for Ctrl-C


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        parser = _parser()
        words, settings = _take_settings(list(sys.argv[1:] if arguments is None else arguments))
        options = parser.parse_args(words, argparse.Namespace(settings=settings))
        return options.run(options)
    except InputError as error:
        print(f"simbav2: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0


def _parser() -> Parser:
    top = Parser(
        prog="simbav2", description="SimbaV2: soft actor-critic on the unit hypersphere.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"simbav2 {__version__}")
    top.set_defaults(run=lambda options: _print_help(top))
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, run: Any, about: str, **more: Any) -> Parser:
        added: Parser = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **more,
        )
        added.set_defaults(run=run)
        return added

    train = command(
        "train", _train, "train an agent: live progress, evaluations, checkpoints, a report", epilog=_SETTINGS
    )
    train.usage = (
        "simbav2 train TASK [--preset NAME] [--design X] [--seed K | --seeds K K ...] [--env-steps N] [--out DIR] "
        "[--section.field VALUE ...]"
    )
    train.add_argument(
        "task",
        metavar="TASK",
        nargs="?",
        default=DEFAULT_TASK,
        help=f"a task of `simbav2 tasks` or any Gymnasium id (default: {DEFAULT_TASK})",
    )
    train.add_argument(
        "--preset",
        metavar="NAME",
        default=presets.DEFAULT,
        help=f"{', '.join(presets.PRESETS)} (default: {presets.DEFAULT})",
    )
    train.add_argument(
        "--design",
        metavar="X",
        help="make one change of the paper's design study to the preset: a to m, see `simbav2 presets`",
    )
    train.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        metavar="K",
        help="several runs side by side, each on its own share of the cores; with --out in DIR/seed-K",
    )
    train.add_argument(
        "--stop-after",
        type=int,
        metavar="N",
        help="end after N simulator steps; schedules stay those of --env-steps",
    )
    train.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the run's folder (default: one under runs/, named after the config)",
    )
    train.add_argument("--overwrite", action="store_true", help="delete the run that the folder already holds")

    resume = command("resume", _resume, "go on with a run where it stopped")
    resume.add_argument("folder", type=Path, metavar="RUN")
    resume.add_argument("--stop-after", type=int, metavar="N", help="end after N simulator steps in all")

    evaluate = command("evaluate", _evaluate, "score a trained policy, and film it")
    evaluate.add_argument("folder", type=Path, metavar="RUN", help="a run or a saved agent")
    evaluate.add_argument("--episodes", type=int, default=10, metavar="N", help="how many to play (default: 10)")
    evaluate.add_argument(
        "--seed",
        type=int,
        default=None,
        metavar="K",
        help="of the episodes (default: the run's own evaluation seed)",
    )
    evaluate.add_argument("--video", type=Path, metavar="FILE", help="film the first episodes: an .mp4 file")
    evaluate.add_argument("--json", action="store_true", help="print facts as JSON")

    report = command("report", _report, "write tables, curves and one HTML page about runs")
    report.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="runs, or folders that hold runs")
    report.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="where to (default: report)"
    )

    listing = command("tasks", _tasks, "list the tasks of the benchmark")
    listing.add_argument("suite", nargs="?", metavar="SUITE", help="only this suite")
    listing.add_argument("--check", action="store_true", help="build and step each task; say what is missing")
    listing.add_argument("--json", action="store_true", help="print facts as JSON")

    shown = command(
        "presets", _presets, "show every preset as its difference from `paper`, and the design changes"
    )
    shown.add_argument("--json", action="store_true", help="print facts as JSON")

    assets = command("assets", _assets, "fetch model files that are not ours to ship")
    assets.add_argument("name", choices=["humanoid-bench"], help="the HumanoidBench models, for the suite hbench")
    assets.add_argument(
        "--from", dest="source", metavar="SOURCE", help="a folder, a zip file or an address (default: upstream's)"
    )
    assets.add_argument("--json", action="store_true", help="print facts as JSON")

    bench = command(
        "bench", _bench, "measure how fast it is here: updates, the loop around them, memory, start-up"
    )
    bench.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    bench.add_argument("--json", action="store_true", help="print facts as JSON")

    doctor = command("doctor", _doctor, "tell what is installed, what works here, and how to mend the rest")
    doctor.add_argument("--json", action="store_true", help="print facts as JSON")
    return top


_SETTINGS = (
    "settings (any of them can be given as --name VALUE; `simbav2 presets` tells what presets change):\n"
    + "\n".join(
        f"  --{name.replace('_', '-'):<36}{value}"
        for name, value in leaves(presets.preset(presets.DEFAULT)).items()
        if name not in ("task", "preset", "design")
    )
)


def _take_settings(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take `--name value` and `--name=value` out of the words of `train`, all but its own options."""
    if words[:1] != ["train"]:
        return words, {}
    rest: list[str] = []
    settings: dict[str, str] = {}
    queue = iter(words)
    for word in queue:
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--") or name in _TRAIN_OPTIONS:
            rest.append(word)
            continue
        if not equals:
            value = next(queue, "")
            if not value or value.startswith("--"):
                raise InputError(f"--{name} has no value; expected --{name} VALUE")
        settings[name] = value
    return rest, settings


def _print_help(parser: Parser) -> int:
    parser.print_help()
    return 0


def _print_json(data: Any) -> int:
    print(json.dumps(data, indent=2))
    return 0


def _train(options: argparse.Namespace) -> int:
    if options.seeds:
        return _train_seeds(options)
    from simbav2.agent import SimbaV2
    from simbav2.training import run

    agent = SimbaV2(options.task, preset=options.preset, design=options.design, **options.settings)
    folder = options.out or run.default_folder(agent.config)
    return _conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite))


def _train_seeds(options: argparse.Namespace) -> int:
    """A `simbav2 train` per seed; the worst exit status is ours."""
    if "seed" in options.settings:
        raise InputError("--seed and --seeds were both given; expected one of them")
    if len(set(options.seeds)) < len(options.seeds):
        raise InputError(f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}")
    override(presets.preset(options.preset, options.design), options.settings)  # bad settings are told once

    from simbav2.training import seeds

    common = [options.task, "--preset", options.preset]
    common += ["--design", options.design] if options.design else []
    common += ["--stop-after", str(options.stop_after)] if options.stop_after else []
    common += ["--overwrite"] if options.overwrite else []
    common += [f"--{name}={value}" for name, value in options.settings.items()]

    def run(seed: int) -> seeds.Run:
        out = ["--out", str(options.out / f"seed-{seed}")] if options.out else []
        return seeds.Run(seed, (*common, "--seed", str(seed), *out))

    return max(seeds.train([run(seed) for seed in options.seeds]).values())


def _resume(options: argparse.Namespace) -> int:
    from simbav2.training import run

    return _conclude(options.folder, run.resume(options.folder, options.stop_after))


def _conclude(folder: Path, summary: dict[str, Any] | None) -> int:
    if summary is None:
        print(f"stopped and saved; go on with: simbav2 resume {folder}")
        return STOPPED
    result = f"return {summary['final_return']:.1f}"
    if summary["final_success"] is not None:
        result += f", success {summary['final_success']:.0%}"
    print(f"{summary['task']}: {result} after {summary['env_steps']:,} steps")
    print(f"report: {folder / 'report' / 'index.html'}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from simbav2.agent import SimbaV2
    from simbav2.training.evaluate import evaluate, mean_success, mean_total

    if options.episodes < 1:
        raise InputError(f"--episodes is {options.episodes}; expected at least 1")
    agent = SimbaV2.load(options.folder)
    if options.video:
        from simbav2.training.video import film

        film(agent, options.video, options.episodes, options.seed)
    with agent.make_evaluation_envs(options.seed) as envs:
        episodes = evaluate(agent, envs, options.episodes)
    total, success = mean_total(episodes), mean_success(episodes)
    if options.json:
        return _print_json({
            "task": agent.config.task,
            "env_steps": agent.env_steps,
            "return": total,
            "success": success,
            "episodes": [{"return": e.total, "length": e.length, "success": e.success} for e in episodes],
            "video": str(options.video) if options.video else None,
        })  # fmt: skip
    for number, episode in enumerate(episodes):
        solved = "" if episode.success is None else f"  success {episode.success:.0f}"
        print(f"episode {number:>3}  return {episode.total:>10.1f}  length {episode.length:>5}{solved}")
    solved = "" if success is None else f", success {success:.0%}"
    print(f"{agent.config.task} after {agent.env_steps:,} steps: return {total:.1f}{solved}")
    if options.video:
        print(f"video: {options.video}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from simbav2.analysis.report import write_report
    from simbav2.analysis.runs import read_runs

    runs, problems = read_runs(options.folders)
    for problem in problems:
        print(f"simbav2: {problem}", file=sys.stderr)
    print(write_report(runs, options.out, problems))
    return 0


def _tasks(options: argparse.Namespace) -> int:
    rows = tasks(options.suite)
    if options.check:
        return _check(rows, options.json)
    if options.json:
        return _print_json([dataclasses.asdict(task) for task in rows])
    print(f"{'':<30}{'obs':>6}{'actions':>9}{'repeat':>8}{'steps':>7}{'random':>9}{'reference':>11}")
    for suite, members in _by_suite(rows).items():
        print(f"{suite}: {len(members)} tasks, scored by {members[0].metric}")
        for task in members:
            sizes = (
                f"{task.observation_size:>6}{task.action_size:>9}{task.action_repeat:>8}{task.episode_length:>7}"
            )
            print(f"  {task.id:<28}{sizes}{_score(task.random_score)}{_score(task.reference_score, 11)}")
    return 0


def _by_suite(rows: Sequence[Task]) -> dict[str, list[Task]]:
    suites: dict[str, list[Task]] = {}
    for task in rows:
        suites.setdefault(task.suite, []).append(task)
    return suites


def _check(rows: Sequence[Task], as_json: bool) -> int:
    from simbav2.envs.check import attempt, missing

    attempts = []
    for suite, members in _by_suite(rows).items():
        tried = [attempt(task) for task in members]
        attempts += tried
        if as_json:
            continue
        print(f"{suite:<9}{sum(one.ok for one in tried):>3} of {len(tried):>2} tasks work", flush=True)
        # What is missing stops a whole suite; it is told once.
        for remedy, one in {one.remedy: one for one in reversed(tried) if not one.ok}.items():
            print(f"    {one.task}: {one.problem}\n    → {remedy}", flush=True)
    working = sum(one.ok for one in attempts)
    if as_json:
        _print_json({
            "tasks": len(attempts),
            "working": working,
            "missing": {one.suite: {"problem": one.problem, "remedy": one.remedy} for one in missing(attempts)},
            "attempts": [one._asdict() for one in attempts],
        })  # fmt: skip
    else:
        print(f"{working} of {len(attempts)} tasks work")
    return int(working < len(attempts))


def _score(score: float | None, width: int = 9) -> str:
    return f"{'–' if score is None else format(score, '.7g'):>{width}}"


def _presets(options: argparse.Namespace) -> int:
    systems = {name: presets.difference(system.config) for name, system in presets.PRESETS.items()}
    if options.json:
        return _print_json({
            name: {
                "about": presets.PRESETS[name].about,
                "default": name == presets.DEFAULT,
                "differs": {field: after for field, (_, after) in differs.items()},
                "designs": {
                    letter: presets.DESIGNS[letter].about
                    for letter in presets.DESIGNS
                    if presets.applies(letter, presets.PRESETS[name].config)
                },
            }
            for name, differs in systems.items()
        })  # fmt: skip
    for name, differs in systems.items():
        default = " (default)" if name == presets.DEFAULT else ""
        print(f"{name}{default}: {presets.PRESETS[name].about}")
        for field, (before, after) in differs.items():
            print(f"    --{field.replace('_', '-'):<44} {'' if before is None else before} -> {after}")
    print("\ndesign changes (section 5.5, table 2), on any preset that has the part: --design X")
    for name, design in presets.DESIGNS.items():
        print(f"  {name}  {design.about}")
    return 0


def _assets(options: argparse.Namespace) -> int:
    from simbav2.envs.hbench import assets

    folder = None
    if options.source is None:
        with suppress(InputError):  # not there yet, or not whole
            folder = assets.verify()
    fetched = folder is None
    if folder is None:
        folder = _install(options.source)
        if assets.find() != folder:
            raise InputError(f"installed in {folder}, but {assets.VARIABLE} names another folder; unset it")
    if options.json:
        return _print_json({"folder": str(folder), "files": len(assets.sums()), "fetched": fetched})
    print(f"{len(assets.sums())} HumanoidBench files {'installed' if fetched else 'already there'}: {folder}")
    return 0


def _install(source: str | None) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    from simbav2.envs.hbench import assets

    console = Console(stderr=True)
    with Progress(
        "fetching", BarColumn(), DownloadColumn(), console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        download = bar.add_task("", total=None)
        return assets.install(source, lambda done, total: bar.update(download, completed=done, total=total))


def _bench(options: argparse.Namespace) -> int:
    from simbav2 import bench

    result = bench.run(bench.QUICK if options.quick else bench.FULL)
    if options.json:
        return _print_json(result)
    print(bench.table(result))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from simbav2 import doctor

    findings = doctor.examine()
    if options.json:
        return _print_json([dataclasses.asdict(finding) for finding in findings])
    doctor.show(findings)
    return 0
