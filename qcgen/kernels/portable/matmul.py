"""portable/matmul: products of two computed matrices, wherever their rows and columns lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import MatMul, Operator
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.products import Matrices, matrices_of, prepare_sums, why_no_product

TILE = 2  # rows and columns whose sums are taken together: each element that is loaded serves two of them


@dataclass(frozen=True)
class Tile:
    """The loop over the tiles of one axis of y: its ``variable`` in C, ``count`` the number of all in C.

    ``size`` of them, with the ``numbers`` 0, 1, ..., are a tile; ``overlaps``: the last tile repeats some of the one
    before it.
    """

    variable: str
    count: str
    size: int
    overlaps: bool
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices."""

    template: ClassVar[str] = "kernels/portable/matmul.c.jinja"

    matrices: Matrices
    start: int  # of a sum
    down: Tile  # rows of y that are computed together
    across: Tile  # columns of y that are computed together
    is_tiled: bool  # several outputs are computed together
    overlaps: bool  # some are computed twice
    output: Output


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every product of two computed matrices."""
    return why_no_product(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Operands that are constants become tables; no scratch."""
    assert isinstance(op, MatMul)
    sums = prepare_sums(op, setting)
    matrices, tables = matrices_of(op, setting)
    down, across = _tile("row", matrices.rows), _tile("column", matrices.columns)
    context = MatMulContext(
        matrices=matrices,
        start=sums.start,
        down=down,
        across=across,
        is_tiled=down.size > 1 or across.size > 1,
        overlaps=down.overlaps or across.overlaps,
        output=sums.output,
    )
    constants = (*tables, *sums.epilogue.constants)
    return Prepared(constants, context, (), ("compiler", *sums.epilogue.support), sums.certificate)


def _tile(variable: str, count: int) -> Tile:
    size = min(TILE, count)
    return Tile(variable, f"{variable.upper()}S", size, count % size != 0, tuple(range(size)))


MATMUL = Kernel("portable/matmul", MatMulContext, frozenset(), why_not, prepare)
