"""portable/matmul, matmul_float: products of two computed matrices, wherever their rows and columns lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import MatMul, Operator
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.products import (
    Matrices,
    Operands,
    ProductCodes,
    Tile,
    a_term,
    codes_of,
    matrices_of,
    prepare_sums,
    tile,
    why_no_product,
)

TILE = 2  # rows and columns whose sums are taken together: each element that is loaded serves two of them


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices."""

    template: ClassVar[str] = "kernels/portable/matmul.c.jinja"

    matrices: Matrices
    codes: ProductCodes
    a_term: int  # from one term of a row of a to the next
    start: int  # of a sum
    down: Tile  # rows of y that are computed together
    across: Tile  # columns of y that are computed together
    is_tiled: bool  # several outputs are computed together
    overlaps: bool  # some are computed twice
    output: Output


def why_not_matmul(op: Operator, _setting: Setting) -> str | None:
    """Serves every product of two computed matrices."""
    return why_no_product(op)


def prepare_matmul(op: Operator, setting: Setting) -> Prepared:
    """Operands that are constants become tables; no scratch."""
    assert isinstance(op, MatMul)
    sums = prepare_sums(op, setting)
    matrices, tables = matrices_of(op, setting)
    down, across = tile("row", matrices.rows, TILE), tile("column", matrices.columns, TILE)
    context = MatMulContext(
        matrices=matrices,
        codes=codes_of(op),
        a_term=a_term(op, setting),
        start=sums.start,
        down=down,
        across=across,
        is_tiled=down.size > 1 or across.size > 1,
        overlaps=down.overlaps or across.overlaps,
        output=sums.output,
    )
    constants = (*tables, *sums.epilogue.constants)
    return Prepared(constants, context, (), sums.certificate)


MATMUL = Kernel("portable/matmul", MatMulContext, frozenset(), why_not_matmul, prepare_matmul)


@dataclass(frozen=True)
class MatMulFloatContext(Context):
    """A product of two float32 matrices."""

    template: ClassVar[str] = "kernels/portable/matmul_float.c.jinja"

    operands: Operands
    layer: Struct


def why_not_matmul_float(op: Operator, _setting: Setting) -> str | None:
    """Serves every product of two computed float32 matrices."""
    if isinstance(op, MatMul) and op.is_float:
        return None
    return f"{op.op_type} is not a product of two computed float32 matrices"


def prepare_matmul_float(op: Operator, setting: Setting) -> Prepared:
    """Operands that are constants become tables; no scratch."""
    assert isinstance(op, MatMul)
    matrices, tables = matrices_of(op, setting)
    places = ("rows", "columns", "terms", "a_row", "b_term", "b_column", "y_row", "y_column")
    numbers = {name: getattr(matrices, name) for name in places}
    numbers |= {"a_term": a_term(op, setting), "chunk": min(op.block, matrices.terms)}
    context = MatMulFloatContext(matrices.operands, Struct("matrices", (), numbers))
    return Prepared(tables, context, (), Certificate())


MATMUL_FLOAT = Kernel(
    "portable/matmul_float", MatMulFloatContext, frozenset(), why_not_matmul_float, prepare_matmul_float
)
