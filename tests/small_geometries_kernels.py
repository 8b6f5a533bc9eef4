"""How layers of every small geometry get to each kernel that has windows."""

from __future__ import annotations

from functools import cache
from math import prod

from small_geometries import Subject, Way
from window_layers import (
    Maker,
    Plane,
    average_pool,
    conv,
    conv_float,
    conv_integer,
    conv_orion,
    conv_transpose,
    max_pool,
)
from windows import Axis

from qcgen.kernels import TRANSFORMING_MORE

M0, M3, M4, M33, M55, RV32 = "cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55", "rv32imc"


def depthwise(channels: int, x_type: str = "uint8", w_type: str = "int8", batch: int = 1) -> Maker:
    """QLinearConv of channels that are groups."""
    return conv(channels, channels, channels, x_type, w_type, batch)


def is_whole(axis: Axis) -> bool:
    """The window is the image."""
    return axis.kernel == axis.size and axis.dilation == 1 and axis.begin + axis.end == 0


def is_image(axis: Axis) -> bool:
    """The same but for the dilation, which the means of codes do not have."""
    return axis.kernel == axis.size and axis.begin + axis.end == 0


def is_inside(axis: Axis) -> bool:
    """No window leaves the image."""
    return axis.places.min() >= 0 and axis.places.max() < axis.size


@cache
def has_image(axis: Axis) -> bool:
    """Some tap of some window lies on the image."""
    return bool(((axis.places >= 0) & (axis.places < axis.size)).any())


def is_pooled(axis: Axis) -> bool:
    """The padding is what onnxruntime accepts of poolings."""
    return max(axis.begin, axis.end) < axis.kernel


def is_transposed(axis: Axis) -> bool:
    """A ConvTranspose has outputs, and its pads cut away no more than the parts that few taps reach."""
    outputs = axis.stride * (axis.size - 1) + axis.span - axis.begin - axis.end
    return outputs > 0 and axis.begin // axis.stride < (axis.span - 1 + axis.stride) // axis.stride


def pixels(plane: Plane) -> int:
    """Windows of an image."""
    return prod(axis.outputs for axis in plane)


def is_short(plane: Plane) -> bool:
    """What arm_dsp/short_window serves of two channels."""
    *rows, row = plane
    return all(axis.kernel == 1 for axis in rows) and (row.kernel == 1 or row.dilation == 1) and pixels(plane) > 1


def is_tiled(plane: Plane) -> bool:
    """What tiles of 2x2 serve, two at a time."""
    return all(axis.outputs >= least * axis.dilation for axis, least in zip(plane, (2, 4), strict=True))


def is_read_directly(plane: Plane) -> bool:
    """What arm_dsp/depthwise_direct serves: at most one column of a window lies beside the image, and two rows of
    windows reach above it or below; the same of each of the images that windows of a dilated kernel see.
    """
    *rows, column = plane
    apart = {axis.dilation for axis in plane if axis.kernel > 1}
    if len(apart) > 1 or (apart - {1} and any(axis.stride > 1 for axis in plane)):
        return False
    return has_columns(column) and all(map(has_few_cut_rows, rows))


@cache
def has_columns(axis: Axis) -> bool:
    """Whether at most one column of each window lies beside the image, or its part of it, and there are enough."""
    beside = max(-axis.places.min(), axis.places.max() + 1 - axis.size)
    if axis.kernel == 1:
        return bool(beside <= 0)
    is_wide = axis.size // axis.dilation + axis.begin // axis.dilation >= axis.kernel and axis.outputs >= axis.dilation
    is_near = bool(beside <= axis.dilation) and axis.begin % axis.dilation == 0
    return axis.kernel <= 3 and axis.stride <= 2 and is_near and (axis.stride > 1 or is_wide)


@cache
def has_few_cut_rows(axis: Axis) -> bool:
    """Whether every window has a row on the image, and two of an image begin above it at most and two end below."""
    is_seen = ((axis.places >= 0) & (axis.places < axis.size)).any(axis=0).all()
    cut = max((axis.places[0] < 0).sum(), (axis.places[-1] >= axis.size).sum())
    is_high = axis.dilation == 1 or axis.size >= (axis.kernel - 1) * axis.dilation
    has_begin = -(-axis.begin // axis.stride) <= axis.outputs
    return bool(axis.kernel <= 5 and is_seen and cut <= 2 * axis.dilation and has_begin and is_high)


PORTABLE = (
    Subject(
        "portable/conv",
        (
            Way(conv(3, 4)),
            Way(conv(4, 6, 2, "int8", "uint8"), optimize="size", layout="nchw"),
            Way(conv_integer(5, 3), "cortex-m3", "size"),
            Way(conv(2, 5, batch=2), layout="nchw"),
        ),
    ),
    Subject(
        "portable/pointwise",
        (
            Way(conv(3, 4)),
            Way(conv(4, 6, 2, "int8", "uint8"), optimize="size"),
            Way(conv_integer(5, 3), "cortex-m3", "size"),
            Way(conv(5, 2, batch=2)),
        ),
        takes=lambda axis: axis.kernel == 1 and axis.begin + axis.end == 0,
    ),
    Subject(
        "portable/pointwise",
        (Way(conv(3, 4), layout="nchw"), Way(conv_integer(4, 6, 2), optimize="size", layout="nchw")),
        takes=lambda axis: axis.kernel == axis.stride == 1 and axis.begin + axis.end == 0,
    ),
    Subject(
        "portable/depthwise_nhwc",
        (Way(depthwise(3)), Way(depthwise(5, "int8", "uint8"), M3, "size"), Way(depthwise(2, batch=2))),
    ),
    Subject(
        "portable/depthwise_nchw",
        (
            Way(depthwise(3), layout="nchw"),
            Way(depthwise(2, "int8", "uint8"), M3, "size", "nchw"),
            Way(depthwise(2, batch=2), M3, layout="nchw"),
        ),
        serves=lambda plane: prod(axis.size for axis in plane) > 1,  # of one pixel they are the same
    ),
    Subject(
        "portable/conv_float",
        (Way(conv_float(3, 4)), Way(conv_float(2, 4, 2), layout="nchw"), Way(conv_float(3, 3, 3), M3, "size")),
    ),
    Subject(
        "portable/orion_conv",
        (
            Way(conv_orion(3, 2), numerics="orion-fp16x16"),
            Way(conv_orion(2, 4, 2), optimize="size", layout="nchw", numerics="orion-fp16x16"),
        ),
    ),
    Subject(
        "portable/max_pool",
        (
            Way(max_pool(3)),
            Way(max_pool(2, "int8", ceil=True), M3, layout="nchw"),
            Way(max_pool(3, "float", batch=2), layout="nchw"),
            Way(max_pool(5, "float", ceil=True), M3, "size"),
        ),
        takes=is_pooled,
    ),
    Subject(
        "portable/average_pool",
        (
            Way(average_pool(3)),
            Way(average_pool(2, "int8", ceil=True), M3, layout="nchw"),
            Way(average_pool(3, "int8", counts=True), layout="nchw"),
            Way(average_pool(3, "float", ceil=True), layout="nchw"),
            Way(average_pool(5, counts=True), M3, "size"),
        ),
        takes=is_pooled,
        serves=lambda plane: not all(map(is_image, plane)),
    ),
    Subject(
        "portable/global_average_pool",
        (Way(average_pool(3)), Way(average_pool(2, "int8"), M3, layout="nchw"), Way(average_pool(5), M3, "size")),
        takes=is_whole,
    ),
)

TRANSPOSED = Subject(
    "portable/conv_float",
    (Way(conv_transpose(3, 2)), Way(conv_transpose(2, 4, 2), M4), Way(conv_transpose(3, 3, 3), layout="nchw")),
    takes=is_transposed,
)

SCALAR = (
    Subject(
        "scalar/depthwise",
        (Way(depthwise(3), M0), Way(depthwise(5, "int8", "uint8"), M3, "size"), Way(depthwise(2), RV32)),
        least=0.98,  # of the others no tap meets the image
    ),
    Subject(
        "scalar/depthwise",
        (Way(depthwise(3), M0), Way(depthwise(5, "int8", "uint8"), M3, "size"), Way(depthwise(2, batch=2), RV32)),
        patches={"qcgen.kernels.scalar.depthwise.PLANE_BYTES": 8},  # bands of one row of outputs
        least=0.98,
    ),
    Subject(
        "scalar/conv",
        (
            Way(conv(3, 5), M0),
            Way(conv(5, 3, x_type="int8"), M3, "size"),
            Way(conv_integer(2, 4), RV32),
            Way(conv(1, 2, batch=2), "scalar32"),
        ),
    ),
    Subject(
        "scalar/conv",  # sums of few products, or of one, fill half a word
        (Way(conv(5, 3, low=-128), M0), Way(conv(26, 3, low=-127), M0), Way(conv(4, 5, low=-127), RV32)),
    ),
    Subject(
        "scalar/dense",
        (Way(conv(3, 5), M0), Way(conv(5, 3, x_type="int8"), M3, "size"), Way(conv_integer(2, 4), RV32)),
        takes=is_whole,
    ),
    Subject(
        "scalar/dense",
        (Way(conv(3, 5, low=-128), M0), Way(conv(5, 3, low=-128), M3, "size"), Way(conv(3, 4, low=-127), RV32)),
        takes=is_whole,
    ),
    Subject(
        "scalar/winograd",
        (Way(conv(8, 5), M0), Way(conv(5, 3, x_type="int8"), M3), Way(conv_integer(2, 4), RV32)),
        takes=lambda axis: axis.kernel == 3 and axis.stride == 1,
        serves=is_tiled,
        patches={
            "qcgen.kernels.scalar.winograd.MOST_COMPUTED": 99,
            "qcgen.kernels.scalar.winograd.MOST_COMPUTED_THUMB1": 99,
            "qcgen.kernels.scalar.winograd.FEWEST_CHANNELS_THUMB1": 1,
        },
        has_lines=False,
        rounds=4,
    ),
)

ARM_DSP = (
    Subject(
        "arm_dsp/depthwise",
        (Way(depthwise(5), M4), Way(depthwise(4, x_type="int8"), M33)),
        serves=lambda plane: pixels(plane) > 1,
        patches={"qcgen.kernels.arm_dsp.depthwise_direct.why_not": lambda *_: "not here"},
    ),
    Subject(
        "arm_dsp/depthwise_direct",
        (Way(depthwise(5), M4), Way(depthwise(3, x_type="int8"), M33, "size")),
        takes=lambda axis: has_image(axis) and (has_columns(axis) or has_few_cut_rows(axis)),
        serves=lambda plane: pixels(plane) > 1 and is_read_directly(plane),
        least=0.9,  # others would read behind a row
    ),
    Subject(
        "arm_dsp/depthwise_rows",
        (Way(depthwise(5), M4), Way(depthwise(3, x_type="int8"), M33, "size")),
        serves=lambda plane: all(map(has_image, plane)),
    ),
    Subject(
        "arm_dsp/dense",
        (Way(conv(3, 5), M4), Way(conv(5, 3, x_type="int8"), M33, "size"), Way(conv(5, 3), M4, "size", "nchw")),
        takes=is_whole,
    ),
    Subject(
        "arm_dsp/short_window",
        (Way(conv(2, 5), M4), Way(conv(2, 3, x_type="int8"), M33, "size")),
        takes=is_inside,
        serves=is_short,
        least=0.9,  # others need another output step
    ),
    Subject(
        "arm_dsp/pointwise",
        (Way(conv(3, 5), M4, "size"), Way(conv(5, 3, x_type="int8"), M33, "size")),
        takes=lambda axis: axis.kernel == 1 and is_inside(axis),
    ),
    Subject(
        "arm_dsp/winograd",
        (Way(conv(3, 5), M4), Way(conv(4, 4, x_type="int8"), M33)),
        takes=lambda axis: axis.stride == 1,
        least=0.2,  # many images have no two tiles
        rounds=2,
        patches={"qcgen.kernels.arm_dsp.winograd._direct_cost": lambda *_: float("inf")},
    ),
    Subject(
        "arm_dsp/winograd_in_ram",
        (Way(conv(3, 5), M4), Way(conv(4, 4, x_type="int8"), M33)),
        takes=lambda axis: axis.stride == 1,
        least=0.2,
        rounds=2,
        patches={
            "qcgen.kernels.arm_dsp.winograd._direct_cost": lambda *_: float("inf"),
            "qcgen.plan.SPEED": TRANSFORMING_MORE,
        },
    ),
    Subject(
        "arm_dsp/conv",
        (
            Way(conv(3, 5), M4),
            Way(conv(4, 3, x_type="int8"), M33, "size"),
            Way(conv(3, 3), M4, "speed", "nchw"),
            Way(conv_integer(5, 3), M33),
        ),
        least=0.9,  # others leave too many elements over
    ),
    Subject(
        "arm_dsp/global_average_pool",
        (Way(average_pool(8), M4), Way(average_pool(5, "int8"), M33, "size")),
        takes=is_whole,
    ),
)

OTHERS = (
    Subject(
        "arm_mve/depthwise",
        (Way(depthwise(5), M55), Way(depthwise(3, x_type="int8"), M55, "size"), Way(depthwise(1), M55)),
    ),
    Subject(
        "arm_mve/conv",
        (Way(conv(3, 5), M55), Way(conv(5, 3, x_type="int8"), M55, "size"), Way(conv_integer(4, 4), M55)),
    ),
    Subject(
        "arm_mve/max_pool",
        (Way(max_pool(16, "int8"), M55), Way(max_pool(32, "int8", ceil=True), M55, "size")),
        takes=is_pooled,
        least=0.5,  # others leave no window within the image
    ),
    Subject("arm_mve/dense", (Way(conv(3, 5), M55), Way(conv(5, 3, x_type="int8"), M55, "size")), takes=is_whole),
    Subject(
        "host/conv",
        (
            Way(conv(3, 5), "host"),
            Way(depthwise(5, "int8", "uint8"), "host", "size"),
            Way(conv(4, 4, 2), "host", layout="nchw"),
        ),
    ),
    TRANSPOSED,
)

SUBJECTS = (*PORTABLE, *SCALAR, *ARM_DSP, *OTHERS)
