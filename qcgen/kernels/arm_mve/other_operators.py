"""arm_mve/matmul and arm_mve/max_pool: products of two computed matrices, and the largest codes of windows.

Both take sixteen bytes in an instruction. gcc makes the same of portable/max_pool from -O2 on, but not at -Os.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import MatMul, MaxPool, Operator
from qcgen.ir.types import DType
from qcgen.kernels import pooling
from qcgen.kernels.arm_mve.output import BYTES, LANES, steps_of
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.products import CodeProduct, prepare_product, why_no_packed_product
from qcgen.kernels.reasons import why_channels_apart
from qcgen.kernels.windows import axes

PRODUCT_OPERATIONS = 73.0  # of a product of matrices, without its sums


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices: four columns of b at a time are packed, rows of a meet them two at a time.

    VMLADAV multiplies int8: 128 is taken from codes of uint8, and from their zero points.
    """

    template: ClassVar[str] = "kernels/arm_mve/matmul.c.jinja"

    product: CodeProduct
    y_column: int  # from one column of y to the next
    sums_over: str  # the primitive that sums over one row or two
    copies: bool  # rows of a are copied, to have int8 and sixteen bytes for each vector
    is_vector: bool  # four codes are requantized and stored at a time
    saturate: str  # the primitive that does the last of it


def why_not_matmul(op: Operator, setting: Setting) -> str | None:
    """Serves rows of a whose terms lie side by side, and at least four columns."""
    reason = why_no_packed_product(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, MatMul)
    columns = op.b.shape[-1]
    return f"{columns} columns are less than a vector of sums" if columns < LANES else None


def prepare_matmul(op: Operator, setting: Setting) -> Prepared:
    """Scratch for four packed columns, what rows add to their sums, and copies of two rows."""
    assert isinstance(op, MatMul)
    product, constants, certificate = prepare_product(op, setting)
    steps, output = steps_of(op.terms), product.output
    numbers = {name: value for name, value in product.sizes.numbers.items() if name != "a_term"}
    row_bytes = steps.steps * BYTES
    copies = row_bytes > op.terms or op.a.dtype is DType.UINT8
    is_vector = (
        output.kind == "multiply-high"
        and not output.is_guarded
        and (output.low, output.high) == (op.y.dtype.low, op.y.dtype.high)
        and numbers["y_column"] == 1
    )
    numbers |= {
        "steps": steps.steps,
        "copies": steps.copies,
        "a_is_unsigned": int(op.a.dtype is DType.UINT8),
        "b_is_unsigned": int(op.b.dtype is DType.UINT8),
    }
    rows = numbers["rows"]
    context = MatMulContext(
        product=replace(product, sizes=Struct("mve_product", (), numbers)),
        y_column=numbers["y_column"],
        sums_over="mve_sums_two" if rows > 1 else "mve_sums_one",
        copies=copies,
        is_vector=is_vector,
        saturate="mve_saturate_u8" if op.y.dtype is DType.UINT8 else "mve_saturate_s8",
    )
    size = 4 * (steps.words + rows) + (min(rows, 2) * row_bytes if copies else 0)
    folded = {"mve_product_of": PRODUCT_OPERATIONS + steps.operations[context.sums_over]}
    return Prepared(constants, context, (Scratch(size, 4),), certificate, folded=folded)


MATMUL = Kernel("arm_mve/matmul", MatMulContext, frozenset({"mve"}), why_not_matmul, prepare_matmul)


def why_not_max_pool(op: Operator, setting: Setting) -> str | None:
    """Serves int8 codes whose channels lie side by side and fill vectors."""
    reason = pooling.why_not_max(op, setting) or why_channels_apart(setting.x_layout, setting.y_layout)
    if reason is not None:
        return reason
    assert isinstance(op, MaxPool)
    if op.x.dtype is not DType.INT8:
        return f"it takes {op.x.dtype.value}, not int8"
    if op.geometry.in_channels % BYTES != 0:
        return f"{op.geometry.in_channels} channels do not fill vectors of {BYTES}"
    if not pooling.is_written_out(axes(op.geometry, setting.x_layout)):
        return "no window lies within the image, or one has too many taps"
    return None


def prepare_max_pool(op: Operator, setting: Setting) -> Prepared:
    """As portable/max_pool, with other functions."""
    prepared = pooling.prepare_max(op, setting)
    context = prepared.context
    assert isinstance(context, pooling.PoolContext)
    keep = f"mve_{context.keep}" if context.keep else ""
    return replace(prepared, context=replace(context, run="mve_loop", inner="", keep=keep))


MAX_POOL = Kernel("arm_mve/max_pool", pooling.PoolContext, frozenset({"mve"}), why_not_max_pool, prepare_max_pool)
