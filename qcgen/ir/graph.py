"""The Graph: what the ONNX model said, free of protobuf."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from qcgen.ir.types import Array, DType

Dim = int | str | None
"""A dimension: known, symbolic (its name), or unknown."""

NEWEST = 2**31 - 1
"""The version of the nodes that qcgen writes itself, above every one that a model imports."""

MOST_ELEMENTS = 2**28
"""The largest number of elements of a tensor, so that every number of bytes fits the C type int32_t."""

Attribute = int | float | str | bytes | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array | None
"""The value of a node's attribute; None for kinds that no supported operator has (subgraphs, sparse tensors)."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph; ``dtype`` and ``shape`` are None while they are unknown."""

    name: str
    dtype: DType | None
    shape: tuple[Dim, ...] | None

    @classmethod
    def of(cls, name: str, array: Array) -> Value:
        """What is known of a constant."""
        return cls(name, DType.of(array), tuple(array.shape))

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape if every dimension is a known number."""
        if self.shape is None:
            return None
        known = tuple(dim for dim in self.shape if isinstance(dim, int))
        return known if len(known) == len(self.shape) else None


class Malformed(TypeError):
    """An attribute is of another kind than the operator has."""


@dataclass(frozen=True)
class Node:
    """One node. ``name`` is never empty and unique; ``domain`` is "" for ai.onnx; an absent input is "".

    ``version`` is that of the domain by whose rules the node is read: what the model imports for its own nodes, NEWEST
    for those that rewriting makes. A node that is made of another one's operands and attributes keeps its version.
    ``in_float``: onnxruntime computes it in float although it becomes integers here; of a QuantizeLinear, what is in
    front of it, of a DequantizeLinear, what is behind it. ``written``: the operator that the user wrote, where
    rewriting has made another one of it.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    version: int = NEWEST
    in_float: bool = False
    written: str = ""

    @property
    def operator(self) -> str:
        """The operator with its domain, as the user wrote it: "Conv", "com.microsoft.QLinearAdd"."""
        return self.written or (f"{self.domain}.{self.op_type}" if self.domain else self.op_type)

    def is_a(self, *op_types: str) -> bool:
        """Whether it is one of these operators of ai.onnx."""
        return not self.domain and self.op_type in op_types

    def input(self, index: int) -> str:
        """The name of an input, "" if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def input_beside(self, name: str) -> str:
        """The other one of two inputs."""
        return self.input(1) if self.input(0) == name else self.input(0)

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer; Malformed if it is of another kind, as in those below."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise Malformed(f"{name} is not an integer")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise Malformed(f"{name} is not a number")
        return value

    def text(self, name: str, default: str) -> str:
        """An attribute that is text."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise Malformed(f"{name} is not text")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, None if it is absent."""
        value = self.attributes.get(name)
        if value is None:
            return None
        numbers = tuple(item for item in value if isinstance(item, int)) if isinstance(value, tuple) else ()
        if numbers != value:
            raise Malformed(f"{name} is not a list of integers")
        return numbers


def operator_keys(names: str) -> Iterator[tuple[str, str]]:
    """Domain and op_type of operators that are named in a row: "Conv com.microsoft.QLinearAdd"."""
    for name in names.split():
        domain, _, op_type = name.rpartition(".")
        yield domain, op_type


def fresh(name: str, taken: Container[str]) -> str:
    """The name, or the first one with underscores behind it that is not taken."""
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True)
class Origin:
    """The part of a user's model that was compiled, as it was before anything was rewritten.

    ``model`` is what the user gave: a path, bytes or a ModelProto. ``constants`` are inputs, by name, that became
    constants; ``inputs`` the tensors that the part begins with, types and shapes known, ``outputs`` those it ends with.
    ``aliases`` are tensors that rewriting took away, by the names of those that hold the same now.
    """

    model: object
    constants: Mapping[str, Array] = field(default_factory=dict)
    inputs: tuple[Value, ...] = ()
    outputs: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """A model: ``nodes`` in an order in which every input is computed before it is used.

    ``inputs`` and ``outputs`` name the tensors at the model's boundary (initializers are not inputs); ``values`` knows
    every tensor by name; ``constants`` the tensors whose elements are known; ``opsets`` the version of every imported
    domain; ``sha256`` identifies the model's bytes; ``fixed_dims`` are the symbolic dimensions that the user fixed.
    ``origin`` leads back to what the user gave, for whoever judges the result. ``narrow`` names the tensors that
    have codes of 4 or 2 bits in the model, and of 8 here. ``notes`` tell what was assumed of the model.
    ``dequantized``: the DequantizeLinear nodes whose constant results were computed, by these tensors' names.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, Array]
    opsets: Mapping[str, int]
    sha256: str
    fixed_dims: Mapping[str, int] = field(default_factory=dict)
    origin: Origin | None = None
    narrow: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    dequantized: Mapping[str, Node] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """The tensors and constants of which something is known."""
        return frozenset((*self.values, *self.constants))

    @cached_property
    def used(self) -> frozenset[str]:
        """The tensors that a node reads or that are outputs."""
        return frozenset(name for node in self.nodes for name in node.inputs) | frozenset(self.outputs)

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each tensor."""
        return {name: node for node in reversed(self.nodes) for name in node.outputs if name}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each tensor, one that does so twice as two."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in filter(None, node.inputs):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def dequantizer(self, name: str) -> Node | None:
        """The DequantizeLinear that makes a tensor, a constant or not; None if it is made otherwise."""
        maker = self.dequantized.get(name) or self.producers.get(name)
        return maker if maker is not None and maker.op_type == "DequantizeLinear" else None

    def quantizer(self, node: Node) -> Node | None:
        """The QuantizeLinear that reads the only output of a node, if nothing else does."""
        if not node.outputs or any(node.outputs[1:]) or node.outputs[0] in self.outputs:
            return None
        readers = self.readers.get(node.outputs[0], ())
        return readers[0] if len(readers) == 1 and readers[0].op_type == "QuantizeLinear" else None

    @cached_property
    def in_blocks(self) -> frozenset[str]:
        """The float images that onnxruntime keeps in blocks of 16 channels, of convolutions, pools, and what follows.

        It rounds them, their means and normalizations in another order. Source: NchwcTransformer with AVX512F; compared
        with onnxruntime 1.32.0 by tests/test_mean_order.py and tests/test_order_of_float_convolutions.py.
        """
        found: set[str] = set()
        for node in self.nodes:
            if self._makes_blocks(node, found):
                found.add(node.outputs[0])
        return frozenset(found)

    def _makes_blocks(self, node: Node, blocks: Set[str]) -> bool:
        shape, x = self.value(node.input(0)).fixed_shape, node.input(0)
        if node.op_type == "Conv":
            return self.convolves_blocks(node)
        if shape is None or len(shape) != 4 or self.dtype(x) is not DType.FLOAT32:
            return False
        is_whole = shape[1] % 16 == 0
        match node.op_type:
            case "AveragePool" | "MaxPool":
                return is_whole and not any(node.outputs[1:])
            case "GlobalAveragePool" | "GlobalMaxPool":
                return is_whole and (x in blocks or x not in self.producers)
            case (
                "BatchNormalization" | "Gelu" | "HardSigmoid" | "HardSwish" | "QuickGelu" | "Relu" | "Sigmoid" | "Tanh"
            ):
                return x in blocks
            case "Clip" | "LeakyRelu":  # joined with the convolution
                return x in blocks and self.producers[x].op_type == "Conv" and len(self.readers[x]) == 1
            case "Resize":
                return x in blocks and self._resizes_blocks(node, shape)
            case "Add" if node.written in ("Resize", "Upsample"):
                return self.producers[node.input(1)].op_type == "Add"  # products in pairs
            case "Add" | "Concat" | "Mul" | "Sum":
                others = [self.value(name).fixed_shape if name in blocks else None for name in node.inputs[1:]]
                factor = self.constants.get(node.input(1)) if node.op_type == "Mul" else None
                is_by_channel = factor is not None and factor.shape[-3:] == (shape[1], 1, 1)
                is_normalized = node.written == "BatchNormalization"
                if node.op_type == "Concat":
                    return x in blocks and is_whole and all(each and each[1] % 16 == 0 for each in others)
                is_alike = all(each == shape for each in others)
                return x in blocks and (is_by_channel or is_normalized or is_alike)
            case _:
                return False

    def _resizes_blocks(self, node: Node, x: tuple[int, ...]) -> bool:
        """Whether a Resize makes each pixel the same number of pixels, at places that blocks know."""
        y, is_linear = self.value(node.outputs[0]).fixed_shape, node.attributes.get("mode") == "linear"
        if y is None or len(y) != 4 or y[:2] != x[:2] or any(b % a for a, b in zip(x, y, strict=True)):
            return False
        places = node.attributes.get("coordinate_transformation_mode", "half_pixel")
        if is_linear:
            return places in ("align_corners", "asymmetric", "half_pixel")
        return places == "asymmetric" and node.attributes.get("nearest_mode") == "floor"

    def convolves_blocks(self, node: Node) -> bool:
        """Whether a convolution of images has constant weights, and groups of one channel or of whole blocks."""
        w, group = self.constants.get(node.input(1)), node.attributes.get("group", 1)
        if w is None or w.ndim != 4 or node.domain or node.written or not isinstance(group, int):
            return False
        if any(name in self.dequantized or name not in self.constants for name in filter(None, node.inputs[1:])):
            return False
        outputs, inputs = int(w.shape[0]), int(w.shape[1])
        if group == 1:
            return inputs < 16 or inputs % 4 == 0
        is_depthwise = inputs == 1 and outputs == group
        return (is_depthwise and outputs % 4 == 0) or (inputs % 16 == 0 and outputs // group % 16 == 0)

    def dtype(self, name: str) -> DType | None:
        """The element type of a tensor, None if it is not known."""
        return self.value(name).dtype

    def value(self, name: str) -> Value:
        """What is known of a tensor, constant or not; an unknown one has neither type nor shape."""
        array = self.constants.get(name)
        return self.values.get(name, Value(name, None, None)) if array is None else Value.of(name, array)


# ONNX's numbers for element types, as in tensors and in the attribute ``to`` of Cast.

ELEMENT_TYPES: dict[int, DType] = {
    1: DType.FLOAT32,
    2: DType.UINT8,
    3: DType.INT8,
    4: DType.UINT16,
    5: DType.INT16,
    6: DType.INT32,
    7: DType.INT64,
    9: DType.BOOL,
    10: DType.FLOAT16,
    11: DType.FLOAT64,
    12: DType.UINT32,
    13: DType.UINT64,
}
"""TensorProto.DataType of onnx.proto; numbers that are not here are types that qcgen has no use for."""


def number_of(dtype: DType) -> int:
    """The number of a type; not of OTHER."""
    return next(number for number, each in ELEMENT_TYPES.items() if each is dtype)


def element_type(number: int) -> DType | None:
    """The type with this number: None for 0, which means undefined, OTHER for types without use."""
    return None if number == 0 else ELEMENT_TYPES.get(number, DType.OTHER)
