"""arm_dsp/quantized_binary: sums and products of quantized tensors, element beside element, with a saturating step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Operator, QuantizedBinary
from qcgen.ir.types import DType
from qcgen.kernels.binary import PairFunction, binary_nest, prepare_binary, why_no_binary
from qcgen.kernels.kernel import Kernel, Prepared, Setting


@dataclass(frozen=True)
class QuantizedBinaryContext(Context):
    """A sum or product of codes, four elements in a round of the loop."""

    template: ClassVar[str] = "kernels/arm_dsp/quantized_binary.c.jinja"

    function: PairFunction
    fours: int  # rounds of the loop
    rest: range  # elements behind it
    saturate: str  # the primitive that clamps to the type of y, "" if no sum leaves it, or bounds are tighter


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves operands that neither are broadcast nor lie in another order than the output."""
    reason = why_no_binary(op)
    if reason is not None:
        return reason
    assert isinstance(op, QuantizedBinary)
    nest, _ = binary_nest(op.a, op.b, op.y, setting)
    if nest.outer or not nest.contiguous:
        return "an operand is broadcast or lies in another order"
    return None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The line and its tables, without a nest."""
    assert isinstance(op, QuantizedBinary)
    found = prepare_binary(op, setting)
    is_of_type = op.bounds == (op.y.dtype.low, op.y.dtype.high)  # the primitive knows no other bounds
    clamps = is_of_type and (found.function.clamps_low or found.function.clamps_high)
    saturate = ("dsp_saturate_u8" if op.y.dtype is DType.UINT8 else "dsp_saturate_s8") if clamps else ""
    count = found.nest.count
    context = QuantizedBinaryContext(found.function, fours=count // 4, rest=range(count % 4), saturate=saturate)
    return Prepared(found.constants, context, (), found.certificate, found.in_place)


QUANTIZED_BINARY = Kernel("arm_dsp/quantized_binary", QuantizedBinaryContext, frozenset({"dsp"}), why_not, prepare)
