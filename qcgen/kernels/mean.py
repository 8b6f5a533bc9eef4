"""Means of whole images: the sums, where they start, their requantization, and the walk through the pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, Reach
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator, Requantize
from qcgen.kernels.epilogue import prepare_requantize
from qcgen.kernels.kernel import Prepared, Scratch, Setting
from qcgen.kernels.walk import Dimension, Number, Walk, strides, walk


def why_no_mean(op: Operator) -> str | None:
    """The operator is no global average pooling."""
    return None if isinstance(op, GlobalAveragePool) else f"{op.op_type} is no mean of whole images"


def prepare_mean(op: Operator, setting: Setting) -> Prepared:
    """Channels last: all sums at once, in the arena if they are integers. Else one channel after the other."""
    assert isinstance(op, GlobalAveragePool)
    names = names_of(op, setting)
    if op.requantize is None:
        return Prepared((), names | {"is_float": True, "start": 0, "output": None}, (), ("compiler",), Certificate())
    reach = reach_of(op, op.requantize)
    scale = "x_scale / (pixels * y_scale)"
    epilogue = prepare_requantize(op.requantize, op.y.dtype.c, reach, setting.features, scale=scale, is_alone=True)
    prove(op.requantize.scale.size == 1, "all channels have one scale")
    start = epilogue.addend - op.pixels * (op.x.zero_point or 0)
    prove(bool(abs(start).max() + 255 * op.pixels <= INT32_MAX), "no sum of an image that fits a memory overflows")
    context = names | {"is_float": False, "start": int(start[0]), "output": epilogue.output}
    scratch = (Scratch(4 * _channels(op), 4),) if names["channels_last"] else ()
    certificate = replace(epilogue.certificate, numbers={**epilogue.certificate.numbers, "kind": "mean"})
    return Prepared(epilogue.constants, context, scratch, ("compiler", *epilogue.support), certificate)


def reach_of(op: GlobalAveragePool, requantize: Requantize) -> Reach:
    """The interval of the sums of (x - x_zero_point), one for each scale."""
    zero_point = op.x.zero_point or 0
    lo, hi = (
        np.full(requantize.scale.shape, op.pixels * (end - zero_point)) for end in (op.x.dtype.low, op.x.dtype.high)
    )
    return Reach(lo, hi, False)


def _without_y(pixels: Walk) -> Walk:
    """The same loops without the steps of y."""

    def of_x(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
        return tuple(number for number in numbers if not number.name.startswith("Y_"))

    outer = tuple(replace(loop, numbers=of_x(loop.numbers)) for loop in pixels.outer)
    return replace(pixels, outer=outer, numbers=of_x(pixels.numbers))


def _channels(op: GlobalAveragePool) -> int:
    return op.x.shape[op.channel_axis]


def names_of(op: GlobalAveragePool, setting: Setting) -> dict[str, object]:
    """What templates need to know of the image and of where means go."""
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    averaged = [axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis]
    # Pixels are walked through in the order of x's memory; nothing is written there.
    pixels = _without_y(
        walk([Dimension(op.x.shape[axis], {"x": x[axis], "y": x[axis]}) for axis in averaged], ("x", "y"), {}, depth=2)
    )
    y_channel_axis = op.channel_axis if len(op.y.shape) == len(op.x.shape) else 1
    channels = _channels(op)
    return {
        "channels_last": channels > 1 and x[op.channel_axis] == 1 and not pixels.outer,
        "pixels_walk": pixels,
        "types": {"x": op.x.dtype.c, "y": op.y.dtype.c},
        "batch": op.x.shape[0],
        "channels": channels,
        "pixels": op.pixels,
        "x_image": x[0],
        "x_channel": x[op.channel_axis],
        "y_image": y[0],
        "y_channel": y[y_channel_axis],
    }
