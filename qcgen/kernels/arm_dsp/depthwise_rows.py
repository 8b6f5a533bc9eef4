"""arm_dsp/depthwise_rows: one filter per channel, one row of the kernel after the other, on the image where it lies."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import channel_by_channel, parts_of_rows, plane
from qcgen.kernels.arm_dsp.depthwise_direct import DepthwiseDirectContext, context_of, unpaired
from qcgen.kernels.arm_dsp.output import bias_table, certified, dsp_output, kept_output
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.windows import PlaneAxis, plane_axes

OUTPUTS = 4  # of a row that are summed at the same time
MAX_OUTPUTS = 6  # or so many if they are the whole row
MAX_TAPS = 64
OVERHEAD, GROUP, OUTPUT, GUARDED = 20, 12, 10, 5  # operations of all, of outputs together, of one, and of its tie


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_all_outside(op.geometry) or why_wraps(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    g, packed = op.geometry, _pack(op, setting)
    (height, width), weights = plane_axes(g), unpaired(packed)
    dsp, together = dsp_output(op, packed), width.output if width.output <= MAX_OUTPUTS else OUTPUTS
    context = context_of(
        op,
        weights,
        kept_output(packed.epilogue.output, dsp),
        "",
        row_dilation=height.dilation,
        column_dilation=width.dilation,
        scale=1,
    )
    constants = (weights, bias_table(packed), *output_constants(packed))
    access = channel_by_channel(op, setting, parts_of_rows(plane(g), together), gathers=True)
    count = _operations(width, together, OUTPUT + (GUARDED if dsp.has_windows else 0))
    return Prepared(
        constants, context, (), certified(op, packed), access=access, folded={"dsp_depthwise_by_rows": count}
    )


def _operations(width: PlaneAxis, together: int, output: int) -> float:
    """What the library's function becomes: outputs that are summed at the same time once if their windows are alike."""
    written = set[tuple[int, int, int]]()
    for first in range(0, width.output, together):
        outputs, begin = min(together, width.output - first), first * width.stride - width.pad
        end = begin + (outputs - 1) * width.stride + width.span
        written.add((outputs, max(-begin, 0), max(end - width.input, 0)))
    return OVERHEAD + sum(GROUP + outputs * (output + width.kernel) for outputs, _, _ in written)


DEPTHWISE_ROWS = Kernel("arm_dsp/depthwise_rows", DepthwiseDirectContext, frozenset({"dsp"}), why_not, prepare)
