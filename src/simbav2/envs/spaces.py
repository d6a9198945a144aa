"""Which spaces an agent accepts, and how they become vectors: actions in [-1, 1], observations in float32.

`Spaces` is saved with an agent, so that a loaded one knows the environment's observations and action units without
making the environment.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from simbav2.errors import InputError


class UnitActions:
    """A Box with finite bounds, seen as the cube [-1, 1]^A."""

    def __init__(self, space: Space, owner: object) -> None:
        refusal = f"the actions of {owner} are {space}; expected a Box of floats with finite bounds"
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise InputError(f"{refusal}: only continuous control is supported")
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise InputError(f"{refusal}: wrap it with RescaleAction or the like")
        self.box = space
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
        """The inverse: a batch of the environment's own actions as [N, A], in the cube if within their bounds.

        An action that exceeds a bound by no more than float32's rounding counts as on the bound. An entry whose
        bounds are equal becomes zero.
        """
        own, low, high = (np.asarray(array, np.float64) for array in (action, self.low, self.high))
        rounding = np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(np.float32))
        allowed = np.clip(own, low, high)
        own = np.where(np.abs(own - allowed) <= rounding, allowed, own)
        reach = high / 2 - low / 2
        cube = (own - (high / 2 + low / 2)) / np.where(reach > 0, reach, np.inf)
        return cube.reshape(len(cube), -1).astype(np.float32)


class FlatObservations:
    """A Box (but no image), or a Dict of them (in Gymnasium's order), as one float32 vector."""

    def __init__(self, space: Space, owner: object) -> None:
        self._boxes = list(_boxes(space))
        for _, box in self._boxes or [((), space)]:
            if not isinstance(box, spaces.Box):
                raise InputError(f"the observations of {owner} are {space}; expected a Box or a Dict of Boxes")
            if _is_image(box):
                raise InputError(
                    f"the observations of {owner} hold an image, {box}; the agent has no convolutional encoder: "
                    "give it features, or flatten it with gymnasium.wrappers.FlattenObservation"
                )
        self._space = space
        flat = spaces.flatten_space(space)
        assert isinstance(flat, spaces.Box)
        with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite
            low, high = flat.low.astype(np.float32), flat.high.astype(np.float32)
        self.size = low.size
        self.space = spaces.Box(low, high, dtype=np.float32)

    def flatten(self, observation: Any, batch: tuple[int, ...] = ()) -> NDArray[np.float32]:
        """`observation`, of leading shape `batch`, as a new array [*batch, O]."""
        parts = []
        for keys, box in self._boxes:
            array = np.asarray(functools.reduce(operator.getitem, keys, observation))
            if array.shape != (expected := batch + (box.shape or ())):
                raise ValueError(f"the observation has shape {array.shape}, expected {expected}")
            with np.errstate(over="ignore"):  # infinite where float32 cannot hold it, and refused as such later
                parts.append(array.astype(np.float32).reshape(*batch, -1))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def batch(self, observation: Any) -> tuple[NDArray[np.float32], bool]:
        """One observation or a batch of them in the user's form: [N, O], and whether it was a batch."""
        arrays, batched = _as_batch(self._space, observation, "observation")
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=-1), batched

    def layout(self) -> Any:
        """As plain data: a Box as the list of its shape, a Dict as the layouts of its parts in their order."""
        return _layout(self._space)


class Spaces(NamedTuple):
    """The spaces of an environment as its user sees them."""

    observations: FlatObservations
    actions: UnitActions

    @classmethod
    def vectors(cls, observation_size: int, action_size: int) -> Self:
        """Flat observations and actions in [-1, 1]: those of the tasks of the benchmark."""
        observation = spaces.Box(-np.inf, np.inf, (observation_size,), np.float32)
        action = spaces.Box(-1.0, 1.0, (action_size,), np.float32)
        return cls(FlatObservations(observation, "task"), UnitActions(action, "task"))

    def batch_of_actions(self, action: Any) -> NDArray[np.float32]:
        """One action or a batch of them, in the environment's units: [N, A] in [-1, 1]."""
        (array,), _ = _as_batch(self.actions.box, action, "action")
        return self.actions.from_environment(array)

    def to_json(self) -> dict[str, Any]:
        """What using a policy needs, so no bounds of observations."""
        box = self.actions.box
        bounds = {"low": box.low.tolist(), "high": box.high.tolist(), "dtype": str(box.dtype)}
        return {"observation": self.observations.layout(), "action": bounds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], observation_size: int, action_size: int) -> Self:
        """What `to_json` wrote, for networks of these sizes; a ValueError for anything else."""
        # Counted before anything of that size is allocated.
        if (size := _layout_size(data["observation"])) != observation_size:
            raise ValueError(f"spaces.observation has {size} numbers; expected {observation_size}")
        bounds, dtype = data["action"], np.dtype(data["action"]["dtype"])
        low, high = (np.asarray(bounds[name], dtype) for name in ("low", "high"))
        if low.shape != high.shape or low.size != action_size or not (low <= high).all():
            raise ValueError(f"spaces.action is not a Box of {action_size} numbers")
        observation = FlatObservations(_from_layout(data["observation"]), "saved agent")
        return cls(observation, UnitActions(spaces.Box(low, high, dtype=dtype.type), "saved agent"))


def _boxes(space: Space, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Space]]:
    """All parts of nested Dicts, with the keys that lead to them."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _boxes(part, (*keys, key))
    else:
        yield keys, space


def _is_image(space: spaces.Box) -> bool:
    """Three axes or more, or rows of bytes; small tables of floats are not images."""
    axes, pixels = len(space.shape), space.dtype == np.uint8 and space.high.max(initial=0) == 255
    return axes >= 3 or (axes == 2 and pixels)


def _as_batch(space: Space, value: Any, name: str) -> tuple[list[NDArray[np.float32]], bool]:
    """The arrays [N, ...] of the Boxes in `space`, in their order, and whether `value` was a batch."""
    found = list(_arrays(space, value, name))
    _, first, shape = found[0]
    batched = first.ndim > len(shape)
    leading = first.shape[:1] if batched else ()
    for part, array, shape in found:
        if array.shape != leading + shape:
            sizes = ", ".join(map(str, shape))
            either = f"{shape} or (batch, {sizes})" if array is first else f"{leading + shape}"
            raise InputError(f"{part} has shape {array.shape}; expected {either}")
    return [array if batched else array[None] for _, array, _ in found], batched


def _arrays(space: Space, value: Any, name: str) -> Iterator[tuple[str, NDArray[np.float32], tuple[int, ...]]]:
    """For every Box: its name in messages, the value given for it, and its shape."""
    if isinstance(space, spaces.Dict):
        keys = ", ".join(map(repr, space))
        if not isinstance(value, Mapping):
            raise InputError(f"{name} is of type {type(value).__name__}; expected a dict with the keys {keys}")
        if value.keys() != space.keys():
            came = ", ".join(map(repr, value)) or "none"
            raise InputError(f"{name} has the keys {came}; expected {keys}")
        for key, part in space.items():
            yield from _arrays(part, value[key], f"{name}[{key!r}]")
        return
    shape = space.shape or ()
    try:
        with np.errstate(over="ignore"):
            yield name, np.asarray(value, np.float32), shape
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is {type(value).__name__}; expected numbers of shape {shape}") from error


def _layout(space: Space) -> Any:
    if isinstance(space, spaces.Dict):
        return {str(key): _layout(part) for key, part in space.items()}
    return list(space.shape or ())


def _layout_size(layout: Any) -> int:
    if isinstance(layout, dict) and layout:
        return sum(map(_layout_size, layout.values()))
    if not isinstance(layout, list) or not all(type(size) is int and size >= 0 for size in layout):
        raise ValueError(f"spaces.observation holds {layout!r}; expected a shape")
    return math.prod(layout)


def _from_layout(layout: Any) -> Space:
    if isinstance(layout, dict):  # as pairs, whose order Gymnasium keeps
        return spaces.Dict([(key, _from_layout(part)) for key, part in layout.items()])
    return spaces.Box(-np.inf, np.inf, tuple(layout), np.float32)
