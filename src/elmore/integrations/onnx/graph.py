"""Build an ONNX graph: every call adds a node and returns the name of its output."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.engine.weights import as_float
from elmore.errors import MissingExtra
from elmore.formats.arrays import Int8Array
from elmore.version import __version__

try:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
except ImportError:
    raise MissingExtra("an export to ONNX", library="onnx", extra="onnx") from None

__all__ = ["BOOL", "FLOAT", "INT64", "Graph", "GraphProto", "ModelProto", "Shape", "Value"]

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = Sequence[str | int]  # a name is any number, the same number in all shapes with this name
Value = tuple[int, Shape]  # data type and shape
Values = Mapping[str, Value]  # by name

# Supported by onnxruntime from version 1.12 on.
OPSET, IR_VERSION = 17, 8


class Graph:
    """Nodes and constants, in the order of their addition.

    >>> graph = Graph()
    >>> graph.add("Mul", "x", graph.ints(2))
    'Mul_0'
    """

    def __init__(self, name: str = "") -> None:
        self._prefix = f"{name}." if name else ""  # names in the body of a loop must differ from those outside
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output."""
        output = output or f"{self._prefix}{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def add_many(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        name = f"{self._prefix}{kind}_{len(self._nodes)}"
        names = [f"{name}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, name=name, **attributes))
        return names

    def ints(self, value: int | Sequence[int]) -> str:
        """Add a constant of integers, such as a position or a shape."""
        return self._constant(f"{self._prefix}ints {value}", np.array(value, dtype=np.int64))

    def floats(self, value: float) -> str:
        """Add a constant number."""
        return self._constant(f"{self._prefix}float {value}", np.array(value, dtype=np.float32))

    def array(self, name: str, value: NDArray[Any] | Int8Array) -> str:
        """Add a constant with a name: weights as float32, ids unchanged."""
        return self._constant(name, np.ascontiguousarray(as_float(value)))

    def _constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(value, name)
        return name

    def graph(self, *, name: str, inputs: Values, outputs: Values) -> GraphProto:
        """The graph as the body of a loop."""
        return helper.make_graph(
            self._nodes, name, _described(inputs), _described(outputs), list(self._constants.values())
        )

    def model(
        self, *, name: str, description: str, inputs: Values, outputs: Values, metadata: Mapping[str, str]
    ) -> ModelProto:
        """The graph as a model for a file."""
        model = helper.make_model(
            self.graph(name=name, inputs=inputs, outputs=outputs),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="elmore",
            producer_version=__version__,
            doc_string=description,
        )
        helper.set_model_props(model, dict(metadata))
        return model


def _described(values: Values) -> list[ValueInfoProto]:
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in values.items()]
