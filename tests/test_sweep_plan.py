"""Plans: what they ask for, what it will take, and one clear line for what is wrong with them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_plan import SETTINGS, write

from simbav2 import SimbaV2, cli
from simbav2.checkpoint import lock
from simbav2.experiments.report.runs import read_runs
from simbav2.experiments.sweep import log
from simbav2.experiments.sweep.estimate import estimate, pace
from simbav2.experiments.sweep.plan import named_plans, read_plan
from simbav2.experiments.sweep.status import look, told
from simbav2.training import run

# What plans ask for. -----------------------------------------------------------------------------------------


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


ROOT = Path(__file__).parent.parent
EVIDENCE = str(ROOT / "plans" / "first-evidence.toml")


def test_the_evidence_plan_is_what_it_says():
    plan = read_plan(EVIDENCE)
    assert len(plan.runs) == 4 * 4 * 2
    assert {(each.config.critic.width, each.config.env_steps, each.until) for each in plan.runs} == {
        (128, 1_000_000, 60_000)
    }


def test_the_records_in_the_repository_are_whole_runs_of_the_evidence_plan():
    place = ROOT / "results" / "first-evidence"
    records, problems = read_runs([place])
    planned = read_plan(EVIDENCE).runs
    assert not problems
    assert {record.folder.name for record in records} == {run.name for run in planned}
    assert all(look(run, place).state == "finished" for run in planned)
    for record in records:
        assert (record.status, record.damage) == ("finished", ())
        assert record.env_steps == record.evaluations.env_step[-1] == 60_000
        # They were made before the keys of DMC's observations were sorted, and say so where it made a difference.
        order = "dm_control" if record.config.task == "dmc/walker-walk" else None
        assert record.versions.get("observation_order") == order


def test_a_run_is_named_as_train_would_name_it():
    planned = read_plan("smoke").runs[0]
    agent = SimbaV2("mujoco/Hopper-v4", preset="quick", **dict(planned.settings))
    assert run.default_folder(agent.config).name == planned.name


def test_grids_parts_and_designs_multiply(tmp_path):
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
        grid.updates_per_decision = [1, 2]  # of which 2 is the preset's: these runs the parts share
    """)
    runs = read_plan(str(path)).runs
    assert len(runs) == 6 * 2 * 2 * 2 + 2 * 2
    first = runs[0]
    assert first.title == "dmc/walker-walk · paper · critic.width 16 · seed 3"
    assert (first.config.critic.width, first.config.critic.depth, first.config.seed) == (16, 1, 3)
    assert first.config.critic.num_critics == 1
    assert {each.config.ablation for each in runs} == {None, "e"}


def test_a_data_set_is_learned_from_to_where_its_data_leads(tmp_path):
    planned = read_plan("paper-offline").runs[0]
    command = ["offline", "d4rl/halfcheetah-medium-v2", "--preset", "offline", "--seed", "0"]
    assert planned.words(tmp_path)[: len(command)] == command
    assert planned.config.imitates
    assert estimate(planned).updates == 390_625  # 100 passes of a million transitions in batches of 256
    folder = tmp_path / planned.name
    folder.mkdir()
    assert look(planned, tmp_path)[:2] == ("waiting", None)
    (folder / "config.json").write_text('{"env_steps": 390100}')
    (folder / "summary.json").write_text('{"env_steps": 1000}')  # of a run that was told to stop there
    assert look(planned, tmp_path)[:2] == ("stopped", 390_100)
    (folder / "summary.json").write_text('{"env_steps": 390100}')
    assert look(planned, tmp_path).state == "finished"


def test_a_changed_plan_keeps_what_it_has(tmp_path):
    before = {each.name for each in read_plan(str(write(tmp_path, seeds=2))).runs}
    after = {each.name for each in read_plan(str(write(tmp_path, 3, "Pendulum-v1", "dmc/walker-walk"))).runs}
    assert before < after
    assert not before & {each.name for each in read_plan(str(write(tmp_path, seeds=2, env_steps=700))).runs}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks = [", "no valid TOML"),
        ("", "names no tasks"),
        ("tasks = []", "tasks is empty"),
        ('tasks = "dmc-hard"', "expected a list of names"),
        ('taks = ["dmc-hard"]', "did you mean 'tasks'?"),
        ('tasks = ["dmc/walker-wlak"]', "did you mean 'dmc/walker-walk'?"),
        ('tasks = ["dmc-eazy"]', "did you mean 'dmc-easy'?"),
        ('tasks = ["Pendulum-v7"]', "did you mean 'Pendulum-v1'?"),
        ('tasks = ["dmc-hard"]\npresets = ["papper"]', "did you mean 'paper'?"),
        ('tasks = ["dmc-hard"]\nablations = ["z"]', "unknown ablation 'z'"),
        ('tasks = ["dmc-hard"]\npresets = ["sac"]\nablations = ["a"]', "does not apply to preset 'sac'"),
        ('tasks = ["dmc-hard"]\nseeds = ["0"]', "seeds is ['0']"),
        ('tasks = ["dmc-hard"]\nseeds = 0', "seeds is 0"),
        ('tasks = ["dmc-hard"]\nstop_after = "1M"', "stop_after is '1M'"),
        ('tasks = ["dmc-hard"]\n[settings]\ncritic.widht = 3', "did you mean 'critic.width'?"),
        ('tasks = ["dmc-hard"]\n[settings]\ncritic.width = "wide"', "expected int"),
        ('tasks = ["dmc-hard"]\n[settings]\nseed = 3', "say seeds = [...] instead"),
        ('tasks = ["dmc-hard"]\n[grid]\ncritic.width = 3', "expected a list of values"),
        ('tasks = ["dmc-hard"]\nsettings = 3', "expected a table"),
        ('tasks = ["dmc-hard", "dmc/dog-run"]', "asks twice for dmc/dog-run"),
        ('tasks = ["dmc-hard"]\n[grid]\ncritic.width = [16, 16]', "asks twice for dmc/dog-run"),
        ('tasks = ["d4rl/hopper-mediun-v2"]', "did you mean 'd4rl/hopper-medium-v2'?"),
        ('tasks = ["dmc-hard", "d4rl"]', "a [[part]] of its own"),
        ('tasks = ["d4rl"]\n[settings]\nenv_steps = 3', "follows from the data"),
        ('include = ["plan.toml"]', "includes itself"),
        ('include = ["paper-onlin"]', "did you mean 'paper-online'?"),
        ('tasks = ["dmc-hard"]\npart = 3', "[[part]]"),
        (
            'tasks = ["dmc/dog-run"]\n[[part]]\nstop_after = 5\n[[part]]\nstop_after = 6',
            "stop after 5 and after 6 steps",
        ),
        (
            'tasks = ["dmc/dog-run"]\n[[part]]\n[[part]]\nsettings.schedule.keep = 3',
            "is asked for with two schedules, one of them with schedule.keep 3",
        ),
        (
            'tasks = ["dmc/dog-run"]\n[grid]\nschedule.keep = [2, 3]',
            "asks twice for dmc/dog-run · simbav2 · schedule.keep 3 · seed 0 (the schedule alone",
        ),
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper-onlin"], "did you mean 'paper-online'?"),
        (["smoke", "paper-online"], "one plan at a time"),
        (["smoke", "--workers", "0"], "--workers is 0; expected at least 1"),
        (["smoke", "--retries", "-1"], "--retries is -1"),
        (["smoke", "--address", "host:1"], "--backend ray"),
        (["smoke", "--backend", "ray", "--address", "host:1", "--workers", "2"], "--cpus-per-run"),
    ],
)
def test_bad_options_get_one_clear_line(capsys, words, message):
    assert cli.main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


# What they will take. ----------------------------------------------------------------------------------------


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


def test_estimates_count_the_work_of_a_run():
    humanoid = next(each for each in read_plan("paper-online").runs if each.config.task == "mujoco/Humanoid-v4")
    taken = estimate(humanoid)
    assert taken.updates == 2 * 995_000
    # docs/design.md: a million transitions take 1.6 GB; docs/reliability.md: a checkpoint without them 0.16 GB.
    assert taken.disk == pytest.approx(1.6e9 + 2 * 0.157e9, rel=0.05)
    assert 2.2e9 < taken.memory < 3.2e9
    # Two critics of width 512: 28 GFLOP an update.
    assert taken.seconds == pytest.approx(1_990_000 * 28.5 * 0.0136, rel=0.1)


def test_finished_runs_correct_the_estimate(tmp_path):
    runs = read_plan("smoke").runs
    assert pace(runs, tmp_path) is None
    for each, factor in zip(runs, (0.5, 3.0, 2.0), strict=False):
        (tmp_path / each.name).mkdir()
        summary = {"env_steps": each.until, "seconds": factor * estimate(each).seconds}
        (tmp_path / each.name / "summary.json").write_text(json.dumps(summary))
    assert pace(runs, tmp_path) == pytest.approx(2.0)


# Where they are. ---------------------------------------------------------------------------------------------


def test_status_is_told_by_folders_alone(tmp_path):
    waiting, stopped, failed, killed, damaged, finished = read_plan("smoke").runs[:6]
    for each in (stopped, failed, damaged, finished):
        (tmp_path / each.name).mkdir()
        (tmp_path / each.name / "config.json").touch()
        (tmp_path / each.name / "progress.csv").write_text(
            "env_step,decisions,updates\n500,250,0\n1000,500,20\n1500,"
        )
    (tmp_path / failed.name / "failure.json").write_text('{"error": "the arm fell off"}')
    (tmp_path / damaged.name / "summary.json").write_text('{"env_steps": ')
    (tmp_path / finished.name / "summary.json").write_text('{"env_steps": 3000, "final_return": 12.5}')
    (tmp_path / finished.name / "evaluations.csv").write_text("env_step,episode,return\n")
    with log.appended(tmp_path, killed.name) as file:
        file.write("--- attempt on vm\n    it went well so far\n--- exit status -9\n")
    assert look(waiting, tmp_path).state == "waiting"
    assert look(stopped, tmp_path)[:3] == ("stopped", 3000, 1000)
    assert look(failed, tmp_path) == ("failed", 3000, 1000, None, "the arm fell off")
    assert look(killed, tmp_path) == ("failed", 3000, 0, None, "killed by SIGKILL")
    assert look(damaged, tmp_path).state == "failed"
    assert look(finished, tmp_path) == ("finished", 3000, 3000, 12.5, "")
    (tmp_path / finished.name / "config.json").write_text('{"schedule": {"evaluation_episodes": 3, "keep": 2}}')
    assert look(finished, tmp_path).note == "made with schedule.evaluation_episodes 3"
    with lock.hold(tmp_path / stopped.name):
        status = look(stopped, tmp_path)
        assert status.state == "running"
        assert f"process {os.getpid()} on" in status.note
    statuses = [look(each, tmp_path) for each in (waiting, stopped, failed, killed, damaged, finished)]
    assert told(statuses) == "3 failed, 1 stopped, 1 waiting, 1 finished"


def test_asking_who_holds_a_run_keeps_nobody_out(tmp_path):
    """A question has the lock for a moment; whoever wants it then waits that moment."""
    asking = subprocess.Popen([
        sys.executable,
        "-c",
        f"from pathlib import Path; from simbav2.checkpoint import lock; run = Path({str(tmp_path)!r})\n"
        "(run / lock.NAME).touch(); print(flush=True)\nwhile True: lock.holder(run)",
    ], stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert asking.stdout.readline()
        for _ in range(100):
            (tmp_path / lock.NAME).touch()
            with lock.hold(tmp_path):
                pass
    finally:
        asking.kill()
        asking.communicate()


# As a Slurm job array. ---------------------------------------------------------------------------------------


def slurm(tmp_path, program: str) -> tuple[Path, dict[str, str]]:
    """The script of a plan of two runs, and surroundings in which `simbav2` is `program`."""
    script = tmp_path / "jobs.sh"
    plan = write(tmp_path, seeds=2)
    assert cli.main(["sweep", str(plan), "--out", str(tmp_path / "runs"), "--slurm", str(script)]) == 0
    subprocess.run(["bash", "-n", str(script)], check=True)
    for name, text in {"simbav2": program, "scontrol": f'echo "$@" > {tmp_path}/requeued'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return script, {**os.environ, "PATH": path, "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "1"}


def test_a_line_of_the_job_array_makes_its_run(tmp_path):
    script, surroundings = slurm(tmp_path, f'exec {sys.executable} -m simbav2 "$@"')
    assert f"#SBATCH --array=0-{1}\n" in script.read_text()
    subprocess.run(["bash", str(script)], env=surroundings, check=True, capture_output=True)
    first, second = read_plan(str(tmp_path / "short.toml")).runs
    assert look(second, tmp_path / "runs").state == "finished"
    assert look(first, tmp_path / "runs").state == "waiting"
    summary = json.loads((tmp_path / "runs" / second.name / "summary.json").read_text())
    assert (summary["seed"], summary["env_steps"]) == (1, SETTINGS["env_steps"])
    # What is finished is not queued again.
    again = tmp_path / "again.sh"
    cli.main(["sweep", str(tmp_path / "short.toml"), "--out", str(tmp_path / "runs"), "--slurm", str(again)])
    assert "#SBATCH --array=0-0\n" in again.read_text()


def test_a_job_that_is_asked_to_stop_queues_up_again(tmp_path):
    script, surroundings = slurm(
        tmp_path, f"trap 'exit 130' TERM; touch {tmp_path}/begun; while :; do sleep 0.05; done"
    )
    job = subprocess.Popen(["bash", str(script)], env=surroundings)
    deadline = time.monotonic() + 20
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    job.terminate()
    assert job.wait(20) == 130
    assert (tmp_path / "requeued").read_text() == "requeue 77_1\n"


def test_every_named_plan_says_what_it_is_about():
    assert all(read_plan(name).about for name in named_plans())
