"""Several seeds in one program, for an accelerator: every run is a thread with its own loop and folder, and what
they ask of the device they ask together, in one vmapped call.

The runs know nothing of it: a callback takes a seat for each, and gives its learner other functions to call.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import jax
import jax.numpy as jnp

from simbav2.training.callbacks import Callback
from simbav2.training.stopping import StopRequest, stop_signals

if TYPE_CHECKING:
    from simbav2.agent import SimbaV2

# Acting comes first, so that a run that is behind (its evaluation was longer) catches up before all learn.
ORDER = ("act", "learn")


def stacked(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """`function` for several callers at once: takes a tuple of arguments from each, and gives a result to each."""

    def call(*callers: tuple[Any, ...]) -> tuple[Any, ...]:
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *callers)
        results = jax.vmap(lambda arguments: function(*arguments))(together)
        return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], results) for i in range(len(callers)))

    return jax.jit(call)


class _Request(NamedTuple):
    name: str
    arguments: tuple[Any, ...]
    answer: Future[Any]


class Meeting:
    """Where runs of one config meet: the last to come computes for all, and who has left is not waited for."""

    def __init__(self, members: int) -> None:
        self.members = members
        self._requests: list[_Request] = []
        self._alone: dict[str, Callable[..., Any]] = {}
        self._together: dict[str, Callable[..., tuple[Any, ...]]] = {}
        self._lock = threading.Lock()

    def functions(self, alone: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """What to call instead of the functions in `alone`, which are the same in all runs."""
        with self._lock:
            if not self._alone:
                self._alone = dict(alone)
                self._together = {name: stacked(function) for name, function in alone.items()}
        return {name: partial(self._ask, name) for name in alone}

    def leave(self) -> None:
        with self._lock:
            self.members -= 1
            self._serve()

    def _ask(self, name: str, *arguments: Any) -> Any:
        request = _Request(name, arguments, Future())
        with self._lock:
            self._requests.append(request)
            self._serve()
        return request.answer.result()

    def _serve(self) -> None:
        """Once all wait, answer those who are first in order; the others wait on."""
        if not self._requests or len(self._requests) < self.members:
            return
        name = min((request.name for request in self._requests), key=ORDER.index)
        served = [request for request in self._requests if request.name == name]
        self._requests = [request for request in self._requests if request.name != name]
        try:
            answers = self._compute(name, [request.arguments for request in served])
        except Exception as error:  # of the device: every run ends with it
            for request in served:
                request.answer.set_exception(error)
        else:
            for request, answer in zip(served, answers, strict=True):
                request.answer.set_result(answer)

    def _compute(self, name: str, callers: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        if len(callers) == 1:
            return (self._alone[name](*callers[0]),)
        return self._together[name](*callers)


class Seat(Callback):
    """A run's place in the meeting, from the start of its training to the end."""

    def __init__(self, meeting: Meeting, stop: StopRequest) -> None:
        self._meeting = meeting
        self._stop = stop
        self._left = False
        self._own: dict[str, Callable[..., Any]] = {}

    @property
    def stop_requested(self) -> bool:  # type: ignore[override]
        return self._stop.requested

    def on_start(self, agent: SimbaV2, run: Path | None) -> None:
        self._own = {name: getattr(agent.learner, name) for name in ORDER}
        vars(agent.learner).update(self._meeting.functions(self._own))

    def on_end(self, agent: SimbaV2) -> None:
        vars(agent.learner).update(self._own)
        self.leave()

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._meeting.leave()


class Labelled(io.TextIOBase):
    """An output that threads share: whole lines, each behind the name of its thread."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begun: dict[str, str] = {}

    def write(self, text: str) -> int:
        name = threading.current_thread().name
        *lines, self._begun[name] = (self._begun.get(name, "") + text).split("\n")
        self._out.write("".join(f"{name}: {line}\n" for line in lines))
        self._out.flush()
        return len(text)


def train(runs: Mapping[int, Callable[[Callback], int]]) -> dict[int, int]:
    """Make all `runs`, given by seed, each with the callback that seats it; returns every seed's exit status.

    Asked to stop, all save themselves and end.
    """
    meeting = Meeting(len(runs))

    def one(seed: int) -> int:
        threading.current_thread().name = f"seed {seed}"
        seat = Seat(meeting, stop)
        try:
            return runs[seed](seat)
        finally:  # where training never began, nobody must wait for it
            seat.leave()

    labelled = Labelled(sys.stdout)
    with stop_signals() as stop, redirect_stdout(labelled), redirect_stderr(labelled):
        with ThreadPoolExecutor(len(runs)) as pool:
            futures = {seed: pool.submit(one, seed) for seed in runs}
            while wait(futures.values(), timeout=0.2).not_done:
                pass  # in turns, so that signals are seen
        return {seed: future.result() for seed, future in futures.items()}
