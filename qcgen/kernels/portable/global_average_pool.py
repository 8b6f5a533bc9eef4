"""portable/global_average_pool: the mean of each channel, as a requantized sum of codes or in float32."""

from __future__ import annotations

from qcgen.ir.program import Operator
from qcgen.kernels.kernel import Kernel, Setting
from qcgen.kernels.mean import prepare_mean, why_no_mean


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every global average pooling."""
    return why_no_mean(op)


GLOBAL_AVERAGE_POOL = Kernel(
    "portable/global_average_pool", "kernels/portable/global_average_pool.c.jinja", frozenset(), why_not, prepare_mean
)
