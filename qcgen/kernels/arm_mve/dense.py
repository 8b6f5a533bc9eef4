"""arm_mve/dense: convolutions with a single window, the whole image; a matrix times a vector."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.kernels.arm_mve import conv
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.reasons import why_channels_apart, why_no_dense
from qcgen.kernels.text import describe


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_no_dense(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """As the 1x1 convolution of one row: each image of the batch is a pixel."""
    assert isinstance(op, Conv)
    prepared = conv.prepare(_as_row(op), setting)
    context = prepared.context
    assert isinstance(context, conv.ConvContext)
    described = replace(context.conv.conv, description=describe(op))
    return replace(prepared, context=replace(context, conv=replace(context.conv, conv=described)))


def _as_row(op: Conv) -> Conv:
    """The same operator, the elements of an image its channels; weights are in the order of channels-last images."""
    g = op.geometry
    weights = (
        op.weights.reshape(g.out_channels, g.in_channels, -1).transpose(0, 2, 1).reshape(g.out_channels, g.taps, 1)
    )
    one = (1,)
    row = ConvGeometry(1, 1, g.taps, g.out_channels, (g.batch,), one, one, one, (0,), (0,), (g.batch,))
    return replace(op, geometry=row, weights=weights)


DENSE = Kernel("arm_mve/dense", conv.ConvContext, frozenset({"mve"}), why_not, prepare)
