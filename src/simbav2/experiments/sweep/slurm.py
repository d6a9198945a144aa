"""A plan as a Slurm job array: one script, one line per unfinished run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from simbav2.experiments.sweep.estimate import estimate
from simbav2.experiments.sweep.plan import PlannedRun
from simbav2.experiments.sweep.status import LOGS

_SCRIPT = """\
#!/bin/bash
# {name}: {count} runs. Submit with: sbatch {file}   (options given there override those below)
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --cpus-per-task=1
#SBATCH --mem={megabytes}M
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@180
#SBATCH --output={logs}/slurm-%A_%a.log
# At least two minutes before its time limit a job gets SIGTERM, saves its run, and is queued again.
cd {here} || exit 1
if [ "${{SLURM_CPUS_PER_TASK:-1}}" = 1 ]; then
  export XLA_FLAGS="${{XLA_FLAGS:-}} --xla_cpu_multi_thread_eigen=false"
fi
case "${{SLURM_ARRAY_TASK_ID:?}}" in
{lines}
*) echo "there is no run $SLURM_ARRAY_TASK_ID" >&2; exit 2 ;;
esac
"$@" &
trap 'kill -TERM $!' TERM
wait $!
status=$?
if [ $status -gt 128 ]; then  # the signal interrupted the wait; wait for the run
  wait $!
  status=$?
fi
if [ $status = 130 ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
fi
exit $status
"""


def write_script(file: Path, name: str, runs: Sequence[PlannedRun], out: Path) -> None:
    """Write the job array to `file`, with the memory of the largest run, and make the folder of its logs."""
    commands = (shlex.join(["simbav2", *run.argv(out)]) for run in runs)
    (out / LOGS).mkdir(parents=True, exist_ok=True)
    text = _SCRIPT.format(
        name=name,
        count=len(runs),
        file=shlex.quote(str(file)),
        last=len(runs) - 1,
        megabytes=-(-max(estimate(run).memory for run in runs) // (1 << 20)),
        logs=out / LOGS,
        here=shlex.quote(str(Path.cwd())),
        lines="\n".join(f"{number}) set -- {command} ;;" for number, command in enumerate(commands)),
    )
    file.write_text(text)
