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
        """The other way: a batch of the environment's own actions as [N, A], in the cube where it allows them.

        An action that exceeds a bound by no more than float32 rounds is on the bound.
        """
        own, low, high = (np.asarray(array, np.float64) for array in (action, self.low, self.high))
        rounding = np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(np.float32))
        allowed = np.clip(own, low, high)
        own = np.where(np.abs(own - allowed) <= rounding, allowed, own)
        cube = (own - (high / 2 + low / 2)) / (high / 2 - low / 2)
        return cube.reshape(len(cube), -1).astype(np.float32)


class FlatObservations:
    """A Box that is no image, or a Dict of them (in Gymnasium's order), as one float32 vector."""

    def __init__(self, space: Space, owner: object) -> None:
        if not _boxes_only(space):
            raise InputError(f"the observations of {owner} are {space}; expected a Box or a Dict of Boxes")
        if image := _image(space):
            raise InputError(
                f"the observations of {owner} hold an image, {image}; the agent takes vectors and has no "
                "convolutional encoder: give it features, or flatten it with gymnasium.wrappers.FlattenObservation"
            )
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


def _image(space: Space) -> spaces.Box | None:
    """The first part that is an image: three axes or more, or rows of bytes. Small tables of floats are none."""
    if isinstance(space, spaces.Dict):
        return next(filter(None, map(_image, space.values())), None)
    assert isinstance(space, spaces.Box)
    axes, pixels = len(space.shape), space.dtype == np.uint8 and space.high.max(initial=0) == 255
    return space if axes >= 3 or (axes == 2 and pixels) else None


def _flatten(space: Space, observation: Any, batch: tuple[int, ...]) -> NDArray[np.float32]:
    if isinstance(space, spaces.Dict):
        return np.concatenate([_flatten(part, observation[key], batch) for key, part in space.items()], axis=-1)
    array = np.asarray(observation)
    if array.shape != (expected := batch + (space.shape or ())):
        raise ValueError(f"the observation has shape {array.shape}, expected {expected}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        return array.astype(np.float32).reshape(*batch, -1)
