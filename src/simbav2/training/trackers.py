"""Trackers: callbacks that send a run's curves to TensorBoard or Weights & Biases.

Names are those of `metrics.jsonl`; an evaluation adds the means of its columns in `evaluations.csv`. A resumed run
continues the same curves: points after the checkpoint it resumes from are removed, as in its own files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simbav2.checkpoint.files import damage, read_json, write_json
from simbav2.config import to_json
from simbav2.errors import Failure, InputError
from simbav2.runtime import import_extra
from simbav2.training.callbacks import Callback
from simbav2.training.evaluate import EvaluationEpisode, mean_success, mean_total


class Tracker(Callback):
    """Gives every number of a run to `write`, with its simulator step."""

    def write(self, values: Mapping[str, float], env_step: int) -> None:
        raise NotImplementedError

    def on_metrics(self, agent: Any, metrics: Mapping[str, float]) -> None:
        self.write({name: value for name, value in metrics.items() if name != "env_step"}, agent.env_steps)

    def on_evaluation(self, agent: Any, episodes: Sequence[EvaluationEpisode]) -> None:
        lengths = [episode.length for episode in episodes]
        means = {
            "evaluation/return": mean_total(episodes),
            "evaluation/length": sum(lengths) / len(lengths),
            "evaluation/success": mean_success(episodes),
        }
        self.write({name: value for name, value in means.items() if value is not None}, agent.env_steps)


class TensorBoard(Tracker):
    """Event files in the run's folder: `tensorboard --logdir runs`."""

    FOLDER = "tensorboard"

    def __init__(self) -> None:
        self._package = import_extra("tensorboardX", "--track tensorboard", "tensorboard")
        self._writer: Any = None

    def on_start(self, agent: Any, run: Path | None) -> None:
        folder, step = _folder(run), agent.env_steps
        self._writer = self._package.SummaryWriter(
            str(folder / self.FOLDER),
            # What was written at this step belongs to the run; a run without a checkpoint starts again.
            purge_step=step + 1 if step else 0,
            filename_suffix=f".{step:012}",  # two files made within a second would have the same name
        )

    def write(self, values: Mapping[str, float], env_step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, env_step)

    def on_checkpoint(self, agent: Any, checkpoint: Path) -> None:
        self._writer.flush()

    def on_end(self, agent: Any) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(Tracker):
    """One run there for one run here, by an id that is kept in the run's folder.

    Steps are simulator steps. The service takes each once and ignores what a resumed run repeats.
    """

    ID = "wandb.json"

    def __init__(self) -> None:
        self._package = import_extra("wandb", "--track wandb", "wandb")
        self._run: Any = None

    def on_start(self, agent: Any, run: Path | None) -> None:
        folder = _folder(run)
        try:
            self._run = self._package.init(
                id=_kept_id(folder / self.ID),
                resume="allow",
                name=folder.name,
                config=to_json(agent.config),
                dir=str(folder),
                settings=self._package.Settings(console="off"),  # the terminal is the live panel's
            )
        except self._package.errors.Error as error:
            raise Failure(
                f"Weights & Biases does not answer: {error}; `wandb login` first, or set WANDB_MODE=offline and "
                "upload the run later with `wandb sync`"
            ) from error

    def write(self, values: Mapping[str, float], env_step: int) -> None:
        self._run.log(dict(values), step=env_step)

    def on_end(self, agent: Any) -> None:
        if self._run is not None:
            self._run.finish()


SERVICES: Mapping[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def trackers(names: Iterable[str]) -> list[Callback]:
    """One for each name, each once; a missing package is an error before training starts."""
    return [SERVICES[name]() for name in dict.fromkeys(names)]


def _folder(run: Path | None) -> Path:
    if run is None:
        raise InputError("tracking needs a run folder; use `simbav2.training.run.start` or `simbav2 train`")
    return run


def _kept_id(path: Path) -> str:
    if path.exists():
        with damage(path):
            return str(read_json(path)["id"])
    chosen = uuid.uuid4().hex[:12]
    write_json(path, {"id": chosen})
    return chosen
