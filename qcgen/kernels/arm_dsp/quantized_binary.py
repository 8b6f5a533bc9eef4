"""arm_dsp/quantized_binary: sums and products of quantized tensors, element beside element, with a saturating step."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Operator, QuantizedBinary
from qcgen.ir.types import DType
from qcgen.kernels.binary import binary_walk, prepare_binary, why_no_binary
from qcgen.kernels.kernel import Kernel, Prepared, Setting


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves operands that neither are broadcast nor lie in another order than the output."""
    reason = why_no_binary(op)
    if reason is not None:
        return reason
    assert isinstance(op, QuantizedBinary)
    walk, _ = binary_walk(op.a, op.b, op.y, setting)
    if walk.outer or not walk.contiguous:
        return "an operand is broadcast or lies in another order"
    return None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The line and its tables, without a walk."""
    assert isinstance(op, QuantizedBinary)
    prepared = prepare_binary(op, setting)
    walk, _ = binary_walk(op.a, op.b, op.y, setting)
    clamps = prepared.context["clamps_low"] or prepared.context["clamps_high"]
    saturate = ("dsp_saturate_u8" if op.y.dtype is DType.UINT8 else "dsp_saturate_s8") if clamps else ""
    context = {name: value for name, value in prepared.context.items() if name != "walk"}
    context |= {"fours": walk.count // 4, "rest": range(walk.count % 4), "saturate": saturate}
    support = (*prepared.support, "dsp", saturate) if clamps else prepared.support
    return replace(prepared, context=context, support=support)


QUANTIZED_BINARY = Kernel(
    "arm_dsp/quantized_binary", "kernels/arm_dsp/quantized_binary.c.jinja", frozenset({"dsp"}), why_not, prepare
)
