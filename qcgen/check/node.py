"""A node as its rules look at it, how its operator is spelt, and rules for any input and attribute."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isnan, prod

import numpy as np

from qcgen.check.model import advice, node_place, too_large
from qcgen.errors import Problem
from qcgen.infer import Problems
from qcgen.infer.facts import AGAIN as CORRECT
from qcgen.infer.facts import Shape, counted, shape_text
from qcgen.ir.graph import Attribute, Graph, Node, Value
from qcgen.ir.types import CODES, Q8, Array, DType
from qcgen.options import spelt
from qcgen.schemas import NEWEST_READ, OLDEST, AttrType, version_at, versions

INTEGER, NUMBER, TEXT = "an integer", "a number", "a string"
INTEGERS, NUMBERS, TEXTS = "a list of integers", "a list of numbers", "a list of strings"

KINDS = {
    AttrType.INT: INTEGER,
    AttrType.INTS: INTEGERS,
    AttrType.FLOAT: NUMBER,
    AttrType.FLOATS: NUMBERS,
    AttrType.STRING: TEXT,
    AttrType.STRINGS: TEXTS,
}
"""What attributes may be, by ONNX's word for it."""

SCALARS: dict[str, type | tuple[type, ...]] = {INTEGER: int, NUMBER: (float, int), TEXT: str}
LISTS = {INTEGERS: int, NUMBERS: float, TEXTS: str}


def fits(kind: str, value: Attribute) -> bool:
    """Whether an attribute is of a kind; an empty list is of each."""
    if kind in SCALARS:
        return isinstance(value, SCALARS[kind])
    return isinstance(value, tuple) and all(isinstance(item, LISTS[kind]) for item in value)


def kind_of(value: Attribute) -> str:
    """What an attribute is, in words."""
    match value:
        case bytes():
            return "a string that is no text"
        case np.ndarray():
            return "a tensor"
        case ():
            return "an empty list"
    return next((kind for kind in KINDS.values() if fits(kind, value)), "neither a number nor text")


@dataclass(frozen=True)
class Signature:
    """How an operator is spelt.

    ``inputs`` names them in order, ``required`` of them must be there; with ``repeated`` the last so many may come
    again and again. ``attributes`` with their kinds.
    """

    inputs: tuple[str, ...]
    required: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    repeated: int = 0

    def role(self, index: int) -> str:
        """The name of an input."""
        start = len(self.inputs) - self.repeated
        if index >= start and self.repeated:
            return self.inputs[start + (index - start) % self.repeated]
        return self.inputs[index] if index < len(self.inputs) else f"input {index}"


@cache
def of_onnx(op_type: str) -> Signature:
    """How ai.onnx spells an operator in any opset: load has seen that nodes are spelt as their own opset says.

    Of an attribute that came after NEWEST_READ nobody here knows what it means.
    """
    oldest = version_at(op_type, OLDEST) or versions(op_type)[-1]
    known = [each for each in versions(op_type) if oldest.since_version <= each.since_version <= NEWEST_READ]
    # One that may be repeated is called data_0 by some operators.
    inputs = tuple(each.name.removesuffix("_0") for each in known[0].inputs)
    kinds = {each.name: each.type for schema in known[::-1] for each in schema.attributes.values()}
    attributes = {name: KINDS[kind] for name, kind in sorted(kinds.items()) if kind in KINDS}
    required = min(each.min_input for each in known)
    return Signature(inputs, required, attributes, repeated=int(known[0].max_input > len(inputs)))


Types = tuple[DType, ...]

FLOAT: Types = (DType.FLOAT32,)
CODES_OR_FLOAT: Types = (*CODES, *FLOAT)

NARROW_AND_WIDE: Types = (DType.INT16, DType.UINT16, DType.INT32)
EIGHT_BITS = "quantize weights and activations to 8 bits (onnxruntime's quantize_static: QuantType.QInt8 or QUInt8)"

AGAIN = "export the model again"

MOVE_TRUTH = frozenset(
    """Concat DepthToSpace Dropout Expand Flatten Gather GatherElements Identity Pad ReduceMax ReduceMin Reshape Resize
    Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze""".split()
)
"""Operators that may move or choose truth values, which are the numbers 1 and 0."""

TRUTH = frozenset("And Equal Greater GreaterOrEqual Less LessOrEqual Not Or Where Xor".split())
"""Operators that compute truth values, or choose by them; exporters compute shapes with them."""

SEVERAL_OUTPUTS = frozenset(("DynamicQuantizeLSTM", "DynamicQuantizeLinear", "GRU", "LSTM", "Split", "TopK"))
"""Operators that may have any of their outputs, or all."""


@dataclass(frozen=True)
class NodeView:
    """One node in its graph; problems of the tensors in ``already_reported`` are reported where these come from.

    ``shape_problems`` are what inference finds wrong with it.
    """

    graph: Graph
    node: Node
    signature: Signature
    already_reported: Collection[str] = ()
    shape_problems: Problems = ()

    def problem(self, what: str, hint: str) -> Problem:
        """A problem of this node."""
        return Problem(node_place(self.node), what, hint)

    def tensor(self, operand: int | str) -> str:
        """The name of an input, which is told by its place, or by its role in letters of either case; "" if absent."""
        if isinstance(operand, int):
            return self.node.input(operand)
        roles = (index for index, name in enumerate(self.signature.inputs) if name.lower() == operand.lower())
        return next((self.node.input(index) for index in roles), "")

    def beside(self, node: Node) -> NodeView:
        """Another node of the graph that is spelt as in ai.onnx."""
        return NodeView(self.graph, node, of_onnx(node.op_type))

    def has(self, operand: int | str) -> bool:
        """Whether an input is there."""
        return self.tensor(operand) != ""

    def array(self, operand: int | str) -> Array | None:
        """The elements of an input, None if it is absent or not constant."""
        return self.graph.constants.get(self.tensor(operand))

    def dtype(self, operand: int | str) -> DType | None:
        """The type of an input, None if it is absent or not known."""
        return self.graph.value(self.tensor(operand)).dtype

    def shape(self, operand: int | str) -> Shape | None:
        """The shape of an input, None if it is absent or not known."""
        return self.graph.value(self.tensor(operand)).shape

    def fixed_shape(self, operand: int | str) -> tuple[int, ...] | None:
        """The shape of an input whose dimensions are all known numbers."""
        return self.graph.value(self.tensor(operand)).fixed_shape

    def integer(self, name: str, default: int) -> int:
        """An integer attribute; the default if it is absent or malformed."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, an attribute or an input; None if it is absent, malformed or not constant."""
        array = self.array(name)
        value = tuple(array.reshape(-1).tolist()) if array is not None else self.node.attributes.get(name)
        if not isinstance(value, tuple):
            return None
        numbers = tuple(item for item in value if isinstance(item, int))
        return numbers if len(numbers) == len(value) else None

    def roles(self) -> Iterator[tuple[int, str]]:
        """The inputs that are there, with their names."""
        return ((index, self.signature.role(index)) for index, name in enumerate(self.node.inputs) if name)

    def source(self, operand: int | str) -> str:
        """Where an input that should be constant comes from."""
        name = self.tensor(operand)
        maker = self.graph.producers.get(name)
        return f"{node_place(maker)} computes it" if maker else f"it is the model's input {name!r}"


Extra = Callable[[NodeView], Iterator[Problem]]
"""What is to be checked beyond a Spec."""


@dataclass(frozen=True)
class Spec:
    """What is accepted of an operator.

    ``types`` of its inputs in order, () of those that may have any; ``constant`` inputs must be known, ``numbers`` must
    have one element, ``scales`` must be positive and finite. ``same``: by an input the one whose type it must have.
    ``bears``: whether all else is told of operands that are missing or of wrong types, too. ``signature``: how it
    is spelt, None for as ai.onnx spells the operator of this name.
    """

    types: tuple[Types, ...] = ()
    constant: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[Extra, ...] = ()
    bears: bool = False
    signature: Signature | None = None


def spec_problems(spec: Spec, view: NodeView) -> Iterator[Problem]:
    """Everything that is wrong with a node by its Spec."""
    found = [*arity_problems(view), *output_problems(view), *type_problems(view, spec)]
    yield from found
    if found and not spec.bears:
        return
    yield from _constants(view, spec)
    yield from number_problems(view, spec)
    yield from attribute_problems(view)
    yield from _shape_problems(view)
    for extra in spec.extra:
        yield from extra(view)


def arity_problems(view: NodeView) -> Iterator[Problem]:
    """Inputs that are missing, and those that are too many."""
    node, named, required = view.node, view.signature.inputs, view.signature.required
    for index in range(required):
        if not view.has(index):
            subject = "its input" if named[index] == "input" else f"input {named[index]}"
            yield view.problem(f"{subject} is missing", f"{node.op_type} needs {', '.join(named[:required])}")
    rest, repeated = len(node.inputs) - len(named), view.signature.repeated
    if rest > 0 and not repeated:
        what = f"it has {counted(len(node.inputs), 'input')}, but {node.op_type} takes at most {len(named)}"
        yield view.problem(what, f"the inputs are {', '.join(named)}")
    elif rest > 0 and rest % repeated:
        hint = f"every input is a group: {', '.join(named[-repeated:])}"
        yield view.problem(f"it has {counted(len(node.inputs), 'input')}", hint)


def output_problems(view: NodeView) -> Iterator[Problem]:
    """Outputs that are missing, and those that must not be used."""
    if view.node.op_type not in SEVERAL_OUTPUTS:
        yield from _single_output(view)
    elif not any(view.node.outputs):
        yield view.problem("it has no output", AGAIN)


def _single_output(view: NodeView) -> Iterator[Problem]:
    if not view.node.outputs or not view.node.outputs[0]:
        is_named = any(view.node.outputs)
        yield view.problem("its first output has no name" if is_named else "it has no output", AGAIN)
        return
    for name in filter(None, view.node.outputs[1:]):
        if name in view.graph.used:
            yield view.problem(f"its further output {name!r} is used", "only the first output is supported")


def _constants(view: NodeView, spec: Spec) -> Iterator[Problem]:
    known = [view.node.input(index) in view.graph.constants for index, _ in view.roles()]
    if view.has(0) and all(known) and not view.shape_problems:
        yield view.problem("all its inputs are constant", "replace the node by its result")
    else:
        yield from constant_problems(view, spec)


def constant_problems(view: NodeView, spec: Spec) -> Iterator[Problem]:
    """Inputs that must be constant and are not."""
    for index, role in view.roles():
        if role in spec.constant and view.array(index) is None and view.node.input(index) not in view.already_reported:
            hint = "store its values in the model as an initializer"
            yield view.problem(f"{role} is not constant: {view.source(index)}", hint)


def type_problems(view: NodeView, spec: Spec) -> Iterator[Problem]:
    """Inputs of types that they must not have, and pairs of two types."""
    types = dict(zip(view.signature.inputs, spec.types, strict=False))
    named: dict[str, DType] = {}
    wrong: set[str] = set()
    for index, role in view.roles():
        dtype, allowed, like = view.dtype(index), types.get(role), spec.same.get(role, "")
        if dtype is DType.BOOL and view.node.op_type in MOVE_TRUTH:
            dtype = DType.FLOAT32
        if dtype is not None:
            named[role] = dtype
        if dtype is not None and allowed and dtype not in allowed:
            if view.node.input(index) in view.already_reported:
                return
            if like not in wrong:
                yield _wrong_type(view, index, role, allowed)
            wrong.add(role)
            continue
        other = named.get(like)
        if dtype and other and dtype is not other and other in (types.get(like) or (other,)):
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
    if view.node.op_type in TRUTH:
        hint = advice(view.node.op_type)
    return view.problem(f"{role} is {name}, but must be {must}", hint)


def number_problems(view: NodeView, spec: Spec) -> Iterator[Problem]:
    """Parameters that must be one number, and scales that must be positive and finite."""
    for index, role in view.roles():
        array = view.array(index)
        shape = None if array is None and role in spec.constant else view.fixed_shape(index)
        if role in spec.numbers and shape is not None and (prod(shape) != 1 or len(shape) > 1):
            what = f"{role} has shape {shape_text(shape)}, but must be one number"
            yield view.problem(what, f"give one {number_kind(role)}")
        elif role in spec.scales and array is not None and array.dtype == np.float32:
            wrong, every = not_positive(role, array), "channel" if array.size > 1 else "tensor"
            if wrong is not None:
                hint = f"quantize the model again, with data that makes every {every} differ from zero"
                yield view.problem(f"{wrong}; a scale must be positive and finite", hint)


def number_kind(role: str) -> str:
    """What an input of numbers is called."""
    return next((kind for kind in ("scale", "zero point") if role.endswith(kind.replace(" ", "_"))), "number")


def not_positive(name: str, scales: Array) -> str | None:
    """The first of float32 numbers that is not positive and finite, and how many there are besides; None if all are."""
    flat = scales.reshape(-1)
    wrong = np.flatnonzero(~(np.isfinite(flat) & (flat > 0)))
    if not wrong.size:
        return None
    more = f" (as of {wrong.size - 1} more)" if wrong.size > 1 else ""
    channel = f" of output channel {wrong[0]}{more}" if flat.size > 1 else ""
    return f"{name}{channel} is {flat[wrong[0]]}"


def kind_problems(view: NodeView) -> Iterator[Problem]:
    """Attributes of a wrong kind."""
    known = view.signature.attributes
    for name, value in view.node.attributes.items():
        if name in known and not fits(known[name], value):
            yield view.problem(f"{name} is {kind_of(value)}, but must be {known[name]}", f"correct {name}")


def attribute_problems(view: NodeView) -> Iterator[Problem]:
    """Attributes that are unknown, of a wrong kind, or no number."""
    known = view.signature.attributes
    yield from kind_problems(view)
    for name, value in view.node.attributes.items():
        if name not in known:
            hint = f"remove it; {view.node.op_type} has {', '.join(sorted(known)) or 'no attributes'}"
            yield view.problem(f"the attribute {name!r} is unknown", hint)
        elif isinstance(value, float) and isnan(value):
            yield view.problem(f"{name} is NaN", f"correct {name}, or export the model again")


def _shape_problems(view: NodeView) -> Iterator[Problem]:
    """Shapes, and numbers that tell of shapes, that do not go together."""
    fixed, size = view.graph.fixed_dims, CORRECT
    if fixed:
        size = (
            f"the model was exported for another size than {spelt(dims=fixed)} gives it: compile it for that size, or"
            " export it with this dimension dynamic here, too"
        )
    for what, hint in view.shape_problems:
        yield view.problem(what, hint or size)


def size_problems(view: NodeView, value: Value) -> Iterator[Problem]:
    """A result without a known type or size, with none or too many elements."""
    known = value.fixed_shape
    if value.dtype is None:
        yield view.problem(f"the type of {value.name!r} is unknown", "check the node's inputs and attributes")
    if known is None:
        text = "unknown" if value.shape is None else shape_text(value.shape)
        hint = "check the node's inputs and attributes, and give every dimension a size"
        yield view.problem(f"the shape of {value.name!r} is {text}", hint)
    elif min(known, default=1) < 1:
        yield view.problem(f"{value.name!r} has shape {shape_text(known)}: it is empty", "export the model again")
    elif what := too_large(known):
        yield view.problem(f"{value.name!r} has {what}", "use smaller tensors")
