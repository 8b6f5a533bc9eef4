"""Why a kernel does not serve a convolution: the reasons that several families give, in the user's words.

Each answers None where it is no reason, so that ``or`` makes a list of them.
"""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, ConvGeometry, FloatActivation, Operator, RoundOnce
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.windows import any_at_border, axes

CHANNELS_APART = "the channels of a pixel do not lie side by side"


def why_not_integer_conv(op: Operator) -> str | None:
    """The operator is not a convolution of 8-bit codes in onnxruntime's arithmetic."""
    if not isinstance(op, Conv):
        return f"{op.op_type} is not a convolution in onnxruntime's arithmetic"
    if op.x.dtype.is_16_bit or op.y.dtype.is_16_bit or isinstance(op.epilogue, RoundOnce):
        return "activations have 16 bits"
    return why_no_conv_of_codes(op)


def why_no_conv_of_codes(op: Operator) -> str | None:
    """The operator is not a convolution of codes of 8 or 16 bits."""
    if not isinstance(op, Conv):
        return f"{op.op_type} is not a convolution in onnxruntime's arithmetic"
    if isinstance(op.epilogue, FloatActivation):
        return "the convolution is in float32"
    return None


def why_no_byte_conv(op: Operator, setting: Setting) -> str | None:
    """It is none, or one whose weights less their zero point do not fit int8."""
    reason = why_not_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_corrected(pack(op, setting, 0))


def why_not_plain(op: Operator, setting: Setting) -> str | None:
    """It is not such a convolution of channels-last images without groups."""
    reason = why_no_byte_conv(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_groups(op.geometry)


def why_no_dense(op: Operator, setting: Setting) -> str | None:
    """It is not such a convolution, or it has more than one window: the whole image, without padding."""
    reason = why_no_byte_conv(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_groups(op.geometry) or why_not_whole_image(op.geometry)


def why_no_pointwise(op: Operator, setting: Setting) -> str | None:
    """It is not such a convolution of channels-last images without groups whose windows are one pixel of the image."""
    reason = why_not_plain(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if prod(g.kernel) > 1:
        return f"a window has {prod(g.kernel)} pixels"
    return "windows leave the image" if any_at_border(axes(g, setting.x_layout)) else None


def why_no_depthwise(op: Operator, setting: Setting) -> str | None:
    """It is not a depthwise convolution of channels-last images of one or two axes."""
    reason = why_not_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_not_depthwise(g) or why_axes(g)


def why_corrected(packed: Packed) -> str | None:
    """The taps of each window would have to be summed as well."""
    return "weights less their zero point need more than eight bits" if packed.is_corrected else None


def why_wraps(packed: Packed) -> str | None:
    """Sums would have to be taken modulo 2^32."""
    return "its sums may leave int32" if packed.wraps else None


def why_channels_apart(*layouts: Layout) -> str | None:
    """An image is channels first."""
    return CHANNELS_APART if Layout.CHANNELS_FIRST in layouts else None


def why_groups(g: ConvGeometry) -> str | None:
    """Not every output channel is computed from every input channel."""
    return f"there are {g.group} groups of channels" if g.group > 1 else None


def why_not_depthwise(g: ConvGeometry) -> str | None:
    """An output channel is not computed from the one input channel with its number."""
    if g.group == g.in_channels == g.out_channels:
        return None
    return f"not depthwise: {g.group} groups, {g.in_channels} input and {g.out_channels} output channels"


def why_not_whole_image(g: ConvGeometry) -> str | None:
    """There is more than one window, or one that has padding or leaves elements of the image out."""
    is_whole = g.kernel == g.input and prod(g.output) == 1 and not g.is_padded and set(g.dilations) == {1}
    return None if is_whole else "a window is not the whole image"


def why_all_outside(g: ConvGeometry) -> str | None:
    """No window has a tap on the image."""
    axes = zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    inside = (
        any(0 <= o * stride - pad + k * dilation < size for o in range(count) for k in range(kernel))
        for size, count, kernel, stride, dilation, pad in axes
    )
    return None if all(inside) else "all windows lie in the padding"


def why_axes(g: ConvGeometry) -> str | None:
    """The image has more axes than a plane."""
    return f"the image has {g.rank} axes" if g.rank > 2 else None


def why_taps(taps: int, most: int) -> str | None:
    """There are too many taps for code without a loop over them."""
    return f"{taps} taps are more than the {most} that are written out" if taps > most else None
