"""portable/quantized_binary: sums and products of quantized tensors, as integer lines proved for all pairs."""

from __future__ import annotations

from qcgen.ir.program import Operator
from qcgen.kernels.binary import prepare_binary, why_no_binary
from qcgen.kernels.kernel import Kernel, Setting


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every sum and product of quantized tensors."""
    return why_no_binary(op)


QUANTIZED_BINARY = Kernel(
    "portable/quantized_binary", "kernels/portable/quantized_binary.c.jinja", frozenset(), why_not, prepare_binary
)
