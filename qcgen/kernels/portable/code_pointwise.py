"""Codes element by element, as portable/float_pointwise computes float32 numbers.

portable/quantized_binary, integer_binary, wide_binary, integer_unary: functions of quantized elements; portable/lookup,
clamp, channel_lookup: functions of codes by tables or bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import (
    BinaryKind,
    ChannelLookup,
    IntegerBinary,
    IntegerUnary,
    Lookup,
    Operator,
    QuantizedBinary,
    Scaled,
    Sigmoid,
    Tensor,
)
from qcgen.kernels.binary import PairFunction, binary_nest, in_place_operands, prepare_binary, why_no_binary
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.integer_lstm import logistic_table
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, Placed, elementwise, loop_nest, strides
from qcgen.requantize.of_codes import ChannelLines, channel_lines


@dataclass(frozen=True)
class QuantizedBinaryContext(Context):
    """A sum or product of codes."""

    template: ClassVar[str] = "kernels/portable/quantized_binary.c.jinja"

    function: PairFunction
    nest: LoopNest  # the loops over the elements of y
    ends_at_zero: bool  # its only loop does, which needs no register for the end


def why_not_quantized_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves every sum and product of quantized tensors."""
    return why_no_binary(op)


def prepare_quantized_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    found = prepare_binary(op, setting)
    is_flat = found.nest.contiguous and not found.nest.outer and found.nest.numbers and not found.function.constant
    context = QuantizedBinaryContext(found.function, found.nest, ends_at_zero=bool(is_flat) and setting.target.is_small)
    return Prepared(found.constants, context, (), found.certificate, found.in_place)


QUANTIZED_BINARY = Kernel(
    "portable/quantized_binary", QuantizedBinaryContext, frozenset(), why_not_quantized_binary, prepare_quantized_binary
)


@dataclass(frozen=True)
class IntegerBinaryContext(Context):
    """What becomes of two codes."""

    template: ClassVar[str] = "kernels/portable/integer_binary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "a", "b", "y"
    zero_points: Mapping[str, int]  # of codes, by the same names
    by: IntegerBinary  # the multipliers
    factor: int  # of operands before them
    is_bounded_below: bool  # codes may be below the lowest one
    scales_operands: bool  # before they are added, not of a product
    total: str  # of both in C
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


_TOTALS: Mapping[BinaryKind, str] = {
    "add": "a + b",
    "mul": "a * b",
    "squared_difference": "(a - b) * (a - b)",
    "sub": "a - b",
}


def why_not_integer_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves every square of a difference, and sums, differences and products of 16 bits."""
    if isinstance(op, QuantizedBinary) and op.by is not None and (op.is_wide or op.kind == "squared_difference"):
        return None
    return f"{op.op_type} has a table of all pairs, or is in onnxruntime's arithmetic"


def prepare_integer_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    assert op.by is not None, "it is TensorFlow Lite's"
    prove(max(op.by.a[1], op.by.b[1], op.by.y[1]) <= 0, "no scale is above 1")
    _prove_room(op, op.by)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    tensors = {"a": op.a, "b": op.b, "y": op.y}
    context = IntegerBinaryContext(
        nest=nest,
        types={name: tensor.dtype.c for name, tensor in tensors.items()},
        zero_points={name: tensor.zero_point or 0 for name, tensor in tensors.items()},
        by=op.by,
        factor=1 << op.by.shift,
        is_bounded_below=op.kind != "squared_difference" or (op.y.zero_point or 0) < op.by.low,
        scales_operands=op.kind != "mul",
        total=_TOTALS[op.kind],
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


def _prove_room(op: QuantizedBinary, by: IntegerBinary) -> None:
    """Operands are halved at least by their multipliers."""
    first, second = (max(x.dtype.high - (x.zero_point or 0), (x.zero_point or 0) - x.dtype.low) for x in (op.a, op.b))
    if op.kind == "mul":
        prove(first * second < 2**31, "no product leaves int32")
        return
    reach = max(first, second) << by.shift
    prove(reach < 2**31, "no operand leaves int32")
    prove(op.kind != "squared_difference" or reach**2 < 2**31, "no square leaves int32")


INTEGER_BINARY = Kernel(
    "portable/integer_binary", IntegerBinaryContext, frozenset(), why_not_integer_binary, prepare_integer_binary
)


@dataclass(frozen=True)
class Coded:
    """A quantized tensor as the template writes it."""

    c_type: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class WideBinaryContext(Context):
    """A sum, difference or product of codes in float32."""

    template: ClassVar[str] = "kernels/portable/wide_binary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    result: str  # what it is, in words
    sign: str  # in C, of a sum or difference; "": a product
    tensors: Mapping[str, Coded]  # by "a", "b", "y"
    low: int  # the lowest code of y less the zero point
    high: int  # the highest code of y less the zero point
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


_RESULTS: Mapping[BinaryKind, str] = {"add": "sum", "mul": "product", "sub": "difference"}
_SIGNS: Mapping[BinaryKind, str] = {"add": "+", "mul": "", "sub": "-"}


def why_not_wide_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves sums, differences and products where a tensor has 16 bits."""
    if not isinstance(op, QuantizedBinary):
        return f"{op.op_type} is not a sum or product of quantized tensors"
    return None if op.is_wide and op.by is None else "no tensor has 16 bits, or it is in TensorFlow Lite's integers"


def prepare_wide_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand of its size."""
    assert isinstance(op, QuantizedBinary)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    operands = (op.a, op.b)
    free = in_place_operands(*operands, nest, setting)
    in_place = tuple(number for number in free if operands[number].dtype.bytes == op.y.dtype.bytes)
    tensors = {name: _coded(tensor) for name, tensor in (("a", op.a), ("b", op.b), ("y", op.y))}
    context = WideBinaryContext(
        nest=nest,
        result=_RESULTS[op.kind],
        sign=_SIGNS[op.kind],
        tensors=tensors,
        low=op.y.dtype.low - tensors["y"].zero_point,
        high=op.y.dtype.high - tensors["y"].zero_point,
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


def _coded(tensor: Tensor) -> Coded:
    assert tensor.scale is not None, "the tensor is quantized"
    return Coded(tensor.dtype.c, tensor.scale, tensor.zero_point or 0)


WIDE_BINARY = Kernel("portable/wide_binary", WideBinaryContext, frozenset(), why_not_wide_binary, prepare_wide_binary)


SIGMOIDS = {"logistic": "integer_logistic", "tanh": "integer_tangent"}
"""The functions of ``templates/library/`` that compute them."""


@dataclass(frozen=True)
class IntegerUnaryContext(Context):
    """A function of codes."""

    template: ClassVar[str] = "kernels/portable/integer_unary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    y_type: str  # of C
    x_zero_point: int  # of codes of x
    y_zero_point: int  # of codes of y
    scales: Scaled | None  # the multipliers and exponents
    is_one: bool  # both are the same
    sigmoid: Sigmoid | None  # or what a sigmoid is taken of
    half: int  # that is added before its shift
    function: str  # the sigmoid in C, without the prefix
    low: int | None  # the lowest code of y; None where no code is below it
    high: int | None  # the same of the highest


def why_not_integer_unary(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return None if isinstance(op, IntegerUnary) else f"{op.op_type} is not a function of codes of 16 bits"


def prepare_integer_unary(op: Operator, setting: Setting) -> Prepared:
    """Two multiplications at most per element, or a line between two numbers of a table; y may lie over x."""
    assert isinstance(op, IntegerUnary)
    by, reach = op.function, op.x.dtype.high - op.x.dtype.low
    sigmoid, scales = (by, None) if isinstance(by, Sigmoid) else (None, by)
    if scales is not None:
        parts = (scales.above, scales.below)
        prove(all(reach << max(exponent, 0) < 2**30 for _, exponent in parts), "no code leaves int32")
    if sigmoid is not None:
        prove(reach * sigmoid.multiplier + 2**sigmoid.shift < 2**31, "no code leaves int32")
    is_clamped = sigmoid is None and op.y.dtype.bytes < 4
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    function = SIGMOIDS[sigmoid.kind] if sigmoid is not None else ""
    context = IntegerUnaryContext(
        nest=nest,
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        x_zero_point=op.x.zero_point or 0,
        y_zero_point=op.y.zero_point or 0,
        scales=scales,
        is_one=scales is not None and scales.above == scales.below,
        sigmoid=sigmoid,
        half=1 << sigmoid.shift >> 1 if sigmoid is not None else 0,
        function=function,
        low=op.low if is_clamped else None,
        high=op.high if is_clamped else None,
    )
    is_in_place = "x" in nest.same_places and op.x.dtype.bytes == op.y.dtype.bytes
    constants = (logistic_table(),) if sigmoid is not None else ()
    return Prepared(constants, context, (), Certificate(), (0,) if is_in_place else ())


INTEGER_UNARY = Kernel(
    "portable/integer_unary", IntegerUnaryContext, frozenset(), why_not_integer_unary, prepare_integer_unary
)


def why_not_lookup(op: Operator, _setting: Setting) -> str | None:
    """Serves every lookup of 8-bit codes."""
    if not isinstance(op, Lookup):
        return f"{op.op_type} is not a function of a single code"
    return "a table would have 65,536 codes" if op.x.dtype.is_16_bit else None


def prepare_lookup(op: Operator, setting: Setting) -> Prepared:
    """The table is the program's; y may lie over x."""
    assert isinstance(op, Lookup)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    low, high = op.x.dtype.low, op.x.dtype.high
    constants = Constants(
        "table", op.y.dtype.c, op.table, f"the output's code for each of the input's, {low} to {high}."
    )
    in_place = (0,) if "x" in nest.same_places else ()
    too = f"; it computes {', '.join(op.joined)}, too" if op.joined else ""
    types = {"x": op.x.dtype.c, "y": op.y.dtype.c}
    stored = "{table}[{x}" + (f" + {-low}]" if low else "]")
    context = elements(op, nest, types, stored, what=f", a table{too}.", in_place=in_place, is_apart=True)
    certificate = Certificate(numbers={"kind": "table", "values": op.table})
    return Prepared((constants,), context, (), certificate, in_place)


def why_not_clamp(op: Operator, _setting: Setting) -> str | None:
    """Serves the clamps of 16-bit codes."""
    if not isinstance(op, Lookup):
        return f"{op.op_type} is not a function of a single code"
    return None if op.x.dtype.is_16_bit else "its codes have 8 bits"


def prepare_clamp(op: Operator, setting: Setting) -> Prepared:
    """Two comparisons; y may lie over x."""
    assert isinstance(op, Lookup)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    low, high = int(op.table[0]), int(op.table[-1])
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
    prove(np.array_equal(op.table, np.clip(codes, low, high)), "the table is a clamp")
    in_place = (0,) if "x" in nest.same_places else ()
    types = {"x": op.x.dtype.c, "y": op.y.dtype.c}
    stored = f"({op.y.dtype.c})qcgen_bounded({{x}}, {low}, {high})"
    context = elements(op, nest, types, stored, in_place=in_place)
    return Prepared((), context, (), Certificate(), in_place)


CLAMP = Kernel("portable/clamp", Elements, frozenset(), why_not_clamp, prepare_clamp)
LOOKUP = Kernel("portable/lookup", Elements, frozenset(), why_not_lookup, prepare_lookup)


@dataclass(frozen=True)
class ChannelLookupContext(Context):
    """Tables of codes, or lines that replace them."""

    template: ClassVar[str] = "kernels/portable/channel_lookup.c.jinja"

    nest: LoopNest  # the loops over the elements of y, with the numbers of each channel beside
    types: Mapping[str, str]  # of C: x's, y's and those of the tables, by role
    roles: tuple[str, ...]  # the tables that the loops go through, one entry or one row a channel
    first_code: int  # what is added to a code of x for its place in a row
    shift: int  # of lines; 0: tables
    split: int | None  # the code from which on the second lines hold; None: one line a channel
    low: int  # the lowest code of the output
    high: int  # the highest


def why_not_channel_lookup(op: Operator, _setting: Setting) -> str | None:
    """Serves every function of codes with channels."""
    return None if isinstance(op, ChannelLookup) else f"{op.op_type} is not a function of a code and its channel"


def prepare_channel_lookup(op: Operator, setting: Setting) -> Prepared:
    """Two or four int32 a channel where lines give every code of the tables, else the tables; y may lie over x."""
    assert isinstance(op, ChannelLookup)
    low, high = int(op.tables.min()), int(op.tables.max())
    lines = channel_lines(op.tables, op.x.dtype.low, low, high, op.x.zero_point or 0)
    constants = _line_tables(lines) if lines else (_tables(op),)
    roles = tuple(constant.role for constant in constants)
    loops = _nest(op, setting, roles, 1 if lines else op.tables.shape[1])
    context = ChannelLookupContext(
        loops,
        {"x": f"const {op.x.dtype.c}", "y": op.y.dtype.c, **{c.role: f"const {c.c_type}" for c in constants}},
        roles,
        first_code=-op.x.dtype.low,
        shift=lines.shift if lines else 0,
        split=lines.split if lines and len(lines.slope) == 2 else None,
        low=low,
        high=high,
    )
    forms = {"line": len(op.tables)} if lines else None
    numbers = {"kind": "table", "axis": op.axis, "values": op.tables}
    certificate = Certificate(requantize=forms, comparisons=op.tables.size if lines else 0, numbers=numbers)
    in_place = (0,) if "x" in loops.same_places else ()
    return Prepared(constants, context, (), certificate, in_place)


def _tables(op: ChannelLookup) -> Constants:
    low, high = op.x.dtype.low, op.x.dtype.high
    meaning = f"the output's code for each of the input's, {low} to {high}, a row a channel."
    return Constants("table", op.y.dtype.c, op.tables, meaning)


def _line_tables(lines: ChannelLines) -> tuple[Constants, ...]:
    """Slopes and offsets; of two lines a channel, those below the code where they meet come first."""
    names = ("", "_above") if len(lines.slope) == 2 else ("",)
    found = []
    for end, slope, offset in zip(names, lines.slope, lines.offset, strict=True):
        part = "from there on" if end else "below the code where two lines meet" if len(names) == 2 else "everywhere"
        found.append(Constants(f"slope{end}", "int32_t", slope.astype(np.int32), f"slope of a channel's line, {part}."))
        found.append(Constants(f"offset{end}", "int32_t", offset.astype(np.int32), f"its offset, {part}."))
    return tuple(found)


def _nest(op: ChannelLookup, setting: Setting, roles: tuple[str, ...], row: int) -> LoopNest:
    """The loops over y, in which each of the tables ``roles`` advances by a ``row`` with the channel."""
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    dimensions = []
    for axis, size in enumerate(op.y.shape):
        own = dict.fromkeys(roles, row if axis == op.axis else 0)
        dimensions.append(Dimension(size, {"x": x[axis], **own, "y": y[axis]}))
    return loop_nest(dimensions, ("x", *roles, "y"), {})


CHANNEL_LOOKUP = Kernel(
    "portable/channel_lookup", ChannelLookupContext, frozenset(), why_not_channel_lookup, prepare_channel_lookup
)
