"""portable/quantized_binary: sums and products of quantized tensors, as integer lines proved for all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Operator, QuantizedBinary
from qcgen.kernels.binary import PairFunction, prepare_binary, why_no_binary
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class QuantizedBinaryContext(Context):
    """A sum or product of codes."""

    template: ClassVar[str] = "kernels/portable/quantized_binary.c.jinja"

    function: PairFunction
    nest: LoopNest  # the loops over the elements of y


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every sum and product of quantized tensors."""
    return why_no_binary(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    found = prepare_binary(op, setting)
    context = QuantizedBinaryContext(found.function, found.nest)
    return Prepared(found.constants, context, (), found.certificate, found.in_place)


QUANTIZED_BINARY = Kernel("portable/quantized_binary", QuantizedBinaryContext, frozenset(), why_not, prepare)
