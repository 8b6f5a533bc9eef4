"""portable/float_layer_norm, float_instance_norm: of float32 numbers, with onnxruntime's operations in their order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.arithmetic import LANES
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import InstanceNorm, LayerNorm, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import pixel_stride, strides
from qcgen.kernels.portable.rows import Rows, in_place, rows_of


@dataclass(frozen=True)
class FloatLayerNormContext(Context):
    """The normalization of rows of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_layer_norm.c.jinja"

    rows: Rows
    is_one_by_one: bool  # no lanes
    whole: int  # elements of a row that are squared and summed in lanes
    rounded: int  # elements of a row before the last ones, whose squares are rounded before they are added
    epsilon: float  # added to the variance
    has_bias: bool  # something is added to each element


@dataclass(frozen=True)
class FloatInstanceNormContext(Context):
    """The normalization of channels of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_instance_norm.c.jinja"

    batch: int  # images
    channels: int  # of an image
    pixels: int  # of a channel
    x_image: int  # from one image of x to the next, in elements
    x_channel: int  # from one channel of x to the next
    x_pixel: int  # from one pixel of a channel of x to the next
    y_image: int  # from one image of y to the next
    y_channel: int  # from one channel of y to the next
    y_pixel: int  # from one pixel of a channel of y to the next
    epsilon: float  # added to the variance


def why_not_rows(op: Operator, _setting: Setting) -> str | None:
    """Serves every layer normalization of float32 numbers."""
    return None if isinstance(op, LayerNorm) and op.x.dtype.is_float else f"{op.op_type} normalizes no float32 rows"


def why_not_channels(op: Operator, _setting: Setting) -> str | None:
    """Serves every instance normalization of float32 numbers."""
    if isinstance(op, InstanceNorm) and op.x.dtype.is_float:
        return None
    return f"{op.op_type} normalizes no float32 channels"


def prepare_rows(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, an element for each of a row."""
    assert isinstance(op, LayerNorm)
    length = op.x.shape[-1]
    whole = length - length % LANES
    context = FloatLayerNormContext(
        rows=rows_of(op.x, op.y, setting.xs[0], setting.y),
        is_one_by_one=op.is_one_by_one or length < LANES,
        whole=whole,
        rounded=whole + (length - whole) // 4 * 4,
        epsilon=op.epsilon,
        has_bias=op.bias is not None,
    )
    constants = [Constants("scale", "float", op.scale, "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "float", op.bias, "what is added to each element of a row."))
    return Prepared(tuple(constants), context, (), Certificate(), in_place(op.x, setting))


def prepare_channels(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, a number for each channel."""
    assert isinstance(op, InstanceNorm)
    channel_axis = len(op.x.shape) - 1 if op.x.layout is Layout.CHANNELS_LAST else 1
    spatial = [axis for axis in range(1, len(op.x.shape)) if axis != channel_axis]
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    context = FloatInstanceNormContext(
        batch=op.x.shape[0],
        channels=op.x.shape[channel_axis],
        pixels=prod(op.x.shape[axis] for axis in spatial),
        x_image=x[0],
        x_channel=x[channel_axis],
        x_pixel=pixel_stride(op.x.shape, setting.xs[0], spatial),
        y_image=y[0],
        y_channel=y[channel_axis],
        y_pixel=pixel_stride(op.y.shape, setting.y, spatial),
        epsilon=op.epsilon,
    )
    constants = (
        Constants("scale", "float", op.scale, "what each channel is multiplied by."),
        Constants("bias", "float", op.bias, "what is added to each channel."),
    )
    return Prepared(constants, context, (), Certificate(), (0,) if x == y else ())


FLOAT_LAYER_NORM = Kernel("portable/float_layer_norm", FloatLayerNormContext, frozenset(), why_not_rows, prepare_rows)
FLOAT_INSTANCE_NORM = Kernel(
    "portable/float_instance_norm", FloatInstanceNormContext, frozenset(), why_not_channels, prepare_channels
)
