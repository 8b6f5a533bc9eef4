"""portable/embedding, select, arg_max, top_k, gather_elements: elements that numbers choose, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ArgMax, Embedding, GatherElements, Operator, Select, TopK
from qcgen.ir.types import DType
from qcgen.kernels.binary import operands_nest
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import LoopNest, kept_nest, nest_of, strides


@dataclass(frozen=True)
class EmbeddingContext(Context):
    """Rows of a constant table."""

    template: ClassVar[str] = "kernels/portable/embedding.c.jinja"

    types: Mapping[str, str]  # of C, by "x" and "y"
    count: int  # rows that are taken
    rows: int  # of the table
    row: int  # elements of each


def why_not_embedding(op: Operator, _setting: Setting) -> str | None:
    """Serves every table of rows."""
    return None if isinstance(op, Embedding) else f"{op.op_type} takes no rows of a table"


def prepare_embedding(op: Operator, _setting: Setting) -> Prepared:
    """The table is the program's; rows lie one behind the other in it and in y."""
    assert isinstance(op, Embedding)
    row = op.table[0].size
    context = EmbeddingContext({"x": op.x.dtype.c, "y": op.y.dtype.c}, op.x.size, len(op.table), row)
    constants = Constants("table", op.y.dtype.c, op.table.reshape(-1), f"{len(op.table)} rows of {row} elements.")
    return Prepared((constants,), context, (), Certificate())


EMBEDDING = Kernel("portable/embedding", EmbeddingContext, frozenset(), why_not_embedding, prepare_embedding)


SIGNS = {"greater": ">", "greater or equal": ">=", "less": "<", "less or equal": "<=", "equal": "=="}


def why_not_select(op: Operator, _setting: Setting) -> str | None:
    """Serves every choice."""
    return None if isinstance(op, Select) else f"{op.op_type} does not choose by a comparison"


def prepare_select(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, Select)
    operands = dict(zip("abcd", op.xs, strict=True))
    nest, tables = operands_nest(operands, op.y, setting)
    given = tuple(name for name in operands if name not in tables)
    in_place = tuple(i for i, name in enumerate(operands) if name in given and name in nest.same_places)
    may_be_minus_zero = "c" in given or bool((np.signbit(tables["c"].values) & (tables["c"].values == 0)).any())
    compared = f"!({{a}} {SIGNS[op.comparison]} {{b}})" if op.is_negated else f"{{a}} {SIGNS[op.comparison]} {{b}}"
    what = f", c where {compared.format(a='a', b='b')}, else d; NaN compares to nothing."
    what += " Of c, -0 becomes 0: -0.0f + 0.0f is 0.0f." if may_be_minus_zero else ""
    stored = f"{compared} ? {{c}}{' + 0.0f' if may_be_minus_zero else ''} : {{d}}"
    types = dict.fromkeys((*operands, "y"), "float")
    context = elements(op, nest, types, stored, what=what, tables=tables, in_place=in_place)
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


SELECT = Kernel("portable/select", Elements, frozenset(), why_not_select, prepare_select)


@dataclass(frozen=True)
class ArgMaxContext(Context):
    """Where the largest or the smallest element of an axis is."""

    template: ClassVar[str] = "kernels/portable/arg_max.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "x" and "y"
    count: int  # elements that are compared
    step: int  # from one of them to the next
    better: str  # how C compares an element with the best before it


def why_not_arg_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for the largest or the smallest element."""
    return None if isinstance(op, ArgMax) else f"{op.op_type} does not look for an element"


def prepare_arg_max(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, ArgMax)
    context = ArgMaxContext(
        nest=kept_nest(op.x, op.y, (op.axis,), setting),
        types={"x": op.x.dtype.c, "y": op.y.dtype.c},
        count=op.x.shape[op.axis],
        step=strides(op.x.shape, setting.xs[0])[op.axis],
        better=(">" if op.kind == "max" else "<") + ("=" if op.takes_last else ""),
    )
    return Prepared((), context, (), Certificate())


ARG_MAX = Kernel("portable/arg_max", ArgMaxContext, frozenset(), why_not_arg_max, prepare_arg_max)


@dataclass(frozen=True)
class TopKContext(Context):
    """Where the largest or the smallest elements of an axis are."""

    template: ClassVar[str] = "kernels/portable/top_k.c.jinja"

    nest: LoopNest  # the loops over the other axes
    x_type: str  # of C
    beats: str  # the condition in C that there is a best[place - 1] and an element stands before it
    counted: str  # of floats, of which NaN is the largest: what in best is counted, "nans" or "numbers", else ""
    count: int  # elements that are compared
    k: int  # of them are found
    x_along: int  # from one of them to the next
    y_along: int  # from one place to the next


def why_not_top_k(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for several elements."""
    return None if isinstance(op, TopK) else f"{op.op_type} does not look for several elements"


def prepare_top_k(op: Operator, setting: Setting) -> Prepared:
    """The best elements so far are kept in scratch memory, in their order."""
    assert isinstance(op, TopK)
    k = op.y.shape[op.axis]
    beats, counted = f"place > 0 && element {'>' if op.is_largest else '<'} best[place - 1]", ""
    if op.x.dtype is DType.FLOAT32 and k == 1:
        beaten, less = ("<=", "best[0]") if op.is_largest else (">=", "element")  # less must not be NaN
        beats = f"place > 0 && !(element {beaten} best[0]) && {less} == {less}"
    elif op.x.dtype is DType.FLOAT32 and op.is_largest:
        beats, counted = "place > nans && !(element <= best[place - 1])", "nans"
    elif op.x.dtype is DType.FLOAT32:
        beats = "place > 0 && (place > numbers ? element == element : element < best[place - 1])"
        counted = "numbers"
    context = TopKContext(
        nest=kept_nest(op.x, op.y, (op.axis,), setting),
        x_type=op.x.dtype.c,
        beats=beats,
        counted=counted,
        count=op.x.shape[op.axis],
        k=k,
        x_along=strides(op.x.shape, setting.xs[0])[op.axis],
        y_along=strides(op.y.shape, setting.y)[op.axis],
    )
    return Prepared((), context, (Scratch(k * op.x.dtype.bytes, op.x.dtype.bytes),), Certificate())


@dataclass(frozen=True)
class GatherElementsContext(Context):
    """Elements at computed places of an axis."""

    template: ClassVar[str] = "kernels/portable/gather_elements.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "x", "places" and "y"
    place_type: str  # of C, of one place
    given: tuple[str, ...]  # operands that are parameters: of "x", "places"
    constant: tuple[str, ...]  # operands that are tables
    count: int  # elements of the axis
    along: int  # from one of them to the next


def why_not_gather(op: Operator, _setting: Setting) -> str | None:
    """Serves all elements at computed places."""
    return None if isinstance(op, GatherElements) else f"{op.op_type} takes no elements at computed places"


def prepare_gather(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other; x has steps along the other axes only. A constant operand is a table."""
    assert isinstance(op, GatherElements)
    operands = {"x": op.x, "places": op.places}
    tables = tuple(
        Constants(role, tensor.dtype.c, setting.constants[tensor.name].reshape(-1), f"the model's {tensor.name}.")
        for role, tensor in operands.items()
        if tensor.name in setting.constants
    )
    constant = tuple(table.role for table in tables)
    orders = dict(zip(operands, setting.xs, strict=True)) | {role: range(len(op.y.shape)) for role in constant}
    steps = {role: list(strides(tensor.shape, tuple(orders[role]))) for role, tensor in operands.items()}
    along, steps["x"][op.axis] = steps["x"][op.axis], 0
    nest = nest_of(op.y.shape, {**steps, "y": strides(op.y.shape, setting.y)})
    types = {"x": f"const {op.x.dtype.c}", "places": f"const {op.places.dtype.c}", "y": op.y.dtype.c}
    given = tuple(role for role in operands if role not in constant)
    context = GatherElementsContext(nest, types, op.places.dtype.c, given, constant, op.x.shape[op.axis], along)
    return Prepared(tables, context, (), Certificate())


TOP_K = Kernel("portable/top_k", TopKContext, frozenset(), why_not_top_k, prepare_top_k)
GATHER_ELEMENTS = Kernel("portable/gather_elements", GatherElementsContext, frozenset(), why_not_gather, prepare_gather)
