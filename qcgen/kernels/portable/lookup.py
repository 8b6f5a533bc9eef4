"""portable/lookup, clamp, channel_lookup: functions of codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ChannelLookup, Lookup, Operator
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, Placed, elementwise, loop_nest, strides
from qcgen.requantize.of_codes import ChannelLines, channel_lines


@dataclass(frozen=True)
class LookupContext(Context):
    """A table of codes."""

    template: ClassVar[str] = "kernels/portable/lookup.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    y_type: str  # of C
    first_code: int  # what is added to a code of x for its place in the table
    joined: tuple[str, ...]  # the nodes in front of this one that the table computes, too


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
    context = LookupContext(nest, op.x.dtype.c, op.y.dtype.c, first_code=-low, joined=op.joined)
    in_place = (0,) if "x" in nest.same_places else ()
    certificate = Certificate(numbers={"kind": "table", "values": op.table})
    return Prepared((constants,), context, (), certificate, in_place)


@dataclass(frozen=True)
class ClampContext(Context):
    """Bounds of codes."""

    template: ClassVar[str] = "kernels/portable/clamp.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    c_type: str  # of x and y
    low: int | None  # None: that of the type
    high: int | None  # the same


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
    context = ClampContext(
        nest=nest,
        c_type=op.x.dtype.c,
        low=low if low > op.x.dtype.low else None,
        high=high if high < op.x.dtype.high else None,
    )
    return Prepared((), context, (), Certificate(), in_place)


CLAMP = Kernel("portable/clamp", ClampContext, frozenset(), why_not_clamp, prepare_clamp)
LOOKUP = Kernel("portable/lookup", LookupContext, frozenset(), why_not_lookup, prepare_lookup)


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
