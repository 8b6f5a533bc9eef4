"""Codes element by element, as portable/float_pointwise computes float32 numbers.

portable/quantized_binary, integer_binary, wide_binary, integer_unary: functions of quantized elements; portable/lookup,
clamp, channel_lookup: functions of codes by tables or bounds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import (
    ChannelLookup,
    IntegerBinary,
    IntegerUnary,
    Lookup,
    Operator,
    QuantizedBinary,
    Sigmoid,
)
from qcgen.kernels.binary import binary_nest, in_place_operands, prepare_binary, why_no_binary
from qcgen.kernels.elements import Elements, bounded, elements
from qcgen.kernels.integer_lstm import logistic_table
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, Placed, elementwise, loop_nest, strides
from qcgen.requantize.of_codes import ChannelLines, channel_lines


def why_not_quantized_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves every sum and product of quantized tensors."""
    return why_no_binary(op)


def prepare_quantized_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    found = prepare_binary(op, setting)
    function, nest, first = found.function, found.nest, [*found.function.first]
    is_flat = nest.contiguous and not nest.outer and nest.numbers and not function.tables
    if is_flat and setting.target.is_small:
        nest = replace(nest, ends_at_zero=True)
        first += [line.format(name) for line in ("{} += COUNT;", "QCGEN_MOVED({});") for name in ("a", "b", "y")]
    context = elements(
        op,
        nest,
        {**function.operands, "y": function.y},
        function.stored,
        what=". The line is proved for all pairs of codes." if function.first else "",
        tables=function.tables,
        in_place=found.in_place,
        is_apart=True,
        numbers=function.numbers,
        first=first,
        inner=function.inner,
        layer=function.layer,
    )
    return Prepared(found.constants, context, (), found.certificate, found.in_place)


QUANTIZED_BINARY = Kernel(
    "portable/quantized_binary", Elements, frozenset(), why_not_quantized_binary, prepare_quantized_binary
)


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
    is_bounded_below = op.kind != "squared_difference" or (op.y.zero_point or 0) < op.by.low
    numbers = {"factor": 1 << op.by.shift, "low": op.by.low if is_bounded_below else -(2**31), "high": op.by.high}
    tensors = {"a": op.a, "b": op.b, "y": op.y}
    for name, (multiplier, exponent) in (("a", op.by.a), ("b", op.by.b), ("y", op.by.y)):
        numbers |= {f"{name}_zero_point": tensors[name].zero_point or 0}
        numbers |= {f"{name}_multiplier": multiplier, f"{name}_exponent": exponent}
    context = elements(
        op,
        nest,
        {name: tensor.dtype.c for name, tensor in tensors.items()},
        f"({op.y.dtype.c})qcgen_integer_{op.kind}(&layer, {{a}}, {{b}})",
        tables=tables,
        in_place=in_place,
        is_apart=True,
        layer=Struct("integer_pair", (), numbers),
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
    "portable/integer_binary", Elements, frozenset(), why_not_integer_binary, prepare_integer_binary
)


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
    tensors = {"a": op.a, "b": op.b, "y": op.y}
    zero_point = op.y.zero_point or 0
    numbers = {f"{name}_zero_point": tensor.zero_point or 0 for name, tensor in tensors.items()}
    numbers |= {"low": op.y.dtype.low - zero_point, "high": op.y.dtype.high - zero_point}
    function = "wide_product" if op.kind == "mul" else "wide_sum"
    scales = {f"{name}_scale": tensor.scale for name, tensor in tensors.items() if tensor.scale is not None}
    if op.kind == "sub":
        scales["b_scale"] *= -1
    context = elements(
        op,
        nest,
        {name: tensor.dtype.c for name, tensor in tensors.items()},
        f"({op.y.dtype.c})qcgen_{function}(&layer, {{a}}, {{b}})",
        tables=tables,
        in_place=in_place,
        layer=Struct("wide_pair", (), numbers, floats=scales),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


WIDE_BINARY = Kernel("portable/wide_binary", Elements, frozenset(), why_not_wide_binary, prepare_wide_binary)


SIGMOIDS = {"logistic": "integer_logistic", "tanh": "integer_tangent"}
"""The functions of ``templates/library/`` that compute them."""


def why_not_integer_unary(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return None if isinstance(op, IntegerUnary) else f"{op.op_type} is not a function of codes of 16 bits"


def prepare_integer_unary(op: Operator, setting: Setting) -> Prepared:
    """Two multiplications at most per element, or a line between two numbers of a table; y may lie over x."""
    assert isinstance(op, IntegerUnary)
    by, reach = op.function, op.x.dtype.high - op.x.dtype.low
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    number = "(int32_t){x}" + (" - {x_zero_point}" if op.x.zero_point else "")
    numbers = {"x_zero_point": op.x.zero_point or 0, "y_zero_point": op.y.zero_point or 0}
    constants: tuple[Constants, ...] = ()
    if isinstance(by, Sigmoid):
        prove(reach * by.multiplier + 2**by.shift < 2**31, "no code leaves int32")
        scaled = f"({number}) * {by.multiplier}" if op.x.zero_point else f"{number} * {by.multiplier}"
        scaled = f"({scaled} + {1 << by.shift >> 1}) >> {by.shift}" if by.shift else scaled
        code, constants = f"qcgen_{SIGMOIDS[by.kind]}({{logistic}}, {scaled})", (logistic_table(),)
    else:
        prove(all(reach << max(exponent, 0) < 2**30 for _, exponent in (by.above, by.below)), "no code leaves int32")
        scales = by.above if by.above == by.below else (*by.above, *by.below)
        function = "qcgen_round_twice" if by.above == by.below else "qcgen_round_twice_by_sign"
        code = f"{function}({', '.join(map(str, (number, *scales)))})"
        code += " + {y_zero_point}" if op.y.zero_point else ""
        code = bounded(code, op.low, op.high) if op.y.dtype.bytes < 4 else code
    is_in_place = "x" in nest.same_places and op.x.dtype.bytes == op.y.dtype.bytes
    in_place = (0,) if is_in_place else ()
    types = {"x": op.x.dtype.c, "y": op.y.dtype.c}
    context = elements(op, nest, types, f"({op.y.dtype.c}){code}", in_place=in_place, numbers=numbers)
    return Prepared(constants, context, (), Certificate(), in_place)


INTEGER_UNARY = Kernel("portable/integer_unary", Elements, frozenset(), why_not_integer_unary, prepare_integer_unary)


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
    ends = (low if low > op.x.dtype.low else None, high if high < op.x.dtype.high else None)
    stored = f"({op.y.dtype.c}){bounded('{x}', *ends)}"
    context = elements(op, nest, types, stored, in_place=in_place)
    return Prepared((), context, (), Certificate(), in_place)


CLAMP = Kernel("portable/clamp", Elements, frozenset(), why_not_clamp, prepare_clamp)
LOOKUP = Kernel("portable/lookup", Elements, frozenset(), why_not_lookup, prepare_lookup)


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
    in_place = (0,) if "x" in loops.same_places else ()
    within = "value < {low} ? {low} : value > {high} ? {high} : value"  # fewer instructions than a function, with -Os
    context = elements(
        op,
        loops,
        {"x": op.x.dtype.c, **{each.role: each.c_type for each in constants}, "y": op.y.dtype.c},
        f"({op.y.dtype.c})({within})" if lines else _in_row(op, loops),
        what=f", {'a line' if lines else 'a table'} for each channel.",
        tables=roles,
        in_place=in_place,
        is_apart=True,
        numbers={"split": lines.split, "low": low, "high": high} if lines else {},
        inner=_on_lines(lines) if lines else (),
    )
    forms = {"line": len(op.tables)} if lines else None
    numbers = {"kind": "table", "axis": op.axis, "values": op.tables}
    certificate = Certificate(requantize=forms, comparisons=op.tables.size if lines else 0, numbers=numbers)
    return Prepared(constants, context, (), certificate, in_place)


def _on_lines(lines: ChannelLines) -> tuple[str, ...]:
    """The lines of C that compute the place of a code."""
    scaled = "code * {slope} + {offset}"
    if len(lines.slope) == 2:
        scaled = f"code < {{split}} ? {scaled} : code * {{slope_above}} + {{offset_above}}"
    return (
        "const int32_t code = {x};",
        f"const int32_t scaled = {scaled};",
        f"const int32_t value = scaled >> {lines.shift};",
    )


def _in_row(op: ChannelLookup, loops: LoopNest) -> str:
    """The code in the row of a channel, in C."""
    row = loops.elements["table"]
    index = [row.term.text({})] if row.term else []
    index += ["{x}", str(-op.x.dtype.low)] if op.x.dtype.low else ["{x}"]
    return f"{row.pointer}[{' + '.join(index)}]"


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
    "portable/channel_lookup", Elements, frozenset(), why_not_channel_lookup, prepare_channel_lookup
)
