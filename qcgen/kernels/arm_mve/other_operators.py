"""arm_mve/matmul and arm_mve/max_pool: products of two computed matrices, and the largest codes of windows.

Both take sixteen bytes in an instruction. gcc makes the same of portable/max_pool from -O2 on, but not at -Os.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import MatMul, MaxPool, Operator
from qcgen.ir.types import DType
from qcgen.kernels import pooling
from qcgen.kernels.arm_mve.output import BYTES, LANES, steps_of
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.products import Operands, codes_of, matrices_of, prepare_sums, why_no_packed_product
from qcgen.kernels.reasons import why_channels_apart
from qcgen.kernels.windows import axes

PRODUCT_OPERATIONS = 73.0  # of a product of matrices, without its sums


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices: four columns of b at a time are packed, rows of a meet them two at a time.

    VMLADAV multiplies int8: 128 is taken from codes of uint8, and from their zero points.
    """

    template: ClassVar[str] = "kernels/arm_mve/matmul.c.jinja"

    operands: Operands
    y_column: int  # from one column of y to the next
    types: Mapping[str, str]  # of C, by "a", "b" and "y"
    sizes: Struct
    sums_over: str  # the primitive that sums over one row or two
    copies: bool  # rows of a are copied, to have int8 and sixteen bytes for each vector
    copy: str  # the primitive that does it
    is_vector: bool  # four codes are requantized and stored at a time
    saturate: str  # the primitive that does the last of it
    output: Output


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
    sums, steps = prepare_sums(op, setting), steps_of(op.terms)
    (matrices, tables), codes = matrices_of(op, setting), codes_of(op)
    row_bytes = steps.steps * BYTES
    copies = row_bytes > op.terms or op.a.dtype is DType.UINT8
    output = sums.output
    is_vector = (
        output.kind == "multiply-high"
        and not output.is_guarded
        and (output.low, output.high) == (op.y.dtype.low, op.y.dtype.high)
        and matrices.y_column == 1
    )
    places = ("rows", "columns", "terms", "a_row", "b_term", "b_column", "y_row", "y_column")
    numbers = {name: getattr(matrices, name) for name in places} | {
        "steps": steps.steps,
        "copies": steps.copies,
        "y_bytes": op.y.dtype.bytes,
        "a_is_unsigned": int(op.a.dtype is DType.UINT8),
        "a_zero_point": codes.a_zero_point,
        "b_is_unsigned": int(op.b.dtype is DType.UINT8),
        "b_zero_point": codes.b_zero_point,
        "start": sums.start,
    }
    context = MatMulContext(
        operands=matrices.operands,
        y_column=matrices.y_column,
        types=codes.types,
        sizes=Struct("mve_product", (), numbers),
        sums_over="mve_sums_two" if matrices.rows > 1 else "mve_sums_one",
        copies=copies,
        copy="mve_copy_u8" if op.a.dtype is DType.UINT8 else "mve_copy_s8",
        is_vector=is_vector,
        saturate="mve_saturate_u8" if op.y.dtype is DType.UINT8 else "mve_saturate_s8",
        output=output,
    )
    size = 4 * (steps.words + matrices.rows) + (min(matrices.rows, 2) * row_bytes if copies else 0)
    constants = (*tables, *sums.epilogue.constants)
    folded = {"mve_product_of": PRODUCT_OPERATIONS + steps.operations[context.sums_over]}
    return Prepared(constants, context, (Scratch(size, 4),), sums.certificate, folded=folded)


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
