"""The command line. Heavy imports happen inside the commands, so that help comes at once.

`--section.field VALUE` is read by `config.override`, the same function that serves Python, so that both give the
same one-line errors; a parser library would only stand between.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from simbav2 import __version__, presets
from simbav2.config import leaves
from simbav2.datasets.catalog import D4RL, LEVELS
from simbav2.envs.tasks import Task, tasks
from simbav2.errors import InputError

DEFAULT_TASK = "dmc/walker-stand"
_RUN_OPTIONS = ("preset", "design", "stop-after", "out", "overwrite", "help")
_OWN_OPTIONS = {  # of the commands that take settings; every other option of theirs is one
    "train": _RUN_OPTIONS,
    "offline": (*_RUN_OPTIONS, "data", "task", "download", "then-online"),
}
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
        "simbav2 train TASK [--preset NAME] [--design X] [--seed K] [--env-steps N] [--out DIR] "
        "[--section.field VALUE ...]"
    )
    train.add_argument(
        "task",
        metavar="TASK",
        nargs="?",
        default=DEFAULT_TASK,
        help=f"a task of `simbav2 tasks` or any Gymnasium id (default: {DEFAULT_TASK})",
    )
    _add_run_options(train, presets.DEFAULT)

    offline = command(
        "offline", _offline, "learn from recorded data, and go on acting where asked to", epilog=_SETTINGS
    )
    offline.usage = (
        "simbav2 offline DATASET [--data FILE] [--task TASK] [--download] [--then-online N] [--preset NAME] "
        "[--design X] [--seed K] [--out DIR] [--section.field VALUE ...]"
    )
    offline.add_argument(
        "dataset",
        metavar="DATASET",
        nargs="?",
        help="d4rl/{halfcheetah,hopper,walker2d}-{medium,medium-replay,medium-expert}-v2, minari/ID, an HDF5 file",
    )
    offline.add_argument("--data", type=Path, metavar="FILE", help="the data set's file (default: in the cache)")
    offline.add_argument("--task", metavar="TASK", help="where to evaluate and act (default: as the data says)")
    offline.add_argument(
        "--download", action="store_true", help="fetch the data set first; without DATASET, all nine of D4RL"
    )
    offline.add_argument(
        "--then-online",
        type=int,
        default=0,
        metavar="N",
        help="then act for N simulator steps, learning half from the data, half from what happens (default: 0)",
    )
    _add_run_options(offline, "offline")

    dataset = command("dataset", _dataset, "write runs as data in the layout of D4RL, or check a file")
    dataset.add_argument("folders", type=Path, nargs="*", metavar="RUN", help="runs of `simbav2 train`")
    dataset.add_argument("--out", type=Path, metavar="FILE", help="the HDF5 file to write")
    dataset.add_argument(
        "--episodes", type=int, metavar="N", help="N fresh episodes of each run's policy, instead of its replay"
    )
    dataset.add_argument("--mix", metavar="LEVEL", help=f"a mixture of a run's checkpoints: {', '.join(LEVELS)}")
    dataset.add_argument(
        "--transitions", type=int, default=100_000, metavar="N", help="of a mixture (default: 100000)"
    )
    dataset.add_argument("--seed", type=int, default=0, metavar="K", help="of fresh episodes (default: 0)")
    dataset.add_argument(
        "--check", type=Path, metavar="FILE", help="report shapes, episodes, returns, ranges and what is wrong"
    )
    dataset.add_argument("--json", action="store_true", help="print facts as JSON")

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

    doctor = command("doctor", _doctor, "tell what is installed, what works here, and how to mend the rest")
    doctor.add_argument("--json", action="store_true", help="print facts as JSON")
    return top


def _add_run_options(parser: Parser, preset: str) -> None:
    """What all commands that start a run take."""
    parser.add_argument(
        "--preset", metavar="NAME", default=preset, help=f"{', '.join(presets.PRESETS)} (default: {preset})"
    )
    parser.add_argument(
        "--design",
        metavar="X",
        help="make one change of the paper's design study to the preset: a to m, see `simbav2 presets`",
    )
    parser.add_argument(
        "--stop-after",
        type=int,
        metavar="N",
        help="end after N simulator steps; schedules stay those of the whole run",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the run's folder (default: one under runs/, named after the config)",
    )
    parser.add_argument("--overwrite", action="store_true", help="delete the run that the folder already holds")


_SETTINGS = (
    "settings (any of them can be given as --name VALUE; `simbav2 presets` tells what presets change):\n"
    + "\n".join(
        f"  --{name.replace('_', '-'):<36}{value}"
        for name, value in leaves(presets.preset(presets.DEFAULT)).items()
        if name not in ("task", "preset", "design", "data.source", "data.file", "data.transitions", "data.sha256")
    )
)


def _take_settings(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take `--name value` and `--name=value` out of the words of a command, all but its own options."""
    own = _OWN_OPTIONS.get(words[0]) if words else None
    if own is None:
        return words, {}
    rest: list[str] = []
    settings: dict[str, str] = {}
    queue = iter(words)
    for word in queue:
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--") or name in own:
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
    from simbav2.agent import SimbaV2
    from simbav2.training import run

    agent = SimbaV2(options.task, preset=options.preset, design=options.design, **options.settings)
    folder = options.out or run.default_folder(agent.config)
    return _conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite))


def _offline(options: argparse.Namespace) -> int:
    wanted = [options.dataset] if options.dataset else list(D4RL)
    if options.download:
        _fetch(wanted)
    if options.dataset is None:
        if options.download:
            return 0
        raise InputError("no data set given; expected `simbav2 offline DATASET`, see `simbav2 offline --help`")
    from simbav2.training import run
    from simbav2.training.offline import make_agent

    agent = make_agent(
        options.dataset,
        file=options.data,
        task=options.task,
        then_online=options.then_online,
        preset=options.preset,
        design=options.design,
        settings=options.settings,
    )
    folder = options.out or run.default_folder(agent.config)
    return _conclude(folder, run.start(agent, folder, options.stop_after, options.overwrite))


def _fetch(names: Sequence[str]) -> None:
    from simbav2.datasets.recorded import fetch

    for name in names:
        with _download_bar() as progress:
            place = fetch(name, progress)
        print(f"{name}: {place}")


def _dataset(options: argparse.Namespace) -> int:
    if options.check:
        return _check_dataset(options.check, options.json)
    if not options.folders or options.out is None:
        raise InputError("nothing to do; expected `simbav2 dataset RUN... --out FILE.hdf5` or `--check FILE`")
    from simbav2.training.collect import write

    transitions = write(
        options.folders, options.out, options.mix, options.episodes, options.transitions, options.seed
    )
    if options.json:
        return _print_json({"file": str(options.out), "transitions": transitions})
    print(f"{options.out}: {transitions:,} transitions")
    return 0


def _check_dataset(path: Path, as_json: bool) -> int:
    from simbav2.datasets.check import examine

    facts = examine(path)
    if as_json:
        _print_json(facts)
    else:
        print(f"{path}: {facts['transitions']:,} transitions, {facts['episodes']:,} episodes of {facts['task']}")
        for name in ("length", "return"):
            spread = facts[name]
            print(f"{name:<18}mean {spread['mean']:.1f}, from {spread['lowest']:.1f} to {spread['highest']:.1f}")
        for key, (*shape, kind) in facts["shapes"].items():
            low_high = facts["ranges"].get(key)
            ranges = "" if low_high is None else f"  from {low_high[0]:.4g} to {low_high[1]:.4g}"
            print(f"{key:<18}{'x'.join(map(str, shape))} {kind}{ranges}")
        print(f"{'duplicates':<18}{facts['duplicates']:,} rows")
        for problem in facts["problems"]:
            print(f"problem: {problem}")
    return int(bool(facts["problems"]))


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
    from simbav2.envs.hbench import assets

    with _download_bar() as progress:
        return assets.install(source, progress)


@contextmanager
def _download_bar() -> Iterator[Callable[[int, int | None], None]]:
    """On a terminal, a bar; called with the bytes so far and in all."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    console = Console(stderr=True)
    with Progress(
        "fetching", BarColumn(), DownloadColumn(), console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        download = bar.add_task("", total=None)
        yield lambda done, total: bar.update(download, completed=done, total=total)


def _doctor(options: argparse.Namespace) -> int:
    from simbav2 import doctor

    findings = doctor.examine()
    if options.json:
        return _print_json([dataclasses.asdict(finding) for finding in findings])
    doctor.show(findings)
    return 0
