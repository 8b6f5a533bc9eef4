"""arm_dsp/matmul: products of two computed matrices, two products in an instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import MatMul, Operator
from qcgen.ir.types import DType
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.products import (
    Matrices,
    ProductCodes,
    Tile,
    codes_of,
    matrices_of,
    prepare_sums,
    tile,
    why_no_packed_product,
)

TILE = 2  # rows and columns whose sums are taken together


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices: columns of b are widened to pairs in the arena, rows of a when read."""

    template: ClassVar[str] = "kernels/arm_dsp/matmul.c.jinja"

    matrices: Matrices
    codes: ProductCodes
    start: int  # of a sum
    down: Tile  # rows of y that are computed together
    across: Tile  # columns of y that are computed together
    output: Output
    whole: int  # terms that are taken in fours
    even: str  # the primitive that widens bytes 0 and 2 of a word of a
    odd: str  # the same for 1 and 3


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves rows of a whose terms lie side by side."""
    return why_no_packed_product(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Scratch for the pairs of a tile's columns."""
    assert isinstance(op, MatMul)
    sums = prepare_sums(op, setting)
    matrices, tables = matrices_of(op, setting)
    kind, across = "u8" if op.a.dtype is DType.UINT8 else "s8", tile("column", matrices.columns, TILE)
    whole = matrices.terms - matrices.terms % 4
    context = MatMulContext(
        matrices=matrices,
        codes=codes_of(op),
        start=sums.start,
        down=tile("row", matrices.rows, TILE),
        across=across,
        output=sums.output,
        whole=whole,
        even=f"dsp_even_{kind}",
        odd=f"dsp_odd_{kind}",
    )
    constants = (*tables, *sums.epilogue.constants)
    scratch = (Scratch(2 * whole * across.size, 4),)
    return Prepared(constants, context, scratch, sums.certificate)


MATMUL = Kernel("arm_dsp/matmul", MatMulContext, frozenset({"dsp"}), why_not, prepare)
