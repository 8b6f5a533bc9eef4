"""Random operators for each kernel, to measure what its instructions are and to check what was predicted.

The same seed gives the same operators. They are small, so that many fit one image and run in a second, and diverse:
sizes, strides, padding, dilation, types and output steps vary independently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    ConvGeometry,
    Dequantize,
    GlobalAveragePool,
    Lookup,
    MaxPool,
    Operator,
    Pad,
    Quantize,
    QuantizedBinary,
    RawAccumulator,
    Requantize,
    Resize,
    Slice,
    Softmax,
    Tensor,
    Transpose,
)
from qcgen.ir.types import DType, Layout

Random = np.random.Generator
MOST_MACS = 150_000
NHWC, NCHW = Layout.CHANNELS_LAST, Layout.CHANNELS_FIRST


def operators(kernel: str, seed: int, count: int) -> list[Operator]:
    """``count`` operators that the kernel is meant for; it may refuse some. Tensors are called after the operator."""
    family = FAMILIES[kernel]
    return [family(np.random.default_rng([seed, index]), f"n{seed}_{index}") for index in range(count)]


def tensor(name: str, rng: Random, shape: Sequence[int], dtype: DType, layout: Layout | None = None) -> Tensor:
    """A quantized tensor with a random scale."""
    scale = float(np.float32(rng.uniform(0.01, 0.05)))
    return Tensor(name, dtype, tuple(shape), layout, scale, int(rng.integers(dtype.low + 60, dtype.high - 60)))


def image(name: str, rng: Random, g: ConvGeometry, channels: int, sizes: Sequence[int], dtype: DType, layout: Layout):
    """An image of a geometry in a layout."""
    shape = (g.batch, *sizes, channels) if layout is NHWC else (g.batch, channels, *sizes)
    return tensor(name, rng, shape, dtype, layout)


def code_type(rng: Random) -> DType:
    """Mostly int8."""
    return DType.INT8 if rng.random() < 0.7 else DType.UINT8


def pick(rng: Random, *choices: int) -> int:
    """One of the choices."""
    return int(rng.choice(choices))


def geometry(
    rng: Random,
    *,
    channels: tuple[int, int],
    group: int = 1,
    kernels: Sequence[int],
    sizes: Sequence[int],
    ranks: Sequence[int] = (2, 2, 2, 1),
    most: int = MOST_MACS,
    strides: Sequence[int] = (1, 1, 1, 2),
    dilations: Sequence[int] = (1, 1, 1, 1, 2),
    padded: float = 0.6,
) -> ConvGeometry:
    """Random axes of an image that is large enough for the window, cut down until ``most`` products remain."""
    rank, has_pads = pick(rng, *ranks), rng.random() < padded
    axes = []
    for _ in range(rank):
        k, s = pick(rng, *kernels), pick(rng, *strides)
        d = pick(rng, *dilations) if k > 1 else 1
        span = (k - 1) * d + 1
        size = max(pick(rng, *sizes), span)
        before, after = ((span - 1) // 2, span // 2) if has_pads else (0, 0)
        axes.append([size, k, s, d, before, after, (size + before + after - span) // s + 1])
    batch = 2 if rng.random() < 0.1 else 1
    while True:
        size, kernel, stride, dilation, begin, end, out = (tuple(axis[i] for axis in axes) for i in range(7))
        g = ConvGeometry(batch, group, *channels, size, kernel, stride, dilation, begin, end, out)
        if g.macs <= most or all(axis[6] <= 2 for axis in axes):
            return g
        axis = max(axes, key=lambda axis: axis[6])
        axis[0] -= axis[2]
        axis[6] -= 1


def conv(
    rng: Random, name: str, g: ConvGeometry, layout: Layout, plain: bool = False, y_layout: Layout | None = None
) -> Conv:
    """A convolution whose outputs use their whole range; scales per channel mostly, some with ties, some raw.

    ``layout`` is the input's, and the output's as well unless ``y_layout`` is given.
    """
    x_type = code_type(rng)
    kind = "channel" if plain else rng.choice(["channel", "channel", "channel", "tensor", "tie", "raw", "relu"])
    lowest = -128 if rng.random() < 0.15 else -127
    weights = rng.integers(lowest, 128, (g.out_channels, g.group_in, *g.kernel)).astype(np.int8)
    if lowest == -128:
        weights.reshape(-1)[0] = -128
    scale = 40 / (74 * 74 * g.taps**0.5) * rng.uniform(0.5, 1, g.out_channels)
    if kind == "tensor":
        scale[:] = scale[0]
    if kind == "tie":
        scale = 2.0 ** np.round(np.log2(scale))
    y_type = DType.INT32 if kind == "raw" else code_type(rng)
    x = image(f"{name}_x", rng, g, g.in_channels, g.input, x_type, layout)
    y = image(f"{name}_y", rng, g, g.out_channels, g.output, y_type, y_layout or layout)
    epilogue = RawAccumulator()
    if kind != "raw":
        low = y.zero_point if kind == "relu" else y_type.low
        epilogue = Requantize(scale.astype(np.float32), y.zero_point, low, y_type.high)
    spread = 3000 * g.taps**0.5
    bias = rng.integers(-spread, spread + 1, g.out_channels).astype(np.int32)
    zero = np.zeros(g.out_channels, np.int32)
    return Conv(name, "QLinearConv", x, y, g, x.zero_point, weights, zero, bias, epilogue)


def channels(rng: Random, most: int = 64) -> int:
    """A number of channels, usual ones more often."""
    usual = [n for n in (1, 3, 4, 8, 16, 24, 32, 48, 64) if n <= most]
    return pick(rng, *usual) if rng.random() < 0.6 else int(rng.integers(1, min(most, 40) + 1))


def any_conv(layout: Layout, plain: bool = False) -> Callable[[Random, str], Operator]:
    """Convolutions of any kernel; some with groups where the layout's kernels take them."""

    def make(rng: Random, name: str) -> Operator:
        both = channels(rng), channels(rng)
        group = 1
        if not plain and rng.random() < 0.15:
            group = pick(rng, 2, 4)
            both = group * pick(rng, 1, 3, 8), group * pick(rng, 1, 4, 6)
        g = geometry(rng, channels=both, group=group, kernels=(1, 2, 3, 3, 3, 5, 7), sizes=(4, 6, 9, 12, 16))
        return conv(rng, name, g, layout)

    return make


def mixed_layouts(rng: Random, name: str) -> Operator:
    """Convolutions that read or write channels first, or both."""
    both = pick(rng, 1, 2, 3, 4), channels(rng)
    g = geometry(rng, channels=both, kernels=(1, 2, 3, 3, 5), sizes=(4, 6, 9, 12, 16))
    x_layout, y_layout = ((NCHW, NHWC), (NHWC, NCHW), (NCHW, NCHW))[pick(rng, 0, 1, 2)]
    return conv(rng, name, g, x_layout, plain=True, y_layout=y_layout)


def tiled(rng: Random, name: str) -> Operator:
    """What can be computed in tiles: kernels of 2 to 5 taps along an axis, stride 1; some inputs channels first."""
    both = pick(rng, 3, 8, 12, 16, 24, 32, 48, 13), pick(rng, 8, 12, 16, 24, 32, 48, 10, 7)
    kernels, sizes = (1, 2, 3, 3, 3, 3, 4, 5), (6, 8, 9, 12, 16, 21)
    g = geometry(rng, channels=both, kernels=kernels, sizes=sizes, strides=(1,), most=600_000)
    return conv(rng, name, g, NCHW if rng.random() < 0.15 else NHWC, y_layout=NHWC)


def one_by_one(layout: Layout) -> Callable[[Random, str], Operator]:
    """Pointwise convolutions; strides only with channels last."""

    def make(rng: Random, name: str) -> Operator:
        strides = (1, 1, 1, 2) if layout is NHWC else (1,)
        both = channels(rng), channels(rng)
        g = geometry(rng, channels=both, kernels=(1,), sizes=(1, 2, 4, 6, 9, 12), strides=strides, padded=0)
        return conv(rng, name, g, layout)

    return make


def short_windows(rng: Random, name: str) -> Operator:
    """Windows of up to eight elements side by side, scales without ties for the most part."""
    if rng.random() < 0.7:
        kernels, ranks, both = (1,), (2, 2, 1), (pick(rng, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8), channels(rng))
    else:
        kernels, ranks, both = (2, 3, 4), (1,), (pick(rng, 1, 2), channels(rng))
    g = geometry(
        rng,
        channels=both,
        kernels=kernels,
        sizes=(4, 6, 9, 12, 25),
        ranks=ranks,
        strides=(1, 1, 2),
        dilations=(1,),
        padded=0,
    )
    return conv(rng, name, g, NHWC, plain=rng.random() < 0.7)


def dense(rng: Random, name: str) -> Operator:
    """One window that is the whole image."""
    batch = pick(rng, 1, 1, 1, 3)
    taps, outputs = pick(rng, 3, 10, 32, 64, 100, 250, 301, 640), pick(rng, 1, 2, 8, 10, 12, 31, 64)
    g = ConvGeometry(batch, 1, taps, outputs, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1))
    return conv(rng, name, g, NHWC)


def depthwise(
    layout: Layout, kernels: Sequence[int] = (1, 2, 3, 3, 3, 3, 4, 5, 7)
) -> Callable[[Random, str], Operator]:
    """One filter for each channel."""

    def make(rng: Random, name: str) -> Operator:
        n = pick(rng, 4, 8, 16, 24, 32, 64) if rng.random() < 0.7 else int(rng.integers(4, 40))
        sizes = (4, 5, 8, 12, 16, 25)
        g = geometry(rng, channels=(n, n), group=n, kernels=kernels, sizes=sizes, most=60_000)
        return conv(rng, name, g, layout)

    return make


def pool(kind: type, layout: Layout) -> Callable[[Random, str], Operator]:
    """Windows of images."""

    def make(rng: Random, name: str) -> Operator:
        n = channels(rng, 32)
        g = geometry(
            rng,
            channels=(n, n),
            group=n,
            kernels=(2, 2, 3, 3, 4, 5),
            sizes=(4, 6, 9, 12, 16),
            strides=(1, 2, 2, 3),
            padded=0.4 if kind is MaxPool else 0.25,
            most=30_000,
        )
        dtype = code_type(rng)
        x, y = (
            image(f"{name}_{end}", rng, g, n, sizes, dtype, layout) for end, sizes in (("x", g.input), ("y", g.output))
        )
        if kind is MaxPool:
            return MaxPool(name, "MaxPool", x, y, g)
        return AveragePool(name, "AveragePool", x, y, g, bool(rng.random() < 0.5))

    return make


def shape_of(rng: Random, most: int = 3000) -> tuple[int, ...]:
    """Four axes."""
    while True:
        shape = (1, pick(rng, 1, 3, 5, 8, 16), pick(rng, 1, 4, 7, 12), pick(rng, 3, 8, 10, 16, 33))
        if 16 <= prod(shape) <= most:
            return shape


def lookup(rng: Random, name: str) -> Operator:
    dtype = code_type(rng)
    shape = shape_of(rng)
    table = rng.integers(dtype.low, dtype.high + 1, 256)
    x, y = (tensor(f"{name}_{end}", rng, shape, dtype) for end in "xy")
    return Lookup(name, "Sigmoid", x, y, table)


def binary(rng: Random, name: str) -> Operator:
    kinds: tuple[Literal["add", "mul"], ...] = ("add", "mul")
    dtype, kind, shape = code_type(rng), kinds[pick(rng, 0, 1)], shape_of(rng)
    a, b, y = (tensor(f"{name}_{end}", rng, shape, dtype) for end in "aby")
    if rng.random() < 0.2:
        b = tensor(f"{name}_b", rng, (1, shape[1], 1, 1), dtype)
    if rng.random() < 0.25:
        a = replace(a, zero_point=0)
    return QuantizedBinary(name, "QLinearAdd", kind, a, b, y)


def softmax(rng: Random, name: str) -> Operator:
    dtype, shape = code_type(rng), (pick(rng, 1, 2, 5), pick(rng, 2, 4, 10, 12, 35, 100))
    x = tensor(f"{name}_x", rng, shape, dtype)
    scale = float(np.float32(rng.choice([0.02, 0.1, 0.4])))
    x = Tensor(x.name, dtype, shape, None, scale, x.zero_point)
    y = Tensor(f"{name}_y", dtype, shape, None, 1 / 256, dtype.low)
    return Softmax(
        name, "QLinearSoftmax", x, y, arithmetic.softmax_table(scale, shape[1]), arithmetic.softmax_factor(1 / 256)
    )


def global_average(layout: Layout, lengths: Sequence[int] = (1, 3, 4, 7, 8)) -> Callable[[Random, str], Operator]:
    """Means of whole images."""

    def make(rng: Random, name: str) -> Operator:
        dtype, n = code_type(rng), channels(rng)
        sizes = pick(rng, *lengths), pick(rng, *lengths)
        shape = (1, *sizes, n) if layout is NHWC else (1, n, *sizes)
        x = tensor(f"{name}_x", rng, shape, dtype, layout)
        y = tensor(f"{name}_y", rng, (1, 1, 1, n) if layout is NHWC else (1, n, 1, 1), dtype, layout)
        scale = arithmetic.global_average_scale(x.scale or 1.0, y.scale or 1.0, prod(sizes))
        requantize = Requantize(np.array([scale], np.float32), y.zero_point or 0, dtype.low, dtype.high)
        axis = 3 if layout is NHWC else 1
        return GlobalAveragePool(name, "QLinearGlobalAveragePool", x, y, axis, prod(sizes), requantize)

    return make


def quantize(rng: Random, name: str) -> Operator:
    shape = shape_of(rng, 1500)
    x = Tensor(f"{name}_x", DType.FLOAT32, shape)
    return Quantize(name, "QuantizeLinear", x, tensor(f"{name}_y", rng, shape, code_type(rng)))


def dequantize(rng: Random, name: str) -> Operator:
    shape = shape_of(rng, 1500)
    y = Tensor(f"{name}_y", DType.FLOAT32, shape)
    return Dequantize(name, "DequantizeLinear", tensor(f"{name}_x", rng, shape, code_type(rng)), y)


def movement(rng: Random, name: str) -> Operator:
    """Transpositions, slices, padding, concatenations, resizing; elements of one or four bytes."""
    dtype = DType.FLOAT32 if rng.random() < 0.15 else code_type(rng)
    n, h, w, c = shape = (1, pick(rng, 3, 4, 8, 12), pick(rng, 4, 7, 12), pick(rng, 3, 8, 10, 16, 33))
    x = Tensor(f"{name}_x", dtype, shape)

    def out(*sizes: int) -> Tensor:
        return Tensor(f"{name}_y", dtype, sizes)

    match pick(rng, 0, 1, 2, 3, 4):
        case 0:
            perm = [(0, 3, 1, 2), (0, 2, 1, 3), (0, 1, 3, 2)][pick(rng, 0, 1, 2)]
            return Transpose(name, "Transpose", x, out(*(shape[axis] for axis in perm)), perm)
        case 1:
            return Slice(name, "Slice", x, out(n, h - 1, w // 2, c), (0, 1, 0, 0), (1, 1, 2, 1))
        case 2:
            return Pad(name, "Pad", x, out(n, h + 2, w + 2, c), (0, 1, 1, 0), 0.0)
        case 3:
            other = Tensor(f"{name}_b", dtype, shape)
            return Concat(name, "Concat", (x, other), out(n, h, w, 2 * c), 3)
        case _:
            rows, columns = (tuple(i // 2 for i in range(2 * size)) for size in (h, w))
            return Resize(name, "Resize", x, out(n, 2 * h, 2 * w, c), ((0,), rows, columns, tuple(range(c))))


def either(share: float, one: Callable[[Random, str], Operator], other: Callable[[Random, str], Operator]):
    """Operators of two sorts, ``share`` of them of the first."""

    def make(rng: Random, name: str) -> Operator:
        return (one if rng.random() < share else other)(rng, name)

    return make


FAMILIES: dict[str, Callable[[Random, str], Operator]] = {
    "arm_dsp/conv": either(0.2, mixed_layouts, either(0.35, one_by_one(NHWC), any_conv(NHWC, plain=True))),
    "arm_dsp/dense": dense,
    "arm_dsp/pointwise": one_by_one(NHWC),
    "arm_dsp/depthwise": depthwise(NHWC, kernels=(3, 5, 5, 5, 7)),
    "arm_dsp/depthwise_direct": depthwise(NHWC),
    "arm_dsp/depthwise_rows": depthwise(NHWC),
    "arm_dsp/short_window": short_windows,
    "arm_dsp/winograd": tiled,
    "arm_dsp/quantized_binary": binary,
    "arm_dsp/global_average_pool": global_average(NHWC, (1, 3, 5, 8, 12, 19)),
    "portable/conv": either(0.7, any_conv(NHWC), any_conv(NCHW)),
    "portable/pointwise": either(0.2, dense, either(0.7, one_by_one(NHWC), one_by_one(NCHW))),
    "portable/depthwise_nhwc": depthwise(NHWC),
    "portable/depthwise_nchw": depthwise(NCHW),
    "portable/max_pool": either(0.7, pool(MaxPool, NHWC), pool(MaxPool, NCHW)),
    "portable/average_pool": either(0.7, pool(AveragePool, NHWC), pool(AveragePool, NCHW)),
    "portable/global_average_pool": either(0.7, global_average(NHWC), global_average(NCHW)),
    "portable/lookup": lookup,
    "portable/quantized_binary": binary,
    "portable/softmax": softmax,
    "portable/quantize": quantize,
    "portable/dequantize": dequantize,
    "portable/copy": movement,
}
"""By the kernel's name: makes a random operator of a given name that it is meant for."""
