"""A ring of experience in which every observation is stored once.

The successor of a row is the row one step further on; only where an episode ended is its final observation kept
apart, in a pool. Rows are [step, environment] flattened, so the successor of row i is row i + num_envs, and one
spare step at the head holds the observations that will be acted on next.

A row whose environment step failed is marked as dropped: it is never sampled, and no n-step path enters it. Its
observation is still the successor of the row before.

Storage is reserved, not touched: the operating system hands out memory as rows are written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simbav2.config import Config
from simbav2.envs.tasks import Task
from simbav2.envs.vector import Step
from simbav2.types import Transition

_NO_FINAL = 0  # nobody's slot, so that memory never touched says that no episode ended there
_DROPPED = -1  # in the place of a slot: the step failed
_COLUMNS = ("observation", "action", "reward", "terminated")


class SlotPool:
    """Rows that come and go, each with a slot number; grows by doubling and reuses slots given back."""

    def __init__(self, size: int) -> None:
        self.rows = np.empty((16, size), np.float32)
        self.free = list(range(15, _NO_FINAL, -1))

    def keep(self, row: NDArray) -> int:
        if not self.free:
            used = len(self.rows)
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
            self.free = list(range(2 * used - 1, used - 1, -1))
        slot = self.free.pop()
        self.rows[slot] = row
        return slot

    def release(self, slot: int) -> None:
        self.free.append(slot)


class Replay:
    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        num_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
    ) -> None:
        self.steps = -(-capacity // num_envs)
        self.num_envs = num_envs
        self.n_step = n_step
        self.discount = discount
        rows = self.steps * num_envs
        self.observation = np.zeros((rows + num_envs, observation_size), np.float32)
        self.action = np.zeros((rows + num_envs, action_size), np.float32)
        self.reward = np.zeros(rows + num_envs, np.float32)
        self.terminated = np.zeros(rows + num_envs, np.bool_)
        self.final = np.zeros(rows + num_envs, np.int32)
        self.terminal_observations = SlotPool(observation_size)
        self.added = 0  # steps ever added
        self.dropped = 0  # rows among those held that are never sampled

    @classmethod
    def make(cls, config: Config, task: Task) -> Replay:
        """Empty, as a resolved config asks for."""
        assert config.discount is not None
        sizes = config.replay.capacity, task.observation_size, task.action_size
        return cls(*sizes, config.num_envs, config.replay.n_step, config.discount)

    def __len__(self) -> int:
        """Transitions that can be sampled."""
        return self.held - self.dropped

    @property
    def held(self) -> int:
        """Rows in the ring, the dropped ones included."""
        return min(self.added, self.steps) * self.num_envs

    @property
    def nbytes(self) -> int:
        columns = sum(getattr(self, name).nbytes for name in _COLUMNS)
        return columns + self.final.nbytes + self.terminal_observations.rows.nbytes

    def _rows(self, step: int) -> slice:
        start = step % (self.steps + 1) * self.num_envs
        return slice(start, start + self.num_envs)

    def add(self, observation: NDArray, action: NDArray, step: Step) -> None:
        """One decision in every environment."""
        rows = self._rows(self.added)
        self.observation[rows] = observation
        self.action[rows] = action
        self.reward[rows] = step.reward
        self.terminated[rows] = step.terminated
        # The oldest step gives up its place to the observations that will be acted on next.
        head = self._rows(self.added + 1)
        for row in range(head.start, head.stop):
            if self.final[row] == _DROPPED:
                self.dropped -= 1
            elif self.final[row] != _NO_FINAL:
                self.terminal_observations.release(int(self.final[row]))
            self.final[row] = _NO_FINAL
        self._drop(rows.start + np.flatnonzero(step.dropped))
        for env in np.flatnonzero(step.terminated | step.truncated):
            self.final[rows.start + env] = self.terminal_observations.keep(step.next_observation[env])
        self.observation[head] = step.observation
        self.added += 1

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> Transition:
        """Uniform with replacement: [batches, batch_size, ...]."""
        if not len(self):
            raise ValueError("the replay holds no transition to sample")
        row = self._draw((batches, batch_size), rng)
        while self.dropped and (bad := self.final[row] == _DROPPED).any():
            row[bad] = self._draw(int(bad.sum()), rng)
        return self._transitions(row)

    def _draw(self, size: int | tuple[int, int], rng: np.random.Generator) -> NDArray:
        oldest = self._rows(self.oldest).start
        return (rng.integers(self.held, size=size) + oldest) % len(self.reward)

    def _drop(self, rows: NDArray) -> None:
        self.final[rows] = _DROPPED
        self.dropped += len(rows)

    def _transitions(self, row: NDArray) -> Transition:
        rows = len(self.reward)
        head = self._rows(self.added).start
        last = row
        reward = self.reward[row]
        discount = np.full(row.shape, self.discount, np.float32)
        # A path stops where its episode ended, before a dropped step, or where the newest step is reached.
        going = np.ones(row.shape, np.bool_)
        for _ in range(1, self.n_step):
            following = (last + self.num_envs) % rows
            going &= (self.final[last] == _NO_FINAL) & (following // self.num_envs * self.num_envs != head)
            if self.dropped:
                going &= self.final[following] != _DROPPED
            last = np.where(going, following, last)
            reward = reward + going * discount * self.reward[last]
            discount = np.where(going, discount * np.float32(self.discount), discount)
        successor = self.observation[(last + self.num_envs) % rows]
        slot = self.final[last]
        over = slot != _NO_FINAL
        if over.any():
            successor[over] = self.terminal_observations.rows[slot[over]]
        return Transition(
            observation=self.observation[row],
            action=self.action[row],
            reward=reward,
            discount=discount * ~self.terminated[last],
            next_observation=successor,
        )

    @property
    def head(self) -> NDArray:
        """The observations that will be acted on next [N, O]."""
        return self.observation[self._rows(self.added)]

    def recent_actions(self, counts: list[int]) -> list[NDArray]:
        """The last `counts[i]` actions of each environment i, oldest first."""
        return [
            self.action[self._places(self.added - count, self.added)[env :: self.num_envs]]
            for env, count in enumerate(counts)
        ]

    def truncate_episode(self) -> None:
        """Mark the newest step as the last of its episodes: what comes next does not follow from it."""
        if not self.added:
            return
        rows = self._rows(self.added - 1)
        for env in range(self.num_envs):
            if self.final[rows.start + env] == _NO_FINAL:
                self.final[rows.start + env] = self.terminal_observations.keep(self.head[env])

    # To and from files. ------------------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The first step that is still held."""
        return max(0, self.added - self.steps)

    @property
    def sealed(self) -> int:
        """Steps before this one never change again; the newest may yet become the last of its episode."""
        return max(0, self.added - 1)

    def export_rows(self, first: int, last: int) -> dict[str, NDArray]:
        """The steps [first, last) as rows of their own [S * N, ...], with the final observations among them."""
        rows = self._places(first, last)
        slots = self.final[rows]
        ended, dropped = np.flatnonzero(slots > _NO_FINAL), np.flatnonzero(slots == _DROPPED)
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        columns |= {"dropped": dropped} if len(dropped) else {}  # rare: most files do without
        return {**columns, "ended": ended, "final_observation": self.terminal_observations.rows[slots[ended]]}

    def import_rows(self, first: int, exported: dict[str, NDArray]) -> None:
        """Take back what `export_rows` gave, from step `first` on; `added` tells which of it is still held."""
        count, ended = len(exported["reward"]), exported["ended"]
        dropped = exported.get("dropped", np.empty(0, np.int64))
        for name, places in (("ends of its episodes", ended), ("dropped steps", dropped)):
            if (places < 0).any() or (places >= count).any() or (np.diff(places) <= 0).any():
                raise ValueError(f"the {name} are out of order")
        if np.isin(dropped, ended).any():
            raise ValueError("a dropped step ends an episode")
        rows = self._places(first, first + count // self.num_envs)
        held = slice(max(0, self.oldest - first) * self.num_envs, None)
        for name in _COLUMNS:
            getattr(self, name)[rows[held]] = exported[name][held]
        for row, observation in zip(ended.tolist(), exported["final_observation"], strict=True):
            if row >= held.start:
                self.final[rows[row]] = self.terminal_observations.keep(observation)
        self._drop(rows[dropped[dropped >= held.start]])

    def _places(self, first: int, last: int) -> NDArray:
        """The rows of the steps [first, last), in order."""
        starts = np.arange(first, last) % (self.steps + 1) * self.num_envs
        return (starts[:, None] + np.arange(self.num_envs)).ravel()
