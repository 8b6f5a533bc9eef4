"""A node as its rules look at it, and what an operator's document says of its inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import isnan, prod

import numpy as np

from qcgen.check.attributes import kind_of
from qcgen.check.model import MAX_ELEMENTS, node_place, shape_text
from qcgen.check.operands import counted
from qcgen.errors import Problem
from qcgen.infer.facts import Shape
from qcgen.ir.graph import Attribute, Graph, Node, Value
from qcgen.ir.types import Array, DType

Types = tuple[DType, ...]

Q8: Types = (DType.INT8, DType.UINT8)
FLOAT: Types = (DType.FLOAT32,)
OTHER_FLOATS: Types = (DType.FLOAT16, DType.FLOAT64)
CODES: Types = (*Q8, DType.INT16, DType.UINT16)
CODES_OR_FLOAT: Types = (*CODES, *FLOAT)

MAX_AXES = 32
"""The most dimensions of a tensor: as many as arrays of numpy 1 have."""

NARROW_AND_WIDE: Types = (DType.INT16, DType.UINT16, DType.INT32)
EIGHT_BITS = "quantize weights and activations to 8 bits (onnxruntime's quantize_static: QuantType.QInt8 or QUInt8)"

INTEGER, INTEGERS, NUMBER, TEXT = "an integer", "a list of integers", "a number", "a string"
TEXTS, NUMBERS = "a list of strings", "a list of numbers"

AGAIN = "export the model again"

MOVE_TRUTH = frozenset(
    """Concat DepthToSpace Dropout Expand Flatten Gather GatherElements Identity Pad ReduceMax ReduceMin Reshape Resize
    Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze""".split()
)
"""Operators that may move or choose truth values, which are the numbers 1 and 0."""

SEVERAL_OUTPUTS = frozenset(("DynamicQuantizeLSTM", "DynamicQuantizeLinear", "GRU", "LSTM", "Split", "TopK"))
"""Operators that may have any of their outputs, or all."""


@dataclass(frozen=True)
class NodeView:
    """One node in its graph; problems of the tensors in ``already_reported`` are reported where these come from."""

    graph: Graph
    node: Node
    already_reported: Collection[str] = ()

    def problem(self, what: str, hint: str) -> Problem:
        """A problem of this node."""
        return Problem(node_place(self.node), what, hint)

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return self.node.input(index) != ""

    def array(self, index: int) -> Array | None:
        """The elements of an input, None if it is absent or not constant."""
        return self.graph.constants.get(self.node.input(index))

    def dtype(self, index: int) -> DType | None:
        """The type of an input, None if it is absent or not known."""
        array = self.array(index)
        return DType.of(array) if array is not None else self.graph.value(self.node.input(index)).dtype

    def shape(self, index: int) -> Shape | None:
        """The shape of an input, None if it is absent or not known."""
        array = self.array(index)
        return tuple(array.shape) if array is not None else self.graph.value(self.node.input(index)).shape

    def fixed_shape(self, index: int) -> tuple[int, ...] | None:
        """The shape of an input whose dimensions are all known numbers."""
        shape = self.shape(index) or ()
        known = tuple(dim for dim in shape if isinstance(dim, int))
        return known if self.shape(index) is not None and len(known) == len(shape) else None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute; the default if it is absent or malformed."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, None if it is absent or malformed."""
        value = self.node.attributes.get(name)
        if not isinstance(value, tuple):
            return None
        numbers = tuple(item for item in value if isinstance(item, int))
        return numbers if len(numbers) == len(value) else None

    def source(self, index: int) -> str:
        """Where an input that should be constant comes from."""
        name = self.node.input(index)
        maker = self.graph.producers.get(name)
        return f"{node_place(maker)} computes it" if maker else f"it is the model's input {name!r}"


Extra = Callable[[NodeView], Iterator[Problem]]
"""What is to be checked beyond a Spec."""


@dataclass(frozen=True)
class Spec:
    """What is accepted of an operator.

    ``inputs`` names them in order, ``required`` of them must be there; with ``repeated`` the last so many may come
    again and again. ``types`` of inputs that have some; ``constant`` inputs must be known, ``numbers`` must have one
    element, ``scales`` must be positive and finite. ``same`` pairs an input with the one whose type it must have.
    ``attributes`` with their kinds; ``since`` is the version of the domain that has the operator.
    """

    inputs: tuple[str, ...]
    required: int
    types: Mapping[str, Types] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    since: int = 1
    repeated: int = 0
    extra: tuple[Extra, ...] = ()

    def role(self, index: int) -> str:
        """The name of an input."""
        if index < len(self.inputs) or not self.repeated:
            return self.inputs[index] if index < len(self.inputs) else f"input {index}"
        start = len(self.inputs) - self.repeated
        return self.inputs[start + (index - start) % self.repeated]

    def roles(self, view: NodeView) -> Iterator[tuple[int, str]]:
        """The inputs that are there, with their names."""
        for index, name in enumerate(view.node.inputs):
            if name:
                yield index, self.role(index)


def spec_problems(view: NodeView, spec: Spec) -> Iterator[Problem]:
    """Everything that is wrong with a node by its Spec."""
    found = [*_arity(view, spec), *_types(view, spec)]
    yield from found
    if found:
        return
    yield from _constants(view, spec)
    yield from _numbers(view, spec)
    yield from _attributes(view, spec)
    yield from _too_large(view)
    for extra in spec.extra:
        yield from extra(view)


def _arity(view: NodeView, spec: Spec) -> Iterator[Problem]:
    node = view.node
    for index in range(spec.required):
        if not view.has(index):
            needed = ", ".join(spec.inputs[: spec.required])
            yield view.problem(f"input {spec.role(index)} is missing", f"{node.op_type} needs {needed}")
    if spec.repeated:
        rest = len(node.inputs) - len(spec.inputs)
        if rest > 0 and rest % spec.repeated:
            group = ", ".join(spec.inputs[-spec.repeated :])
            yield view.problem(f"it has {counted(len(node.inputs), 'input')}", f"every input is a group: {group}")
    elif len(node.inputs) > len(spec.inputs):
        what = f"it has {counted(len(node.inputs), 'input')}, but {node.op_type} takes at most {len(spec.inputs)}"
        yield view.problem(what, f"the inputs are {', '.join(spec.inputs)}")
    if node.op_type not in SEVERAL_OUTPUTS:
        yield from _single_output(view)
    elif not any(node.outputs):
        yield view.problem("it has no output", AGAIN)


def _single_output(view: NodeView) -> Iterator[Problem]:
    if not view.node.outputs or not view.node.outputs[0]:
        yield view.problem("it has no output", AGAIN)
    for name in view.node.outputs[1:]:
        if name in view.graph.used:
            yield view.problem(f"its further output {name!r} is used", "only the first output is supported")


def _constants(view: NodeView, spec: Spec) -> Iterator[Problem]:
    known = [view.node.input(index) in view.graph.constants for index, _ in spec.roles(view)]
    if known and all(known):
        yield view.problem("all its inputs are constant", "replace the node by its result")
        return
    for index, role in spec.roles(view):
        if role in spec.constant and view.array(index) is None and view.node.input(index) not in view.already_reported:
            hint = "store its values in the model as an initializer"
            yield view.problem(f"{role} is not constant: {view.source(index)}", hint)


def _types(view: NodeView, spec: Spec) -> Iterator[Problem]:
    named: dict[str, DType] = {}
    wrong: set[str] = set()
    for index, role in spec.roles(view):
        dtype, allowed = view.dtype(index), spec.types.get(role)
        if dtype is DType.BOOL and view.node.op_type in MOVE_TRUTH:
            dtype = DType.FLOAT32
        if dtype is not None:
            named[role] = dtype
        if dtype is not None and allowed and dtype not in allowed:
            if view.node.input(index) in view.already_reported:
                return
            if not any(role == second and first in wrong for second, first in spec.same):
                yield _wrong_type(view, index, role, allowed)
            wrong.add(role)
            continue
        for role_of, like in spec.same:
            other = named.get(like)
            if role == role_of and dtype and other and dtype is not other and other in spec.types.get(like, (other,)):
                what = f"{role} is {dtype.value}, but {like} is {other.value}"
                yield view.problem(what, f"give {role} the type of {like}")


def _wrong_type(view: NodeView, index: int, role: str, allowed: Types) -> Problem:
    """A type that an input must not have; such as numpy has are called by numpy's name for them."""
    dtype, array, must = view.dtype(index), view.array(index), " or ".join(kind.value for kind in allowed)
    name = "of a type that is not known" if dtype is None else dtype.value
    if dtype is DType.OTHER:
        name = array.dtype.name if array is not None else "of a type that is not supported"
    is_quantized = set(allowed) & set(Q8) and (dtype in NARROW_AND_WIDE or "int" in name)
    hint = EIGHT_BITS if is_quantized else f"export the model with {role} as {must}"
    return view.problem(f"{role} is {name}, but must be {must}", hint)


def _numbers(view: NodeView, spec: Spec) -> Iterator[Problem]:
    """Parameters that must be one number, and scales that must be positive and finite."""
    for index, role in spec.roles(view):
        array = view.array(index)
        if array is None:
            continue
        kind = "scale" if role in spec.scales else "number"
        if role in spec.numbers and (array.size != 1 or array.ndim > 1):
            what = f"{role} has shape {shape_text(array.shape)}, but must be one number"
            yield view.problem(what, f"give one {kind}")
        elif role in spec.scales and array.dtype == np.float32:
            wrong = array.reshape(-1)[~(np.isfinite(array) & (array > 0)).reshape(-1)]
            if wrong.size:
                what = f"{role} is {wrong[0]}; a scale must be positive and finite"
                yield view.problem(what, "quantize the model again, with data that makes every tensor differ from zero")


def _attributes(view: NodeView, spec: Spec) -> Iterator[Problem]:
    for name, value in view.node.attributes.items():
        kind = spec.attributes.get(name)
        if kind is None:
            known = ", ".join(spec.attributes) or "no attributes"
            yield view.problem(f"the attribute {name!r} is unknown", f"remove it; {view.node.op_type} has {known}")
        elif not _fits(kind, value):
            yield view.problem(f"{name} is {kind_of(value)}, but must be {kind}", f"correct {name}")
        elif isinstance(value, float) and isnan(value):
            yield view.problem(f"{name} is NaN", f"correct {name}, or export the model again")


def _fits(kind: str, value: Attribute) -> bool:
    match kind:
        case "an integer":
            return isinstance(value, int)
        case "a number":
            return isinstance(value, float | int)
        case "a string":
            return isinstance(value, str)
        case "a list of strings":
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        case "a list of numbers":
            return isinstance(value, tuple) and all(isinstance(item, float | int) for item in value)
    return isinstance(value, tuple) and all(isinstance(item, int) for item in value)


def _too_large(view: NodeView) -> Iterator[Problem]:
    """Inputs of the model with too many elements; nodes are told of their results."""
    for index, name in enumerate(view.node.inputs):
        if name in view.graph.inputs and view.fixed_shape(index) is not None:
            yield from size_problems(view, view.graph.value(name))


def size_problems(view: NodeView, value: Value) -> Iterator[Problem]:
    """A result without a known type or size, with none or too many elements."""
    known = value.fixed_shape
    if value.dtype is None:
        yield view.problem(f"the type of {value.name!r} is unknown", "check the node's inputs and attributes")
    if known is None:
        text = "unknown" if value.shape is None else shape_text(value.shape)
        hint = "check the node's inputs and attributes, and give every dimension a size"
        yield view.problem(f"the shape of {value.name!r} is {text}", hint)
    elif len(known) > MAX_AXES:
        what = f"{value.name!r} has {len(known)} dimensions, more than {MAX_AXES}"
        yield view.problem(what, "use tensors of fewer dimensions")
    elif min(known, default=1) < 1:
        yield view.problem(f"{value.name!r} has shape {shape_text(known)}: it is empty", "export the model again")
    elif prod(known) > MAX_ELEMENTS:
        what = f"{value.name!r} has {prod(known)} elements, more than {MAX_ELEMENTS}"
        yield view.problem(what, "use smaller tensors")
