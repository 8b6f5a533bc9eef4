"""portable/embedding: rows of a constant table, by numbers that are computed or given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Embedding, Operator
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting


@dataclass(frozen=True)
class EmbeddingContext(Context):
    """Rows of a constant table."""

    template: ClassVar[str] = "kernels/portable/embedding.c.jinja"

    types: Mapping[str, str]  # of C, by "x" and "y"
    count: int  # rows that are taken
    rows: int  # of the table
    row: int  # elements of each


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every table of rows."""
    return None if isinstance(op, Embedding) else f"{op.op_type} takes no rows of a table"


def prepare(op: Operator, _setting: Setting) -> Prepared:
    """The table is the program's; rows lie one behind the other in it and in y."""
    assert isinstance(op, Embedding)
    row = op.table[0].size
    context = EmbeddingContext({"x": op.x.dtype.c, "y": op.y.dtype.c}, op.x.size, len(op.table), row)
    constants = Constants("table", op.y.dtype.c, op.table.reshape(-1), f"{len(op.table)} rows of {row} elements.")
    return Prepared((constants,), context, (), Certificate())


EMBEDDING = Kernel("portable/embedding", EmbeddingContext, frozenset(), why_not, prepare)
