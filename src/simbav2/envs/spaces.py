"""Which spaces the agent takes, and how they become vectors: actions in [-1, 1], observations in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from simbav2.errors import InputError


class UnitActions:
    """A Box with finite bounds, seen as the cube [-1, 1]^A."""

    def __init__(self, space: Space, owner: object) -> None:
        expected = "expected a Box of floats with finite bounds"
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise InputError(
                f"the actions of {owner} are {space}; {expected}: only continuous control is supported"
            )
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise InputError(
                f"the actions of {owner} are {space}; {expected}: wrap it with RescaleAction or the like"
            )
        self.low, self.high = space.low, space.high
        # The halves first, so that the widest float32 bounds do not overflow.
        self.center = space.high / 2 + space.low / 2
        self.reach = space.high / 2 - space.low / 2
        self.size = math.prod(space.shape)
        self.space = spaces.Box(-1.0, 1.0, (self.size,), np.float32)

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """`action` [..., A], clipped to the cube, in the environment's own units, shape and type."""
        shaped = np.asarray(action, self.low.dtype).reshape(action.shape[:-1] + self.low.shape)
        return np.minimum(np.maximum(self.center + self.reach * shaped, self.low), self.high)

    def from_environment(self, action: NDArray[Any]) -> NDArray[np.float32]:
        """The other way: a batch of the environment's own actions as [N, A], in the cube where it allows them."""
        cube = (np.asarray(action, np.float64) - self.center) / self.reach
        return cube.reshape(len(cube), -1).astype(np.float32)


class FlatObservations:
    """A Box of any shape, or a Dict of them (in Gymnasium's order), as one float32 vector."""

    def __init__(self, space: Space, owner: object) -> None:
        if not _boxes_only(space):
            raise InputError(f"the observations of {owner} are {space}; expected a Box or a Dict of Boxes")
        self._space = space
        flat = spaces.flatten_space(space)
        assert isinstance(flat, spaces.Box)
        with np.errstate(over="ignore"):  # a bound beyond float32 is no bound
            low, high = flat.low.astype(np.float32), flat.high.astype(np.float32)
        self.size = low.size
        self.space = spaces.Box(low, high, dtype=np.float32)

    def flatten(self, observation: Any, batch: tuple[int, ...] = ()) -> NDArray[np.float32]:
        """`observation`, of leading shape `batch`, as a new array [*batch, O]."""
        return _flatten(self._space, observation, batch)


def _boxes_only(space: Space) -> bool:
    if isinstance(space, spaces.Dict):
        return len(space) > 0 and all(_boxes_only(part) for part in space.values())
    return isinstance(space, spaces.Box)


def _flatten(space: Space, observation: Any, batch: tuple[int, ...]) -> NDArray[np.float32]:
    if isinstance(space, spaces.Dict):
        return np.concatenate([_flatten(part, observation[key], batch) for key, part in space.items()], axis=-1)
    array = np.asarray(observation)
    if array.shape != (expected := batch + (space.shape or ())):
        raise ValueError(f"the observation has shape {array.shape}, expected {expected}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        return array.astype(np.float32).reshape(*batch, -1)
