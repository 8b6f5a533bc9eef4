"""portable/matmul, matmul_float: products of two computed matrices, wherever their rows and columns lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import MatMul, Operator
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.products import CodeProduct, Operands, matrices_of, prepare_product, tile_operations, why_no_product


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices."""

    template: ClassVar[str] = "kernels/portable/matmul.c.jinja"

    product: CodeProduct


def why_not_matmul(op: Operator, _setting: Setting) -> str | None:
    """Serves every product of two computed matrices."""
    return why_no_product(op)


def prepare_matmul(op: Operator, setting: Setting) -> Prepared:
    """Operands that are constants become tables; no scratch."""
    assert isinstance(op, MatMul)
    product, constants, certificate = prepare_product(op, setting)
    return Prepared(constants, MatMulContext(product), (), certificate, folded={"matrix_product": tile_operations(op)})


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
    operands, numbers, tables = matrices_of(op, setting)
    numbers["chunk"] = min(op.block, op.terms)
    context = MatMulFloatContext(operands, Struct("matrices", (), numbers))
    return Prepared(tables, context, (), Certificate())


MATMUL_FLOAT = Kernel(
    "portable/matmul_float", MatMulFloatContext, frozenset(), why_not_matmul_float, prepare_matmul_float
)
