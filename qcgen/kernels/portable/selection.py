"""portable/embedding, select, arg_max, top_k, gather_elements: elements that numbers choose, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ArgMax, Embedding, GatherElements, Operator, Select, TopK
from qcgen.ir.types import DType
from qcgen.kernels.binary import operands_nest
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import kept_nest, nest_of, strides
from qcgen.kernels.portable.rows import RowsCall
from qcgen.kernels.text import KINDS


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


def why_not_arg_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for the largest or the smallest element."""
    return None if isinstance(op, ArgMax) else f"{op.op_type} does not look for an element"


def prepare_arg_max(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, ArgMax)
    nest = kept_nest(op.x, op.y, (op.axis,), setting)
    layer = Struct("search", (), {**_searched(op, setting), "takes_last": int(op.takes_last)})
    kind, first = "largest" if op.kind == "max" else "smallest", "last" if op.takes_last else "first"
    what = f" along axis {op.axis}: where the {kind} element is, of equal ones the {first}."
    stored = f"qcgen_find_one_{KINDS[op.x.dtype]}(&layer, &{{x}})"
    types = {"x": op.x.dtype.c, "y": op.y.dtype.c}
    context = elements(op, nest, types, stored, what=what, is_apart=True, layer=layer)
    return Prepared((), context, (), Certificate())


def _searched(op: ArgMax | TopK, setting: Setting) -> dict[str, int]:
    """Fields of the library's struct on the elements that are compared."""
    is_largest = op.is_largest if isinstance(op, TopK) else op.kind == "max"
    along = strides(op.x.shape, setting.xs[0])[op.axis]
    return {"count": op.x.shape[op.axis], "x_along": along, "is_largest": int(is_largest)}


ARG_MAX = Kernel("portable/arg_max", Elements, frozenset(), why_not_arg_max, prepare_arg_max)


def why_not_top_k(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for several elements."""
    return None if isinstance(op, TopK) else f"{op.op_type} does not look for several elements"


def prepare_top_k(op: Operator, setting: Setting) -> Prepared:
    """The best elements so far are kept in scratch memory, in their order."""
    assert isinstance(op, TopK)
    k, has_nan = op.y.shape[op.axis], op.x.dtype is DType.FLOAT32
    numbers = {"k": k, "y_along": strides(op.y.shape, setting.y)[op.axis], "has_nan": int(has_nan)}
    context = RowsCall(
        nest=kept_nest(op.x, op.y, (op.axis,), setting),
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        row=f"find_some_{KINDS[op.x.dtype]}",
        cast="",
        layer=Struct("search", (), {**_searched(op, setting), **numbers}),
        line=None,
        scratch=op.x.dtype.c,
    )
    return Prepared((), context, (Scratch(k * op.x.dtype.bytes, op.x.dtype.bytes),), Certificate())


TOP_K = Kernel("portable/top_k", RowsCall, frozenset(), why_not_top_k, prepare_top_k)


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
    types = {"x": op.x.dtype.c, "places": op.places.dtype.c, "y": op.y.dtype.c}
    wide = "_wide" if op.places.dtype is DType.INT64 else ""
    x = nest.elements["x"]
    first = "(&{x})" if x.term else x.pointer
    place = f"qcgen_place{wide}({{places}}, {op.x.shape[op.axis]}){f' * {along}' if along != 1 else ''}"
    stored = f"{first}[{place}]"
    what = f", elements along axis {op.axis}. Numbers below 0 count from the end; "
    what += "those beyond either end take the first element or the last one."
    context = elements(op, nest, types, stored, what=what, tables=constant, is_apart=True)
    return Prepared(tables, context, (), Certificate())


GATHER_ELEMENTS = Kernel("portable/gather_elements", Elements, frozenset(), why_not_gather, prepare_gather)
