"""arm_mve/max_pool: the largest codes of windows, sixteen channels at a time.

gcc makes the same of portable/max_pool from -O2 on, but not at -Os.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from qcgen.ir.program import MaxPool, Operator
from qcgen.ir.types import DType
from qcgen.kernels import pooling
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.reasons import why_channels_apart
from qcgen.kernels.windows import axes

LANES = 16  # channels in a vector


@dataclass(frozen=True)
class MaxPoolContext(pooling.MaxPoolContext):
    """A max pooling whose windows within the image are computed in vectors."""

    template: ClassVar[str] = "kernels/arm_mve/max_pool.c.jinja"


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves int8 codes whose channels lie side by side and fill vectors."""
    reason = pooling.why_not_max(op, setting) or why_channels_apart(setting.x_layout, setting.y_layout)
    if reason is not None:
        return reason
    assert isinstance(op, MaxPool)
    if op.x.dtype is not DType.INT8:
        return f"it takes {op.x.dtype.value}, not int8"
    if op.geometry.in_channels % LANES != 0:
        return f"{op.geometry.in_channels} channels do not fill vectors of {LANES}"
    if not pooling.is_written_out(axes(op.geometry, setting.x_layout)):
        return "no window lies within the image, or one has too many taps"
    return None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """As portable/max_pool, with other functions."""
    prepared = pooling.prepare_max(op, setting)
    context = prepared.context
    assert isinstance(context, pooling.MaxPoolContext)
    context = MaxPoolContext(**vars(context))
    return replace(prepared, context=context)


MAX_POOL = Kernel("arm_mve/max_pool", MaxPoolContext, frozenset({"mve"}), why_not, prepare)
