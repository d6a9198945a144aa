"""An actor as a list of simple operations, which every export format writes.

One function per architecture lists its operations from the config and the parameters. A new operation needs a
method in `formats._Graph` (ONNX) and an entry in `simbav2_policy.OPERATIONS` (NumPy).

Scalers, affine parts of layer normalisations and the division by the normaliser's deviation are linear, so they
are multiplied, in float64, into the matrix that follows or precedes them. The normaliser's mean is subtracted
first, as in training: in a bias it would cancel against large observations, beyond the precision of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simbav2 import config
from simbav2.networks import architectures
from simbav2.networks.sphere import Scale
from simbav2.types import Normalizer, Params, Variables

Floats: TypeAlias = NDArray[np.floating]
Layers: TypeAlias = Mapping[str, Any]


class Center(NamedTuple):
    """x - mean."""

    mean: Floats


class Linear(NamedTuple):
    """x @ kernel + bias."""

    kernel: Floats  # [inputs, outputs]
    bias: Floats  # [outputs]

    def times(self, scale: Floats) -> Linear:
        """Followed by a multiplication with `scale`."""
        return Linear(self.kernel * scale, self.bias * scale)

    def after(self, scale: Floats | float = 1.0, shift: Floats | float = 0.0) -> Linear:
        """Applied to `x * scale + shift` instead of x."""
        scale, shift = (np.broadcast_to(value, len(self.kernel)) for value in (scale, shift))
        return Linear(self.kernel * scale[:, None], self.bias + shift @ self.kernel)

    def then(self, other: Linear) -> Linear:
        """Followed by `other`."""
        return Linear(self.kernel @ other.kernel, self.bias @ other.kernel + other.bias)


class Relu(NamedTuple):
    """max(x, 0)."""


class Unit(NamedTuple):
    """x / max(|x|, 1e-8)."""


class Complement(NamedTuple):
    """Append the component that x lacks to unit length: sqrt(max(1 - |x|^2, 0) + 1e-12)."""


class Standardize(NamedTuple):
    """(x - mean) / sqrt(variance + 1e-6), over the features of x."""


class RootMeanSquare(NamedTuple):
    """x / sqrt(mean(x^2) + 1e-6), over the features of x."""


class Keep(NamedTuple):
    """Push x onto a stack, for a residual connection."""


class Mix(NamedTuple):
    """What the last `Keep` pushed, times `kept`, plus x, times `new`."""

    kept: Floats
    new: Floats


class Tanh(NamedTuple):
    """tanh(x)."""


class Rescale(NamedTuple):
    """center + reach * x, clipped to the bounds."""

    center: Floats
    reach: Floats
    low: Floats
    high: Floats


Operation: TypeAlias = (
    Center | Linear | Relu | Unit | Complement | Standardize | RootMeanSquare | Keep | Mix | Tanh | Rescale
)


def program(network: config.Actor, variables: Variables, normalizer: Normalizer) -> list[Operation]:
    """Raw observations to deterministic actions in [-1, 1]: the tanh of the mean head, whatever the policy."""
    actor, stats = _float64(variables.params), _float64(variables.batch_stats or {}).get("encoder", {})
    encoder, head = actor["encoder"], actor["predictor_mean"]
    scale = 1 / np.asarray(normalizer.std, np.float64)
    match network.architecture:
        case config.Hyperspherical() as part:
            operations = _hyperspherical(part, network, encoder, head, scale)
        case config.PreLayerNorm():
            operations = _pre_layer_norm(network, encoder, head, scale)
        case config.MLP() as part:
            operations = _mlp(part, network, encoder, head, scale)
        case config.BatchNormMLP() as part:
            operations = _batch_norm_mlp(part, network, (encoder, stats), head, scale)
        case config.BatchNormResidual() as part:
            operations = _batch_norm_residual(part, network, (encoder, stats), head, scale)
    mean = np.asarray(normalizer.mean, np.float64)
    if stats:  # a batch normalisation of the input subtracts its mean too
        mean = mean + stats["BatchNormLayer_0"]["mean"] / scale
    return [Center(mean), *operations, Tanh()]


def _hyperspherical(
    part: config.Hyperspherical, network: config.Actor, encoder: Layers, head: Layers, scale: Floats
) -> list[Operation]:
    width, depth = network.width, network.depth

    def scaled(layers: Layers, number: int, scaler: Scale) -> Linear:
        return _linear(layers[f"UnitDense_{number}"]).times(scaler.factor(layers[f"Scale_{number}"]["vector"]))

    embedding = scaled(encoder, 0, architectures.sqrt_scaler(part.scaler, width))
    operations: list[Operation] = [*_enter_sphere(part.input, embedding, scale), Unit()]
    lerp_scaler = architectures.lerp_scaler(part.lerp, width, depth)
    for block in range(depth):
        first, second = 2 * block + 1, 2 * block + 2
        lerp = lerp_scaler.factor(encoder[f"Scale_{second}"]["vector"])
        operations += [
            Keep(),
            scaled(encoder, first, architectures.sqrt_scaler(part.scaler, 4 * width)),
            Relu(),
            _linear(encoder[f"UnitDense_{second}"]).after(shift=architectures.OFFSET),
            Unit(),
            Mix(1 - lerp, lerp),
            Unit(),
        ]
    hidden = scaled(head, 0, architectures.sqrt_scaler(part.head_scaler, width))
    return [*operations, hidden.then(_linear(head["UnitDense_1"]))]


def _enter_sphere(
    part: config.Shifted | config.Unshifted | config.Resized, embedding: Linear, scale: Floats
) -> list[Operation]:
    """The embedding of the input, up to its length, which the unit norm that follows removes. For the same reason
    the unit norm of the input is left out."""
    kernel, bias = embedding
    match part:
        case config.Shifted(constant):
            return [Linear(kernel[:-1], bias + constant * kernel[-1]).after(scale)]
        case config.Unshifted():
            return [embedding.after(scale)]
        case config.Resized(constant):
            shrunk = np.diag(scale / (constant * np.sqrt(len(scale))))
            return [Linear(shrunk, np.zeros(len(scale))), Complement(), embedding]


def _pre_layer_norm(network: config.Actor, encoder: Layers, head: Layers, scale: Floats) -> list[Operation]:
    def normed(linear: Linear, number: int) -> Linear:
        norm = encoder[f"LayerNorm_{number}"]
        return linear.after(norm["scale"], norm["bias"])

    operations: list[Operation] = [_linear(encoder["Dense_0"]).after(scale)]
    one = np.ones(1)
    for block in range(network.depth):
        hidden = normed(_linear(encoder[f"Dense_{2 * block + 1}"]), block)
        output = _linear(encoder[f"Dense_{2 * block + 2}"])
        operations += [Keep(), Standardize(), hidden, Relu(), output, Mix(one, one)]
    return [*operations, Standardize(), normed(_linear(head), network.depth)]


def _mlp(part: config.MLP, network: config.Actor, encoder: Layers, head: Layers, scale: Floats) -> list[Operation]:
    operations: list[Operation] = []
    for number in range(network.depth):
        linear = _linear(encoder[f"Dense_{number}"])
        operations.append(linear if number else linear.after(scale))
        if part.layer_norm:
            norm = encoder[f"LayerNorm_{number}"]
            operations += [Standardize(), Linear(np.diag(norm["scale"]), norm["bias"])]
        operations.append(Relu())
    return [*operations, _linear(head)]


def _batch_norm(
    part: config.BatchNorm | config.BatchNormResidual, layers: tuple[Layers, Layers], number: int
) -> tuple[Floats, Floats]:
    """A batch normalisation by its running statistics, as factor and shift; `Center` has the input's mean."""
    params, stats = (tree[f"BatchNormLayer_{number}"] for tree in layers)
    scale, bias = params["affine"] if "affine" in params else (params["scale"], params["bias"])
    factor = scale / np.sqrt(stats["var"] + part.epsilon)
    return factor, bias - stats["mean"] * factor if number else bias


def _batch_norm_mlp(
    part: config.BatchNormMLP, network: config.Actor, layers: tuple[Layers, Layers], head: Layers, scale: Floats
) -> list[Operation]:
    operations: list[Operation] = []
    factor, shift = _batch_norm(part.norm, layers, 0)
    factor = scale * factor
    for number in range(network.depth):
        name = "UnitDense" if part.unit_weights else "Dense"
        linear = _linear(layers[0][f"{name}_{number}"]).after(factor, shift)
        factor, shift = _batch_norm(part.norm, layers, number + 1)
        if part.norm_first:
            linear = linear.times(factor)._replace(bias=linear.bias * factor + shift)
            factor, shift = np.ones_like(factor), np.zeros_like(shift)
        operations += [linear, Relu()]
    return [*operations, _linear(head).after(factor, shift)]


def _batch_norm_residual(
    part: config.BatchNormResidual,
    network: config.Actor,
    layers: tuple[Layers, Layers],
    head: Layers,
    scale: Floats,
) -> list[Operation]:
    def normed(number: int) -> Linear:
        """The linear map and the batch normalisation that follows it."""
        factor, shift = _batch_norm(part, layers, number)
        linear = _linear(layers[0][f"UnitDense_{number}"]).times(factor)
        return linear._replace(bias=linear.bias + shift)

    factor, shift = _batch_norm(part, layers, 0)
    operations: list[Operation] = [_linear(layers[0]["UnitDense_0"]).after(scale * factor, shift)]
    one = np.ones(1)
    for block in range(network.depth):
        first, second = normed(2 * block + 1), normed(2 * block + 2)
        operations += [Keep(), first, Relu(), second, Relu(), Mix(one, one)]
    return [*operations, RootMeanSquare(), _linear(head).after(layers[0]["RMSNorm_0"]["scale"][0])]


def _linear(layer: Layers) -> Linear:
    kernel = layer["kernel"]
    return Linear(kernel, layer.get("bias", np.zeros(kernel.shape[1])))


def _float64(params: Params) -> Any:
    """Nested mappings of arrays; weights on the sphere as plain arrays, too."""
    if isinstance(params, Mapping):
        return {name: _float64(value) for name, value in params.items()}
    return np.asarray(getattr(params, "value", params), np.float64)
