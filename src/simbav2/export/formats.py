"""The file formats of a policy: `.npz`, run by `simbav2_policy.py` with NumPy alone, and ONNX.

ONNX graphs are written with `onnx` alone. Opset 17 and IR version 8 are from 2022, so current runtimes read them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simbav2 import __version__
from simbav2.errors import InputError
from simbav2.export import simbav2_policy
from simbav2.export.program import Operation

Metadata = Mapping[str, Any]


class Format(NamedTuple):
    suffix: str
    encode: Callable[[Sequence[Operation], Metadata], bytes]
    act: Callable[[bytes, NDArray], NDArray]  # the actions of an encoded policy on observations [N, O]
    companions: tuple[Path, ...] = ()  # files that belong to every policy of the format


# NumPy. ---------------------------------------------------------------------------------------------------


def encode_numpy(operations: Sequence[Operation], metadata: Metadata) -> bytes:
    """The `.npz` file: the list of operations, their arrays, the metadata. No pickles."""
    arrays: dict[str, Any] = {
        f"{number}.{field}": np.asarray(value, np.float32)
        for number, operation in enumerate(operations)
        for field, value in operation._asdict().items()
    }
    steps = [[type(operation).__name__, *operation._fields] for operation in operations]
    file = io.BytesIO()
    np.savez(file, program=json.dumps(steps), metadata=json.dumps(metadata), **arrays)
    return file.getvalue()


def act_numpy(model: bytes, observations: NDArray) -> NDArray:
    return simbav2_policy.Policy(io.BytesIO(model))(observations)


# ONNX. ----------------------------------------------------------------------------------------------------

OPSET, IR_VERSION = 17, 8
_FEATURES: dict[str, Any] = {"axes": [-1], "keepdims": 1}


def _onnx() -> Any:
    try:
        import onnx

        return onnx
    except ImportError as error:
        raise InputError(f"ONNX is not installed ({error}); pip install 'simbav2[onnx]'") from error


class _Graph:
    """Nodes in a row; `x` is the name of the latest value."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.x = "observation"
        self.kept: list[str] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; its inputs are names of values, or constants."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        self.x = f"x{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [self.x], **attributes))
        return self.x

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    # One method for every operation, with its fields as arguments. -------------------------------------------

    def center(self, mean: Any) -> None:
        self.node("Sub", self.x, mean)

    def linear(self, kernel: Any, bias: Any) -> None:
        self.node("Gemm", self.x, kernel, bias)

    def relu(self) -> None:
        self.node("Relu", self.x)

    def unit(self) -> None:
        x = self.x
        self.node("Div", x, self.node("Max", self.node("ReduceL2", x, **_FEATURES), 1e-8))

    def complement(self) -> None:
        x = self.x
        rest = self.node("Relu", self.node("Sub", 1, self.node("ReduceSumSquare", x, **_FEATURES)))
        self.node("Concat", x, self.node("Sqrt", self.node("Add", rest, 1e-12)), axis=-1)

    def standardize(self) -> None:
        x = self.node("Sub", self.x, self.node("ReduceMean", self.x, **_FEATURES))
        variance = self.node("ReduceMean", self.node("Mul", x, x), **_FEATURES)
        self.node("Div", x, self.node("Sqrt", self.node("Add", variance, 1e-6)))

    def rootmeansquare(self) -> None:
        x = self.x
        square = self.node("ReduceMean", self.node("Mul", x, x), **_FEATURES)
        self.node("Div", x, self.node("Sqrt", self.node("Add", square, 1e-6)))

    def keep(self) -> None:
        self.kept.append(self.x)

    def mix(self, kept: Any, new: Any) -> None:
        moved = self.node("Mul", self.x, new)
        self.node("Add", self.node("Mul", self.kept.pop(), kept), moved)

    def tanh(self) -> None:
        self.node("Tanh", self.x)

    def rescale(self, center: Any, reach: Any, low: Any, high: Any) -> None:
        scaled = self.node("Add", self.node("Mul", self.x, reach), center)
        self.node("Min", self.node("Max", scaled, low), high)


def encode_onnx(operations: Sequence[Operation], metadata: Metadata) -> bytes:
    """A model with the input `observation` and the output `action`, both [batch, size]."""
    onnx = _onnx()
    helper, graph = onnx.helper, _Graph(onnx)
    for operation in operations:
        getattr(graph, type(operation).__name__.lower())(*operation)
    graph.nodes[-1].output[0] = "action"
    observation, action = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", metadata[f"{name}_size"]])
        for name in ("observation", "action")
    )
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", [observation], [action], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="simbav2",
        producer_version=__version__,
        doc_string=f"deterministic policy for {metadata['task']}: raw observations to actions",
    )
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    helper.set_model_props(model, texts)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def act_onnx(model: bytes, observations: NDArray) -> NDArray:
    """With onnxruntime where it is installed, else with the reference implementation of `onnx`."""
    try:
        from onnxruntime import InferenceSession

        session: Any = InferenceSession(model, providers=["CPUExecutionProvider"])
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(_onnx().load_model_from_string(model))
    return session.run(["action"], {"observation": observations})[0]


FORMATS = {
    "onnx": Format(".onnx", encode_onnx, act_onnx),
    "numpy": Format(".npz", encode_numpy, act_numpy, (Path(simbav2_policy.__file__),)),
}
