"""Environments in other processes: on this machine, or as actors of a Ray cluster.

Every worker holds an `EnvList` of its share, with the seeds that these environments have in one process, so the
results are the same bit for bit. Worker processes are started anew: not forked, since JAX has threads, and without
multiprocessing, which would run the user's script again.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import IO, Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from simbav2.envs.env_list import START_ATTEMPTS, EnvList, Envs, Observations, Step
from simbav2.envs.make import describe, make_env
from simbav2.errors import BadStep, DropBadSteps, Failure, InputError

CLOSING = 5.0  # seconds that a worker has to end
MEMORY = 16 << 20  # bytes of address space shared with a process; only what messages fill is taken


class Share(NamedTuple):
    """The environments of one worker."""

    source: Any
    seed: int
    first: int  # number of its first environment
    size: int
    total: int  # environments of all workers
    action_repeat: int | None
    drop_bad_steps: DropBadSteps


class Reply(NamedTuple):
    value: Any = None
    episodes: Sequence[int] = ()
    faults: Sequence[str] = ()  # dropped
    error: Exception | None = None


class HostedEnvs(EnvList):
    """Leaves it to the run to log faults."""

    faults: list[str]  # dropped in the current call

    def report(self, fault: str) -> None:
        self.faults.append(fault)


class Host:
    """The side of a worker: makes the environments of a share and steps them."""

    envs: HostedEnvs

    def call(self, method: str, *arguments: Any) -> Reply:
        faults: list[str] = []
        try:
            if method == "start":
                value = self._start(*arguments)
            else:
                self.envs.faults = faults
                value = self._play(method, *arguments)
        except (BadStep, InputError) as error:
            return Reply(faults=faults, error=type(error)(str(error)))
        except Exception as error:  # of a constructor; its type may be unknown where the run is
            return Reply(faults=faults, error=Failure(f"{type(error).__name__}: {error}"))
        return Reply(value, self.envs.episodes, faults)

    def _start(self, packed: bytes) -> Any:
        share: Share = pickle.loads(packed)
        numbers = range(share.first, share.first + share.size)
        members = [make_env(share.source, share.seed, share.action_repeat, stream=number) for number in numbers]
        names = [f"environment {number}, " if share.total > 1 else "" for number in numbers]
        task = describe(members[0], share.source)
        self.envs = HostedEnvs(members, task, share.seed, share.drop_bad_steps, names)
        return task, self.envs.spaces, self.envs.actions

    def _play(self, method: str, *arguments: Any) -> Any:
        if method == "reset":
            (self.envs.episodes,) = arguments
            return self.envs.reset()
        return getattr(self.envs, method)(*arguments)


class WorkerLost(Exception):
    """A worker ended without being asked to."""


class Worker(ABC):
    """The side of the run: one call at a time."""

    @abstractmethod
    def send(self, method: str, *arguments: Any) -> None: ...

    @abstractmethod
    def receive(self) -> Reply:
        """The answer to what was sent; raises WorkerLost."""

    @abstractmethod
    def close(self) -> None: ...

    def ask(self, method: str, *arguments: Any) -> Reply:
        self.send(method, *arguments)
        return self.receive()


class EnvWorkers(Envs):
    """Environments shared out among workers. Without `replace`, the loss of a worker ends the run."""

    def __init__(
        self, shares: Sequence[Share], make: Callable[[], Worker], replace: Callable[[], Worker] | None = None
    ) -> None:
        self._shares, self._replace = shares, replace
        self._rows = [slice(share.first, share.first + share.size) for share in shares]
        self._title = f"{shares[0].source}, seed {shares[0].seed}"
        self._stopped = ""  # why there are no workers any more
        self._started = False  # whether the current episodes have begun
        self._workers = [make() for _ in shares]
        try:
            first, *_ = self._exchange("start", [(_packed(share),) for share in shares])
        except BaseException:
            self.close()
            raise
        task, self.spaces, self.actions = first
        super().__init__(task, shares[0].seed, shares[0].total)
        self._title = f"{task.id}, seed {self.seed}"

    @property
    def episodes(self) -> list[int]:
        return self._episodes

    @episodes.setter
    def episodes(self, numbers: list[int]) -> None:
        self._episodes = list(numbers)
        self._started = False

    def reset(self) -> Observations:
        numbers = [number + self._started for number in self._episodes]
        return np.concatenate(self._exchange("reset", [(numbers[rows],) for rows in self._rows]))

    def restore(self, episodes: list[int], actions: Sequence[NDArray[Any]]) -> Observations | None:
        self.episodes = episodes
        parts = self._exchange("restore", [(episodes[rows], actions[rows]) for rows in self._rows])
        return None if any(part is None for part in parts) else np.concatenate(parts)

    def step(self, actions: NDArray[Any]) -> Step:
        self.lost = 0
        parts: list[Step] = self._exchange("step", [(actions[rows],) for rows in self._rows])
        return Step(*map(np.concatenate, zip(*parts, strict=True)))

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _exchange(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What every worker answers to its arguments; after an error, the episodes are those before it."""
        if self._stopped:
            raise BadStep(self._stopped)
        try:
            for worker, given in zip(self._workers, arguments, strict=True):
                worker.send(method, *given)
            replies = [self._receive(index, method, given) for index, given in enumerate(arguments)]
        except BaseException as error:
            # Answers may be on their way that a later call would take for its own.
            interrupted = (
                f"{self._title}: the workers were interrupted in a step; load the agent or resume the run"
            )
            self._stopped = str(error) if isinstance(error, BadStep) else interrupted
            self._started = False
            self.close()
            raise
        for fault in (fault for reply in replies for fault in reply.faults):
            self.report(fault)
        for reply in replies:
            if reply.error is not None:
                self._started = False
                raise reply.error
        self._episodes = [number for reply in replies for number in reply.episodes]
        self._started = method != "start"
        return [reply.value for reply in replies]

    def _receive(self, index: int, method: str, arguments: tuple[Any, ...]) -> Reply:
        for _ in range(START_ATTEMPTS):
            try:
                return self._workers[index].receive()
            except WorkerLost as error:
                lost = f"{self._named(index)}: {error}"
                if self._replace is None:
                    raise BadStep(f"{self._title}, {lost}") from error
            try:
                self._workers[index].close()
                self._workers[index] = worker = self._replace()
                if method != "start":
                    reply = worker.ask("start", _packed(self._shares[index]))
                    if reply.error is not None:
                        return reply
                if method == "step":
                    return self._cut(index, lost)
                worker.send(method, *arguments)
            except WorkerLost:
                continue
        raise BadStep(f"{self._title}, {lost}; {START_ATTEMPTS} others in its place were lost, too")

    def _cut(self, index: int, lost: str) -> Reply:
        """The next episodes of a worker in the place of a lost one: a step of which nothing is kept."""
        count, cut = self._shares[index].size, self._episodes[self._rows[index]]
        reply = self._workers[index].ask("reset", [number + 1 for number in cut])
        if reply.error is not None:
            return reply
        nothing, no = np.zeros(count), np.zeros(count, np.bool_)
        step = Step(reply.value, np.zeros_like(reply.value), nothing, no, no.copy(), nothing * np.nan, ~no)
        self.lost += count
        fault = f"{lost}; replaced, and cut: episode {', '.join(map(str, cut))}"
        return reply._replace(value=step, faults=[fault, *reply.faults])

    def _named(self, index: int) -> str:
        rows = self._rows[index]
        if rows.stop - rows.start == 1:
            return f"environment {rows.start}"
        return f"environments {rows.start} to {rows.stop - 1}"


def _packed(share: Share) -> bytes:
    """By value where it is not in a module; not every object can be sent."""
    try:
        return cloudpickle.dumps(share)
    except (pickle.PicklingError, TypeError) as error:
        raise InputError(
            f"{share.source} cannot be sent to workers: {error}; make what it needs when it is called"
        ) from error


# Processes of this machine. -------------------------------------------------------------------------------


class Channel:
    """Sends messages to another process through a pipe, and their arrays through shared memory."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], memory: mmap.mmap) -> None:
        self._incoming, self._outgoing, self._memory = incoming, outgoing, memory

    def send(self, message: Any) -> None:
        ends = [0]

        def share(array: pickle.PickleBuffer) -> bool:
            """False where the array is left out of the pickle."""
            with array.raw() as data:
                start, end = ends[-1], ends[-1] + data.nbytes
                if end > MEMORY:
                    return True
                self._memory[start:end] = data
            ends.append(end)
            return False

        packed = pickle.dumps(message, protocol=5, buffer_callback=share)
        pickle.dump((packed, ends), self._outgoing, protocol=5)
        self._outgoing.flush()

    def receive(self) -> Any:
        """The arrays are copies: an environment may keep an action longer than the memory does."""
        packed, ends = pickle.load(self._incoming)
        arrays = [bytearray(self._memory[start:end]) for start, end in pairwise(ends)]
        return pickle.loads(packed, buffers=arrays)


class ProcessWorker(Worker):
    def __init__(self) -> None:
        # A file without a name: whatever ends the processes, nothing stays behind.
        with (
            tempfile.TemporaryFile()
            if sys.platform != "linux"
            else open(os.memfd_create("simbav2"), "r+b") as file
        ):
            file.truncate(MEMORY)
            call = f"workers.serve({file.fileno()})"
            code = f"import sys; sys.path[:] = {sys.path!r}; from simbav2.envs import workers; {call}"
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[file.fileno()],
            )
            memory = mmap.mmap(file.fileno(), MEMORY)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._channel = Channel(self.process.stdout, self.process.stdin, memory)
        self.close = weakref.finalize(self, _end, self.process)  # type: ignore[method-assign]

    def send(self, method: str, *arguments: Any) -> None:
        with suppress(OSError):  # `receive` tells
            self._channel.send((method, *arguments))

    def receive(self) -> Reply:
        try:
            return self._channel.receive()
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            _end(self.process)
            code = self.process.returncode
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            hint = " (out of memory?)" if code == -signal.SIGKILL else ""
            raise WorkerLost(f"worker process {self.process.pid} {how}{hint}") from error

    def close(self) -> None: ...  # set for each instance


def _end(process: subprocess.Popen) -> None:
    """A worker ends when its pipe is closed."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not flushed
            pipe.close()
    try:
        process.wait(CLOSING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(memory: int) -> None:
    """The program of a worker process: answer calls until the pipe is closed."""
    # Ctrl-C and the signals of job managers reach all processes; the run saves itself and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a simulator prints is no answer
    channel, host = Channel(sys.stdin.buffer, answers, mmap.mmap(memory, MEMORY)), Host()
    while True:
        try:
            channel.send(host.call(*channel.receive()))
        except (EOFError, BrokenPipeError):
            os._exit(0)  # nobody needs what a simulator does at its end
