"""Plans: the runs they list, what those take, and one clear line for what is wrong with a plan."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_plan import write

from simbav2 import SimbaV2, cli
from simbav2.experiments.report.runs import read_runs
from simbav2.experiments.sweep.estimate import estimate, pace
from simbav2.experiments.sweep.plan import read_plan
from simbav2.experiments.sweep.status import status
from simbav2.training import run

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("smoke", 3 * 2 * 2),
        ("paper-online", 57 * 10),
        ("paper-ablation", 57 * 14 * 3),
        ("paper-width", (2 * 12 + 7) * 4 * 5),
        ("paper-depth", 2 * 12 * 4 * 5),
        ("paper-utd", (2 * 12 * 2 + 7) * 4 * 5),
        # Of 31 methods on tasks, the default (width 512, depth 2, two updates) is in two or three of the plans.
        ("paper-scaling", 620 + 480 + 1100 - 5 * (2 * 12 * 2 + 7)),
        ("paper-ddpg", 3 * 12 * 5),
        ("paper-offline", 9 * 10),
    ],
)
def test_named_plans_are_the_papers_experiments(name, count):
    runs = read_plan(name).runs
    assert len(runs) == len({run.name for run in runs}) == count


def test_the_records_in_the_repository_are_whole_runs_of_the_evidence_plan():
    place = ROOT / "results" / "first-evidence"
    planned = read_plan(str(ROOT / "plans" / "first-evidence.toml")).runs
    assert len(planned) == 4 * 4 * 2
    sizes = {(each.config.critic.width, each.config.env_steps, each.until) for each in planned}
    assert sizes == {(128, 1_000_000, 60_000)}
    records, problems = read_runs([place])
    assert not problems
    assert {record.folder.name for record in records} == {run.name for run in planned}
    assert all(status(run, place).state == "finished" for run in planned)
    for record in records:
        assert (record.status, record.damage) == ("finished", ())
        assert record.env_steps == record.evaluations.env_step[-1] == 60_000
        # They were made before the keys of DMC's observations were sorted, and say so where it made a difference.
        order = "dm_control" if record.config.task == "dmc/walker-walk" else None
        assert record.versions.get("observation_order") == order


def test_a_run_is_named_as_train_names_it():
    planned = read_plan("smoke").runs[0]
    agent = SimbaV2("mujoco/Hopper-v4", preset="quick", **dict(planned.settings))
    assert run.default_folder(agent.config).name == planned.name


def test_grids_parts_and_ablations_multiply(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("""
        tasks = ["dmc/walker-walk", "mujoco"]
        presets = ["paper"]
        seeds = [3, 5]
        [settings]
        critic.depth = 1
        [grid]
        critic.width = [16, 32]
        [[part]]
        ablations = ["none", "e"]
        [[part]]
        tasks = ["dmc/walker-walk"]
        grid.updates_per_decision = [1, 2]  # of which 2 is the preset's: the parts share these runs
    """)
    runs = read_plan(str(path)).runs
    assert len(runs) == 6 * 2 * 2 * 2 + 2 * 2
    first = runs[0]
    assert first.title == "dmc/walker-walk · paper · critic.width 16 · seed 3"
    assert (first.config.critic.width, first.config.critic.depth, first.config.seed) == (16, 1, 3)
    assert first.config.critic.num_critics == 1
    assert {each.config.ablation for each in runs} == {None, "e"}


def test_a_data_set_decides_where_its_run_ends(tmp_path):
    planned = read_plan("paper-offline").runs[0]
    command = ["offline", "d4rl/halfcheetah-medium-v2", "--preset", "offline", "--seed", "0"]
    assert planned.argv(tmp_path)[: len(command)] == command
    assert planned.config.imitates
    assert estimate(planned).updates == 390_625  # 100 passes of a million transitions in batches of 256
    folder = tmp_path / planned.name
    folder.mkdir()
    assert status(planned, tmp_path)[:2] == ("waiting", None)
    (folder / "config.json").write_text('{"env_steps": 390100}')
    (folder / "summary.json").write_text('{"env_steps": 1000}')  # of a run with --stop-after
    assert status(planned, tmp_path)[:2] == ("stopped", 390_100)
    (folder / "summary.json").write_text('{"env_steps": 390100}')
    assert status(planned, tmp_path).state == "finished"


def test_a_changed_plan_keeps_its_runs(tmp_path):
    before = {each.name for each in read_plan(str(write(tmp_path, seeds=2))).runs}
    after = {each.name for each in read_plan(str(write(tmp_path, 3, "Pendulum-v1", "dmc/walker-walk"))).runs}
    assert before < after
    assert not before & {each.name for each in read_plan(str(write(tmp_path, seeds=2, env_steps=700))).runs}


HARD, DOG = 'tasks = ["dmc-hard"]\n', 'tasks = ["dmc/dog-run"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks = [", "not valid TOML"),
        ("", "names no tasks"),
        ("tasks = []", "tasks is empty"),
        ('tasks = "dmc-hard"', "expected a list of names"),
        ('taks = ["dmc-hard"]', "did you mean 'tasks'?"),
        ('tasks = ["dmc/walker-wlak"]', "did you mean 'dmc/walker-walk'?"),
        ('tasks = ["dmc-eazy"]', "did you mean 'dmc-easy'?"),
        ('tasks = ["Pendulum-v7"]', "did you mean 'Pendulum-v1'?"),
        (HARD + 'presets = ["papper"]', "did you mean 'paper'?"),
        (HARD + 'ablations = ["z"]', "unknown ablation 'z'"),
        (HARD + 'presets = ["sac"]\nablations = ["a"]', "does not apply to preset 'sac'"),
        (HARD + 'seeds = ["0"]', "seeds is ['0']"),
        (HARD + "seeds = 0", "seeds is 0"),
        (HARD + 'stop_after = "1M"', "stop_after is '1M'"),
        (HARD + "[settings]\ncritic.widht = 3", "did you mean 'critic.width'?"),
        (HARD + '[settings]\ncritic.width = "wide"', "expected int"),
        (HARD + "[settings]\nseed = 3", "use seeds = [...] instead"),
        (HARD + "[grid]\ncritic.width = 3", "expected a list of values"),
        (HARD + "settings = 3", "expected a table"),
        ('tasks = ["dmc-hard", "dmc/dog-run"]', "asks twice for dmc/dog-run"),
        (HARD + "[grid]\ncritic.width = [16, 16]", "asks twice for dmc/dog-run"),
        ('tasks = ["d4rl/hopper-mediun-v2"]', "did you mean 'd4rl/hopper-medium-v2'?"),
        ('tasks = ["dmc-hard", "d4rl"]', "a [[part]] of its own"),
        ('tasks = ["d4rl"]\n[settings]\nenv_steps = 3', "follows from the data"),
        ('include = ["plan.toml"]', "includes itself"),
        ('include = ["paper-onlin"]', "did you mean 'paper-online'?"),
        (HARD + "part = 3", "[[part]]"),
        (DOG + "[[part]]\nstop_after = 5\n[[part]]\nstop_after = 6", "stop after 5 and after 6 steps"),
        (
            DOG + "[[part]]\n[[part]]\nsettings.schedule.keep = 3",
            "two schedules, one of them with schedule.keep",
        ),
        (DOG + "[grid]\nschedule.keep = [2, 3]", "· schedule.keep 3 · seed 0 (the schedule alone"),
    ],
)
def test_a_bad_plan_gets_one_clear_line(capsys, tmp_path, text, message):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    assert cli.main(["sweep", str(path), "--dry-run"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"simbav2: {path}")
    assert message in captured.err


def test_the_whole_benchmark_is_estimated_at_once(tmp_path):
    code = (
        "import sys, time; from simbav2.cli import main;"
        f"main(['sweep', 'paper-online', '--dry-run', '--out', {str(tmp_path)!r}]);"
        "assert not {'jax', 'gymnasium', 'matplotlib'} & set(sys.modules);"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *rows, total, seconds = done.stdout.splitlines()
    assert len(rows) == 1 + 570
    assert total.startswith("570 runs, 570 to do: 614,300,000 updates")  # 2 x (50 x 995,000 + 520 x 495,000)
    assert float(seconds) < 2


def test_a_dry_run_as_json_has_the_commands(capsys):
    assert cli.main(["sweep", "smoke", "--dry-run", "--json", "--out", "there"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in listed] == [each.name for each in read_plan("smoke").runs]
    command = listed[3]["command"]
    assert command[:7] == ["simbav2", "train", "mujoco/Hopper-v4", "--preset", "sac", "--seed", "1"]
    assert command[-3:] == ["--out", f"there/{listed[3]['run']}", "--auto-resume"]
    assert "--env-steps=3000" in command


def test_estimates_count_the_work_of_a_run_and_finished_runs_correct_them(tmp_path):
    humanoid = next(each for each in read_plan("paper-online").runs if each.config.task == "mujoco/Humanoid-v4")
    taken = estimate(humanoid)
    assert taken.updates == 2 * 995_000
    # docs/design.md: a million transitions take 1.6 GB; docs/reliability.md: a checkpoint without them 0.16 GB.
    assert taken.disk == pytest.approx(1.6e9 + 2 * 0.157e9, rel=0.05)
    assert 2.2e9 < taken.memory < 3.2e9
    # Two critics of width 512: 28 GFLOP an update.
    assert taken.seconds == pytest.approx(1_990_000 * 28.5 * 0.0136, rel=0.1)

    runs = read_plan("smoke").runs
    assert pace(runs, tmp_path) is None
    for each, factor in zip(runs, (0.5, 3.0, 2.0), strict=False):
        (tmp_path / each.name).mkdir()
        facts = {"env_steps": each.until, "seconds": factor * estimate(each).seconds}
        (tmp_path / each.name / "summary.json").write_text(json.dumps(facts))
    assert pace(runs, tmp_path) == pytest.approx(2.0)
