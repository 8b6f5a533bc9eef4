"""The units of tests/test_kernels_networks.py: one table of operators with their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
from network_units import Unit

from qcgen import arithmetic
from qcgen.ir.program import (
    GATES,
    ArgMax,
    AveragePool,
    Between,
    ChannelLookup,
    Comparison,
    Concat,
    Convert,
    ConvGeometry,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Embedding,
    Extremes,
    FloatActivation,
    FloatBinary,
    FloatOutput,
    FloatSoftmax,
    FloatUnary,
    GateWeights,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerLstm,
    IntegerRows,
    IntegerSoftmax,
    IntegerUnary,
    Interpolate,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Pad,
    Quantize,
    QuantizedBinary,
    RawAccumulator,
    Recurrent,
    Reduce,
    ReduceKind,
    Requantize,
    Reshape,
    Resize,
    RoundOnce,
    Scaled,
    Select,
    Sigmoid,
    Slice,
    Softmax,
    Tensor,
    TopK,
    Transpose,
    WideSoftmax,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels.kernel import Order
from qcgen.tflite.fixed_point import exponentials, integer_binary, rounded_exponentials, softmax_lines

NHWC, NCHW = Layout.CHANNELS_LAST, Layout.CHANNELS_FIRST
TYPES = (DType.INT8, DType.UINT8)
MOVED = (DType.INT8, DType.FLOAT32, DType.INT16)


def codes(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Codes over the whole range of a type, both ends among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(dtype.low, dtype.high + 1, shape)
    if values.size > 1:
        values.reshape(-1)[0], values.reshape(-1)[-1] = dtype.low, dtype.high
    return values.astype(dtype.numpy)


def numbers(shape: tuple[int, ...], seed: int = 0, spread: float = 4.0) -> Array:
    return np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)


def elements(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    return numbers(shape, seed) if dtype is DType.FLOAT32 else codes(shape, dtype, seed)


def short(dtype: DType) -> str:
    return {DType.INT8: "s8", DType.UINT8: "u8", DType.FLOAT32: "f32", DType.INT16: "s16", DType.INT32: "s32"}[dtype]


def quantized(
    name: str, dtype: DType, shape: tuple[int, ...], scale: float, zero: int, layout: Layout | None = None
) -> Tensor:
    return Tensor(name, dtype, shape, layout, float(np.float32(scale)), zero)


def lookups() -> Iterator[Unit]:
    rng = np.random.default_rng(1)
    for x, y in product(TYPES, TYPES):
        table = rng.integers(y.low, y.high + 1, 256)
        every = np.arange(x.low, x.high + 1).astype(x.numpy).reshape(2, 2, 8, 8)
        op = Lookup("lookup", "Sigmoid", Tensor("x", x, every.shape), Tensor("y", y, every.shape), table)
        yield Unit(f"lookup_{short(x)}_{short(y)}", op, (every,))
        yield Unit(f"lookup_reordered_{short(x)}_{short(y)}", op, (every,), ((0, 2, 3, 1),), (0, 1, 2, 3))


def channel_lookups() -> Iterator[Unit]:
    """Tables, one line and two lines a channel, for channels on the first, an inner and the last axis in memory."""
    rng = np.random.default_rng(2)
    for x, y in product(TYPES, TYPES):
        codes, centre = np.arange(x.low, x.high + 1), (x.low + x.high + 1) // 2
        slopes = np.array([[0.7013], [-0.4171], [0.0], [1.9077]])
        lines = np.floor((codes - centre) * slopes + 0.137 + 0.3 * np.arange(4)[:, None]) + (y.low + y.high + 1) // 2
        bent = np.floor(np.where(codes < centre, 0.3 * (codes - centre) * slopes, codes - centre)) + 3
        forms = {"line": lines, "lines": bent, "table": rng.integers(y.low, y.high + 1, (4, 256))}
        every = np.stack([rng.permutation(codes) for _ in range(4)]).astype(x.numpy)
        image = np.stack([every, every[::-1]]).reshape(2, 4, 32, 8)
        for form, values in forms.items():
            tables = np.clip(values, y.low, y.high).astype(np.int64)
            tensors = quantized("x", x, image.shape, 0.1, centre), quantized("y", y, image.shape, 0.1, 0)
            op = ChannelLookup("channels", "Lookup", *tensors, 1, tables)
            name = f"channel_lookup_{form}_{short(x)}_{short(y)}"
            yield Unit(name, op, (image,))
            yield Unit(f"{name}_last", op, (image,), ((0, 2, 3, 1),), (0, 2, 3, 1))
            yield Unit(f"{name}_reordered", op, (image,), ((0, 2, 3, 1),), (0, 1, 2, 3))


BINARY_SCALES = {
    "general": (0.0213, 0.0347, 0.0512),
    "ties": (0.5, 0.25, 1.0),
    "halves": (0.02, 0.02, 0.04),
    "wide": (0.9, 0.0001, 0.01),
    "coarse": (1.5, 7.0, 0.01),
    "fine": (0.001, 0.0007, 2.0),
    "products": (0.0213, 0.0347, 0.0739),
    "huge": (1e6, 1e6, 1e-4),
}


def pairs(dtype: DType) -> tuple[Array, Array]:
    every = np.arange(dtype.low, dtype.high + 1).astype(dtype.numpy)
    a, b = np.meshgrid(every, every, indexing="ij")
    return a.copy(), b.copy()


def binaries() -> Iterator[Unit]:
    """Every pair of codes for each choice of scales."""
    for kind, dtype, (label, scales) in product(("add", "mul"), TYPES, BINARY_SCALES.items()):
        a, b = pairs(dtype)
        zeros = (3, -7, 11) if dtype is DType.INT8 else (128, 3, 250)
        ta, tb, ty = (
            quantized(name, dtype, a.shape, scale, zero) for name, scale, zero in zip("aby", scales, zeros, strict=True)
        )
        op = QuantizedBinary("binary", "QLinearAdd", kind, ta, tb, ty)
        yield Unit(f"{kind}_{short(dtype)}_{label.replace(' ', '_')}", op, (a, b))


WIDE = {
    "int16": (DType.INT16, DType.INT16, DType.INT16, (0, -70, 11)),
    "uint16": (DType.UINT16, DType.UINT16, DType.UINT16, (32768, 3, 65535)),
    "to_bytes": (DType.INT16, DType.UINT16, DType.INT8, (5, 30000, -128)),
    "from_bytes": (DType.INT8, DType.INT16, DType.UINT16, (-3, 0, 100)),
}


def wide_binaries() -> Iterator[Unit]:
    """Sums, products and differences of tensors of 16 bits: random pairs, ends, operands of other shapes, constants."""
    for kind, (label, (*types, zeros)) in product(("add", "mul", "sub"), WIDE.items()):
        shapes = ((3, 12, 20), (12, 1)) if label == "to_bytes" else ((3, 40, 50),) * 2
        a, b = (codes(shape, dtype, seed) for seed, (shape, dtype) in enumerate(zip(shapes, types, strict=False)))
        scales = (2.0**-12, 2.0**-11, 2.0**-11) if label == "uint16" else (3.1e-4, 4.7e-4, 6.3e-4)
        ta, tb, ty = (
            quantized(name, dtype, shape, scale, zero)
            for name, dtype, shape, scale, zero in zip("aby", types, (*shapes, shapes[0]), scales, zeros, strict=True)
        )
        op = QuantizedBinary("binary", "QLinearAdd", kind, ta, tb, ty)
        yield Unit(f"wide_{kind}_{label}", op, (a, b), constants={"b": b} if label == "to_bytes" else {})


def clamps_of_16_bits() -> Iterator[Unit]:
    """Clip of codes, a table that is never written down."""
    for dtype, low, high in ((DType.INT16, 0, 32767), (DType.UINT16, 77, 60000), (DType.INT16, -5, -5)):
        x = codes((7, 11), dtype)
        table = np.clip(np.arange(dtype.low, dtype.high + 1), low, high)
        op = Lookup("clip", "Clip", Tensor("x", dtype, x.shape), Tensor("y", dtype, x.shape), table)
        yield Unit(f"clamp_{dtype.value}_{low}_{high}".replace("-", "m"), op, (x,))


SHAPES = {
    "rows": ((2, 3, 4, 5), (2, 3, 4, 5)),
    "channel": ((2, 3, 4, 5), (3, 1, 1)),
    "scalar": ((2, 3, 4, 5), ()),
    "first": ((1, 3, 1, 5), (2, 3, 4, 5)),
    "both": ((2, 1, 4, 1), (3, 1, 5)),
}


def broadcasts() -> Iterator[Unit]:
    """Operands of other shapes, constants, orders in memory."""
    scales = (0.0213, 0.0347, 0.0512)
    for (label, shapes), is_constant, last in product(SHAPES.items(), (False, True), (False, True)):
        shape = np.broadcast_shapes(*shapes)
        a, b = codes(shapes[0], DType.UINT8, 1), codes(shapes[1], DType.UINT8, 2)
        fa, fb = numbers(shapes[0], 1), numbers(shapes[1], 2)
        order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
        xs = tuple(order if len(s) == 4 else tuple(range(len(s))) for s in shapes)
        name = f"{label}_{'constant' if is_constant else 'given'}_{'last' if last else 'first'}"
        ta, tb, ty = (
            quantized(n, DType.UINT8, s, scale, 100)
            for n, s, scale in zip("aby", (*shapes, shape), scales, strict=True)
        )
        op = QuantizedBinary("binary", "QLinearAdd", "add", ta, tb, ty)
        yield Unit(f"add_{name}", op, (a, b), xs, order, {"b": b} if is_constant else {})
        fx, fw, fy = (Tensor(n, DType.FLOAT32, s) for n, s in zip("aby", (*shapes, shape), strict=True))
        float_op = FloatBinary("binary", "Sub", "sub", fx, fw, fy)
        yield Unit(f"sub_{name}", float_op, (fa, fb), xs, order, {"b": fb} if is_constant else {})
        choice = Select("where", "Where", "greater", (fx, fw, fx, fw), fy)
        feeds, orders = (fa, fb, fa, fb), (*xs, *xs)
        yield Unit(f"where_{name}", choice, feeds, orders, order, {"b": fb} if is_constant else {})
    for comparison in get_args(Comparison):
        *xs4, ty = (Tensor(name, DType.FLOAT32, (5, 7)) for name in ("a", "b", "c", "d", "y"))
        a, b, c, d = xs4
        values = [np.round(numbers((5, 7), seed)) for seed in range(4)]  # some are equal
        values[0][0] = np.nan
        unit = f"where_{comparison.replace(' ', '_')}"
        yield Unit(unit, Select("w", "Where", comparison, (a, b, c, d), ty), tuple(values))
        yield Unit(f"{unit}_not", Select("w", "Where", comparison, (a, b, c, d), ty, True), tuple(values))
    for kind in ("add", "mul", "div"):
        t = [Tensor(name, DType.FLOAT32, (5, 7)) for name in "aby"]
        yield Unit(f"float_{kind}", FloatBinary("b", "B", kind, *t), (numbers((5, 7), 3), numbers((5, 7), 4)))


def twice() -> Iterator[Unit]:
    """The same tensor on both sides."""
    x = codes((4, 9), DType.INT8)
    tx, ty = quantized("x", DType.INT8, x.shape, 0.1, 3), quantized("y", DType.INT8, x.shape, 0.17, -4)
    yield Unit("add_to_itself", QuantizedBinary("twice", "QLinearAdd", "add", tx, tx, ty), (x, x))


GEOMETRIES = {
    # label: input, kernel, strides, dilations, pads_begin, pads_end
    "line": ((11,), (3,), (2,), (1,), (1,), (1,)),
    "square": ((6, 8), (2, 2), (2, 2), (1, 1), (0, 0), (0, 0)),
    "padded": ((7, 9), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "uneven": ((7, 6), (3, 2), (2, 3), (1, 1), (0, 1), (2, 0)),
    "dilated": ((9, 11), (3, 3), (1, 2), (2, 3), (2, 0), (0, 2)),
    "volume": ((4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 1, 1), (1, 1, 0), (0, 1, 1)),
    "large": ((9, 9), (9, 8), (1, 1), (1, 1), (1, 0), (0, 0)),
    "tall": ((12, 1), (4, 1), (4, 1), (1, 1), (0, 0), (0, 0)),
    "four": ((2, 3, 4, 5), (2, 2, 2, 2), (1, 1, 2, 2), (1, 1, 1, 1), (0, 1, 0, 0), (0, 0, 0, 1)),
}


def geometry(label: str, batch: int, channels: int) -> ConvGeometry:
    size, kernel, strides, dilations, before, after = GEOMETRIES[label]
    output = tuple(
        (i + b + a - (k - 1) * d - 1) // s + 1
        for i, k, s, d, b, a in zip(size, kernel, strides, dilations, before, after, strict=True)
    )
    return ConvGeometry(batch, channels, channels, channels, size, kernel, strides, dilations, before, after, output)


def image_order(rank: int, last: bool) -> tuple[int, ...]:
    """The order of an image that the model stores channels first."""
    return (0, *range(2, rank + 2), 1) if last else tuple(range(rank + 2))


def pools() -> Iterator[Unit]:
    for label, dtype, (x_last, y_last) in product(
        GEOMETRIES, (*TYPES, DType.FLOAT32), ((False, False), (True, True), (True, False), (False, True))
    ):
        g = geometry(label, 2, 5)
        x = elements((2, 5, *g.input), dtype, 5)
        tx = Tensor("x", dtype, x.shape, NCHW)
        ty = Tensor("y", dtype, (2, 5, *g.output), NCHW)
        orders = image_order(g.rank, x_last), image_order(g.rank, y_last)
        name = f"{label}_{short(dtype)}_{'last' if x_last else 'first'}_{'last' if y_last else 'first'}"
        yield Unit(f"max_{name}", MaxPool("pool", "MaxPool", tx, ty, g), (x,), (orders[0],), orders[1])
    for label, channels in (
        *product(GEOMETRIES, (16,)),
        ("line", 32),
        ("square", 32),
    ):  # Helium takes sixteen at a time
        g = geometry(label, 2, channels)
        x = codes((2, channels, *g.input), DType.INT8, channels)
        tx = Tensor("x", DType.INT8, x.shape, NCHW)
        ty = Tensor("y", DType.INT8, (2, channels, *g.output), NCHW)
        order = image_order(g.rank, True)
        op = MaxPool("pool", "MaxPool", tx, ty, g)
        yield Unit(f"max_{label}_{channels}_channels", op, (x,), (order,), order, target="cortex-m55")
    for label, last in product(GEOMETRIES, (False, True)):  # compared as words
        g = geometry(label, 2, 3)
        x = codes((2, 3, *g.input), DType.INT8, 8)
        tx = Tensor("x", DType.INT8, x.shape, NCHW)
        ty = Tensor("y", DType.INT8, (2, 3, *g.output), NCHW)
        order = image_order(g.rank, last)
        name = f"max_{label}_{'last' if last else 'first'}_by_words"
        yield Unit(name, MaxPool("pool", "MaxPool", tx, ty, g), (x,), (order,), order, target="cortex-m0")
    # An image that the model itself stores channels last.
    g = geometry("padded", 1, 3)
    x = codes((1, *g.input, 3), DType.INT8, 6)
    op = MaxPool("pool", "MaxPool", Tensor("x", DType.INT8, x.shape, NHWC), Tensor("y", DType.INT8, x.shape, NHWC), g)
    yield Unit("max_nhwc_model", op, (x,))


AVERAGES = {"ties": (0.02, 0.02), "exact": (0.25, 0.125), "general": (0.0371, 0.0293), "coarse": (0.9, 0.0031)}


def averages() -> Iterator[Unit]:
    for label, dtype, last, counted in product(
        ("line", "square", "padded", "dilated", "volume", "large", "four"),
        (*TYPES, DType.FLOAT32),
        (False, True),
        (False, True),
    ):
        g = geometry(label, 2, 5)
        x = elements((2, 5, *g.input), dtype, 7)
        order = image_order(g.rank, last)
        for scales_label, scales in AVERAGES.items():
            if (dtype is DType.FLOAT32 and scales_label != "ties") or (label == "large" and scales_label != "general"):
                continue
            zeros = (0, 0) if dtype is DType.FLOAT32 else (dtype.low + 100, dtype.low + 131)
            tx = quantized("x", dtype, x.shape, scales[0], zeros[0], NCHW)
            ty = quantized("y", dtype, (2, 5, *g.output), scales[1], zeros[1], NCHW)
            name = f"average_{label}_{short(dtype)}_{'last' if last else 'first'}_{int(counted)}_{scales_label}"
            yield Unit(name, AveragePool("pool", "AveragePool", tx, ty, g, counted), (x,), (order,), order)


def global_averages() -> Iterator[Unit]:
    for dtype, channels, last, scales in product(
        (*TYPES, DType.FLOAT32), (1, 6), (False, True), ((0.02, 0.02), (0.031, 0.0077))
    ):
        if dtype is DType.FLOAT32 and scales[0] == 0.02:
            continue
        x = elements((3, channels, 5, 4), dtype, 8)
        x[1] = x.max()
        x[2] = x.min()
        zeros = (0, 0) if dtype is DType.FLOAT32 else (dtype.low + 100, dtype.low + 131)
        tx = quantized("x", dtype, x.shape, scales[0], zeros[0], NCHW)
        requantize = None
        if dtype is not DType.FLOAT32:
            scale = arithmetic.global_average_scale(float(np.float32(scales[0])), float(np.float32(scales[1])), 20)
            requantize = Requantize(np.array([scale], np.float32), zeros[1], dtype.low, dtype.high)
        label = f"{short(dtype)}_{channels}_{'last' if last else 'first'}_{'tie' if scales[0] == 0.02 else 'other'}"
        for shape in ((3, channels, 1, 1), (3, channels)):
            ty = quantized("y", dtype, shape, scales[1], zeros[1])
            op = GlobalAveragePool("mean", "GlobalAveragePool", tx, ty, 1, 20, requantize)
            name = f"mean_{label}_rank{len(shape)}"
            yield Unit(name, op, (x,), (image_order(2, last),), tuple(range(len(shape))))
    # Channels between the spatial axes, as a transposed view has them.
    x = codes((2, 3, 4, 5), DType.INT8, 9)
    scale = np.array([arithmetic.global_average_scale(0.5, 0.25, 20)], np.float32)
    ty = quantized("y", DType.INT8, (2, 3, 1, 1), 0.25, 0)
    tx = quantized("x", DType.INT8, x.shape, 0.5, 0, NCHW)
    op = GlobalAveragePool("mean", "GlobalAveragePool", tx, ty, 1, 20, Requantize(scale, 0, -128, 127))
    yield Unit("mean_between", op, (x,), ((0, 3, 1, 2),), (0, 1, 2, 3))


def large_global_averages() -> Iterator[Unit]:
    """More pixels than sums of 16 bits hold, and all of them at the ends of the type."""
    for dtype, channels, (height, width) in product(TYPES, (4, 7), ((1, 3), (16, 16), (17, 31))):
        x = elements((4, channels, height, width), dtype, 11)
        x[1], x[2] = dtype.high, dtype.low
        tx = quantized("x", dtype, x.shape, 0.02, dtype.low + 100, NCHW)
        ty = quantized("y", dtype, (4, channels, 1, 1), 0.02, dtype.low + 131)
        ratio = float(np.float32(0.02))
        scale = np.array([arithmetic.global_average_scale(ratio, ratio, height * width)], np.float32)
        requantize = Requantize(scale, dtype.low + 131, dtype.low, dtype.high)
        op = GlobalAveragePool("mean", "GlobalAveragePool", tx, ty, 1, height * width, requantize)
        name = f"mean_{short(dtype)}_{channels}_of_{height}_by_{width}"
        yield Unit(name, op, (x,), (image_order(2, True),), (0, 1, 2, 3))


def wide_global_averages() -> Iterator[Unit]:
    """Means of codes of 16 bits, and between 16 and 8: in both layouts, at both ends, of the largest images."""
    for (label, (x_type, _, y_type, zeros)), last in product(WIDE.items(), (False, True)):
        for height, width in ((5, 4), (7, 7), (128, 128)):
            x = codes((3, 2, height, width), x_type, 11)
            x[1], x[2] = x_type.high, x_type.low
            scales = np.float32(3.1e-4), np.ones(1, np.float32), np.float32(3.1e-4 if height == 7 else 4.7e-4)
            largest = np.array([height * width * 65535])
            multiplier, shift = arithmetic.exact_multiplier(*scales, largest, height * width)
            tx = quantized("x", x_type, x.shape, float(scales[0]), zeros[0], NCHW)
            ty = quantized("y", y_type, (3, 2, 1, 1), float(scales[2]), zeros[2])
            by = RoundOnce(multiplier, shift, zeros[2], y_type.low, y_type.high)
            op = GlobalAveragePool("mean", "GlobalAveragePool", tx, ty, 1, height * width, by)
            name = f"wide_mean_{label}_{height}_{'last' if last else 'first'}"
            yield Unit(name, op, (x,), (image_order(2, last),), (0, 1, 2, 3))


REDUCED = {
    "first": ((3, 2, 4, 5), (0,)),
    "channels": ((3, 2, 4, 5), (1,)),
    "rows": ((3, 2, 4, 5), (2,)),
    "image": ((3, 2, 4, 5), (2, 3)),
    "apart": ((3, 2, 4, 5), (0, 2)),
    "all": ((3, 2, 4, 5), (0, 1, 2, 3)),
    "one": ((1, 3, 1, 4), (0, 2)),
}


def reductions() -> Iterator[Unit]:
    """Every kind along any axes, in several orders in memory; the first element of y is of codes at one end."""
    for (label, (shape, axes)), kind, dtype in product(REDUCED.items(), get_args(ReduceKind), (*TYPES, DType.FLOAT32)):
        if kind in ("product", "l1", "squares", "l2") and dtype is not DType.FLOAT32:
            continue
        x = elements(shape, dtype, 19)
        if dtype is DType.FLOAT32:
            x += 20.0  # no cancellation
        else:
            x[tuple(slice(None) if axis in axes else 0 for axis in range(4))] = dtype.high
        by = None
        if kind in ("sum", "mean") and dtype is not DType.FLOAT32:
            by = Requantize(np.float32([0.043]), dtype.low + 131, dtype.low, dtype.high)
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        short_of = tuple(size for axis, size in enumerate(shape) if axis not in axes)
        tx = quantized("x", dtype, shape, 0.1, 0 if dtype is DType.FLOAT32 else dtype.low + 100)
        for y_shape, orders in product((kept, short_of), ((), (0, 2, 3, 1), (3, 1, 0, 2))):
            op = Reduce(kind, "Reduce", tx, Tensor("y", dtype, y_shape), kind, axes, by)
            y_order = orders if len(y_shape) == 4 else tuple(reversed(range(len(y_shape))))
            name = f"{kind}_{label}_{short(dtype)}_rank{len(y_shape)}_{''.join(map(str, orders)) or 'plain'}"
            yield Unit(name, op, (x,), (orders,) if orders else (), y_order)


def arg_maxima() -> Iterator[Unit]:
    """Few different elements, so that many are equal; every axis, several orders in memory."""
    for dtype, axis, kind, takes_last in product((*TYPES, DType.FLOAT32), (0, 1, 3), ("max", "min"), (False, True)):
        low = 0 if dtype is DType.FLOAT32 else dtype.low
        x = (codes((3, 4, 2, 5), DType.UINT8, 20).astype(np.int64) % 3 + low).astype(dtype.numpy)
        kept = tuple(1 if at == axis else size for at, size in enumerate(x.shape))
        for y_shape, order in product((kept, kept[:axis] + kept[axis + 1 :]), ((), (0, 2, 3, 1))):
            t = Tensor("x", dtype, x.shape), Tensor("y", DType.INT64, y_shape)
            op = ArgMax("place", f"Arg{kind.title()}", *t, kind, axis, takes_last)
            label = f"{short(dtype)}_{axis}_{'last' if takes_last else 'first'}_rank{len(y_shape)}_{len(order)}"
            yield Unit(f"arg{kind}_{label}", op, (x,), (order,) if order else ())


def top_elements() -> Iterator[Unit]:
    """Few different elements, so that many are equal; one, some and all of an axis, several orders in memory."""
    for dtype, axis, is_largest in product((DType.INT8, DType.UINT8, DType.FLOAT32), (0, 1, 3), (True, False)):
        low = 0 if dtype is DType.FLOAT32 else dtype.low
        x = (codes((3, 4, 2, 5), DType.UINT8, 22).astype(np.int64) % 3 + low).astype(dtype.numpy)
        for k, orders in product({1, 2, x.shape[axis]}, ((), (0, 2, 3, 1))):
            shape = tuple(k if at == axis else size for at, size in enumerate(x.shape))
            op = TopK("top", "TopK", Tensor("x", dtype, x.shape), Tensor("y", DType.INT64, shape), axis, is_largest)
            label = f"{short(dtype)}_{axis}_{'largest' if is_largest else 'smallest'}_{k}_{len(orders)}"
            yield Unit(f"top_{label}", op, (x,), (orders,) if orders else (), orders or None)


def gathered_elements() -> Iterator[Unit]:
    """Numbers that are there, counted from either end, and far beyond both; fewer along the other axes."""
    for dtype, numbers, axis in product((DType.UINT8, DType.FLOAT32), (DType.INT32, DType.INT64), (0, 1, 2)):
        x = elements((3, 4, 5), dtype, 23)
        shape = tuple(size + 2 if at == axis else size - 1 for at, size in enumerate(x.shape))
        some = np.array([0, 2, -1, -3, 3, -4, numbers.high, numbers.low], numbers.numpy)
        places = np.resize(some, shape)
        t = Tensor("x", dtype, x.shape), Tensor("places", numbers, shape), Tensor("y", dtype, shape)
        op = GatherElements("taken", "GatherElements", *t, axis)
        for orders in ((), ((2, 0, 1), (0, 1, 2))):
            label = f"{short(dtype)}_{numbers.value}_{axis}_{len(orders)}"
            yield Unit(f"gather_elements_{label}", op, (x, places), orders)


def embeddings() -> Iterator[Unit]:
    """Numbers of rows that are there, counted from either end, and far beyond both."""
    for dtype, x_type, row in product(
        (DType.INT8, DType.UINT8, DType.FLOAT32), (DType.INT32, DType.INT64), ((3,), (), (2, 4))
    ):
        table = elements((7, *row), dtype, 21)
        x = np.array([[0, 6, -1, -7], [7, -8, x_type.high, x_type.low]], x_type.numpy)
        y = Tensor("y", dtype, (*x.shape, *row))
        op = Embedding("rows", "Gather", Tensor("x", x_type, x.shape), y, table)
        yield Unit(f"embedding_{short(dtype)}_{x_type.value}_{len(row)}", op, (x,))


def recurrent_layers() -> Iterator[Unit]:
    """Each kind, direction and form of weights, with every part of the output and some, with all forms of states."""
    forms = ((None, 0), (np.int8, 0), (np.uint8, 120), (np.int16, 0))
    kinds = (("lstm", False), ("gru", False), ("gru", True))
    for number, ((kind, late), reverses, (dtype, zero)) in enumerate(
        product(kinds, ((False,), (True,), (False, True)), forms)
    ):
        steps, batch, inputs, units = ((1, 1, 5, 3), (6, 1, 4, 7), (4, 3, 1, 2))[number % 3]
        op, feeds = recurrent(kind, reverses, (steps, batch, inputs, units), (dtype, zero), number)
        if late:
            op = replace(op, state_bias=numbers((len(reverses), units), 32, 0.3))
        if number % 4 == 1:
            op = replace(op, clip=0.75, couples=kind == "lstm")
        if number % 5 == 2:
            op, feeds = replace(op, initial_h=None), (feeds[0], *feeds[2:])
        label = f"{kind}{'_late' if late else ''}_{'_'.join('back' if r else 'forth' for r in reverses)}"
        constants = {x.name: given for x, given in zip(inputs_of(op), feeds, strict=True) if x.name in "hc"}
        yield Unit(f"{label}_{number}", op, feeds, constants=constants if number % 5 == 3 else {})


def dynamic_lstms() -> Iterator[Unit]:
    """Each direction, weights with one scale and many, as int8 and int16; with every part of the output and some."""
    for number, (reverses, dtype) in enumerate(product(((False,), (True,), (False, True)), (np.int8, np.int16))):
        sizes = ((6, 1, 4, 7), (1, 1, 5, 3))[number % 2]
        op, feeds = recurrent("lstm", reverses, sizes, (dtype, 0), number)
        x, scale, zero = codes(op.x.shape, DType.UINT8, number), np.float32(0.013), np.uint8((0, 117, 255)[number % 3])
        read = Tensor("scale", DType.FLOAT32, ()), Tensor("zero_point", DType.UINT8, ())
        op = replace(op, x=replace(op.x, dtype=DType.UINT8), scale=read[0], zero_point=read[1])
        rest = feeds[1:]
        if number % 4 == 1:
            op, rest = replace(op, initial_h=None), feeds[2:]
        constants = dict(zip("hc", feeds[1:], strict=True)) if number % 4 == 2 else {}
        yield Unit(f"dynamic_lstm_{number}", op, (x, np.asarray(scale), np.asarray(zero), *rest), constants=constants)


def recurrent(
    kind: Any, reverses: tuple[bool, ...], sizes: tuple[int, ...], codes_of: tuple[Any, int], seed: int
) -> tuple[Recurrent, tuple[Array, ...]]:
    """An operator and its inputs, with every initial state."""
    (steps, batch, inputs, units), ways = sizes, len(reverses)
    gates, state = len(GATES[kind]), (ways, batch, units)
    weights = (gate_weights((ways, gates, units, n), *codes_of, seed) for n in (inputs, units))
    feeds = (numbers((steps, batch, inputs), 30, 1.5), numbers(state, 31, 0.5), numbers(state, 33, 0.8))
    x, h, c = (Tensor(name, DType.FLOAT32, feed.shape) for name, feed in zip("xhc", feeds, strict=True))
    keeps = ((True, True, True), (True, False, False), (False, True, False), (False, True, True))[seed % 4]
    keeps = keeps if kind == "lstm" else (*keeps[:2], False)
    y = Tensor("y", DType.FLOAT32, (steps * keeps[0] + keeps[1] + keeps[2], *state))
    bias, is_lstm = numbers((ways, gates, units), 34, 0.3), kind == "lstm"
    states = (h, c) if is_lstm else (h, None)
    op = Recurrent("layer", kind.upper(), kind, x, *states, y, *weights, bias, None, reverses, *keeps)
    return op, feeds[: 3 if is_lstm else 2]


def gate_weights(shape: tuple[int, ...], dtype: Any, zero_point: int, seed: int) -> GateWeights:
    """Weights of around 0.4; codes with one scale or with many."""
    values = numbers(shape, seed, 0.4)
    if dtype is None:
        return GateWeights(values)
    scale = np.full(shape[:3], 0.01, np.float32) if seed % 2 else np.abs(numbers(shape[:3], seed, 0.004)) + 0.004
    rows = np.rint(values / scale[..., None]) + zero_point
    info = np.iinfo(dtype)
    return GateWeights(np.clip(rows, info.min, info.max).astype(dtype), scale.astype(np.float32), zero_point)


def softmaxes() -> Iterator[Unit]:
    for dtype, scale, length in product(TYPES, (0.003, 0.1, 1.0, 20.0), (1, 2, 10, 300)):
        x = codes((40, length), dtype, 10)
        x[0], x[1] = dtype.high, dtype.low
        x[2] = np.resize([dtype.low, dtype.high], length)
        x[3:6] = np.clip(x[3:6] // 8 + 40, dtype.low, dtype.high)
        for y_scale in (1 / 256, 1 / 255, 1 / 500, 2.0**-24, 1.5):
            tx = quantized("x", dtype, x.shape, scale, 0)
            ty = quantized("y", dtype, x.shape, y_scale, dtype.low)
            table = arithmetic.softmax_table(scale, length)
            op = Softmax("softmax", "QLinearSoftmax", tx, ty, table, arithmetic.softmax_factor(y_scale))
            label = f"{str(scale).replace('.', '_')}_{length}_{int(1 / y_scale)}"
            yield Unit(f"softmax_{short(dtype)}_{label}", op, (x,))
    x = numbers((6, 50), 11)
    x[0], x[1] = 1e30, -1e30
    x[2, 7] = 200.0
    t = Tensor("x", DType.FLOAT32, x.shape), Tensor("y", DType.FLOAT32, x.shape)
    yield Unit("softmax_f32", FloatSoftmax("softmax", "Softmax", *t), (x,))
    yield Unit("softmax_f32_columns", FloatSoftmax("softmax", "Softmax", *t), (x,), ((1, 0),), (1, 0))
    logarithms = FloatSoftmax("softmax", "LogSoftmax", *t, is_log=True)
    yield Unit("log_softmax_f32", logarithms, (np.clip(x, -1e4, 1e4),))


def layer_norms() -> Iterator[Unit]:
    """Lengths around the lanes; rows that are constant, at both ends, or nearly constant; scales of all sizes."""
    scales = ((0.0371, 0.031), (2.0**-30, 0.02), (1000.0, 0.5), (0.5, 0.25))
    for (length, (x_scale, y_scale)), dtype in product(zip((8, 12, 15, 65), scales, strict=True), TYPES):
        x = codes((12, length), dtype, 19)
        x[0], x[1], x[2] = dtype.high, dtype.low, dtype.low + 100
        x[3] = np.resize([dtype.low, dtype.high], length)
        x[4], x[4, 3] = dtype.low + 7, dtype.low + 8
        tx = quantized("x", dtype, x.shape, x_scale, dtype.low + 100)
        ty = quantized("y", dtype, x.shape, y_scale, dtype.low + 120)
        scale, bias = numbers((length,), 20, 1.0), numbers((length,), 21, 0.4)
        scale[0], bias[1], scale[2], bias[2] = 0, 0, 1e-39, 1e-39
        name = f"layer_norm_{short(dtype)}_{length}"
        for label, added in (("", bias), ("_without_bias", None)):
            op = LayerNorm("norm", "LayerNormalization", tx, ty, scale, added, float(np.float32(1e-5)))
            yield Unit(f"{name}{label}", op, (x,))
        yield Unit(f"{name}_columns", op, (x,), ((1, 0),), (0, 1))


def instance_norms() -> Iterator[Unit]:
    """Channels of few and of many pixels, which begin at every alignment, in both layouts."""
    for shape, dtype, last in product(((2, 3, 1, 3), (1, 6, 5, 5), (2, 3, 17, 18)), TYPES, (False, True)):
        x = codes(shape, dtype, 22)
        x[0, 0], x[0, 1], x[0, 1, 0, 1] = dtype.high, dtype.low + 30, dtype.low + 31
        tx = quantized("x", dtype, x.shape, 0.043, dtype.low + 100, NCHW)
        ty = quantized("y", dtype, x.shape, 0.021, dtype.low + 120, NCHW)
        scale, bias = numbers((shape[1],), 23, 1.0), numbers((shape[1],), 24, 0.4)
        op = InstanceNorm("norm", "InstanceNormalization", tx, ty, scale, bias, float(np.float32(1e-5)))
        order = image_order(2, last)
        label = f"instance_norm_{short(dtype)}_{shape[2] * shape[3]}_{'last' if last else 'first'}"
        yield Unit(label, op, (x,), (order,), order)


def float_normalizations() -> Iterator[Unit]:
    """Rows that do not fill the lanes, and around them; channels at every alignment; equal numbers."""
    epsilon = float(np.float32(1e-5))
    for length, has_bias in product((1, 5, 8, 13, 31), (True, False)):
        x = numbers((6, length), 25, 3.0)
        x[0] = 35.55
        t = Tensor("x", DType.FLOAT32, x.shape), Tensor("y", DType.FLOAT32, x.shape)
        scale, bias = numbers((length,), 26, 1.0), numbers((length,), 27, 0.4) if has_bias else None
        rows = LayerNorm("norm", "LayerNormalization", *t, scale, bias, epsilon)
        name = f"layer_norm_f32_{length}{'' if has_bias else '_without_bias'}"
        yield Unit(name, rows, (x,))
        yield Unit(f"{name}_columns", rows, (x,), ((1, 0),), (0, 1))
    for shape, last in product(((2, 3, 1, 3), (1, 6, 5, 5), (1, 2, 4, 4)), (False, True)):
        x = numbers(shape, 28, 3.0)
        x[0, 0] = 35.55
        t = tuple(Tensor(name, DType.FLOAT32, x.shape, NCHW) for name in ("x", "y"))
        scale, bias = numbers((shape[1],), 29, 1.0), numbers((shape[1],), 30, 0.4)
        channels = InstanceNorm("norm", "InstanceNormalization", *t, scale, bias, epsilon)
        order = image_order(2, last)
        label = f"instance_norm_f32_{shape[2] * shape[3]}_{'last' if last else 'first'}"
        yield Unit(label, channels, (x,), (order,), order)


MATRICES = {
    "one": ((1, 1), (1, 1)),
    "row": ((1, 9), (9, 5)),
    "column": ((6, 3), (3, 1)),
    "even": ((4, 8), (8, 6)),
    "odd": ((5, 7), (7, 3)),
    "heads": ((1, 3, 5, 4), (1, 3, 4, 5)),
    "broadcast": ((2, 1, 3, 4), (5, 4, 2)),
    "long": ((3, 2, 1000), (1000, 2)),
    "vectors": ((2, 5, 32), (32, 9)),
    "steps": ((4, 170), (170, 5)),
}


def matmuls() -> Iterator[Unit]:
    """Shapes, types and orders in memory; the first matrix of each has sums at both ends."""
    for (label, (a_shape, b_shape)), (ta, tb) in product(MATRICES.items(), product(TYPES, TYPES)):
        a, b = codes(a_shape, ta, 15), codes(b_shape, tb, 16)
        a[..., 0, :], b[..., 0] = ta.low, tb.high
        by = Requantize(np.float32([0.0003 if label == "long" else 0.0117]), -3, -128, 127)
        shape = np.matmul(a.astype(int), b.astype(int)).shape
        tensors = (Tensor("a", ta, a.shape), Tensor("b", tb, b.shape), Tensor("y", DType.INT8, shape))
        op = MatMul("product", "QLinearMatMul", *tensors, ta.low + 130, tb.low + 121, by)
        name = f"matmul_{label}_{short(ta)}_{short(tb)}"
        yield Unit(name, op, (a, b))
        turned = tuple((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2) for x in (a, b))
        yield Unit(f"{name}_transposed", op, (a, b), turned, (len(shape) - 1, *range(len(shape) - 1)))
    for terms, label in ((7, ""), (16, "_vectors"), (40, "_steps")):
        a, b = codes((2, 3, terms), DType.UINT8, 17), codes((2, terms, 4), DType.INT8, 18)
        tensors = (Tensor("a", DType.UINT8, a.shape), Tensor("b", DType.INT8, b.shape))
        by = Requantize(np.float32([0.5]), 100, 90, 250)  # ties, and a clamp
        ties = MatMul("product", "QLinearMatMul", *tensors, Tensor("y", DType.UINT8, (2, 3, 4)), 0, 127, by)
        yield Unit(f"matmul_ties{label}", ties, (a, b))
        for name, values in (("a", a), ("b", b)):
            yield Unit(f"matmul_constant_{name}{label}", ties, (a, b), constants={name: values})
        raw = replace(ties, op_type="MatMulInteger", y=Tensor("y", DType.INT32, (2, 3, 4)), epilogue=RawAccumulator())
        yield Unit(f"matmul_sums{label}", raw, (a, b))
        guarded = replace(ties, epilogue=Requantize(np.float32([0.0014]), 100, 0, 255))
        yield Unit(f"matmul_columns{label}", guarded, (a, b), (), (0, 2, 1))


def conversions() -> Iterator[Unit]:
    """All float16 numbers but NaNs, and others that float16 has to round: ties, subnormals, what overflows."""
    words = np.arange(65536).astype(np.uint16)
    halves = words[(words & 0x7FFF) <= 0x7C00].view(np.float16)
    with np.errstate(over="ignore"):
        finite = halves[np.isfinite(halves)].astype(np.float32)
        between = (finite + np.nextafter(finite.astype(np.float16), np.float16(0)).astype(np.float32)) / 2
        near = [np.nextafter(between, np.float32(to)) for to in (np.inf, -np.inf)]
    singles = np.concatenate([between, *near, np.float32([0, -0.0, 65519.9, 65520, -1e38, np.inf, 1e-45, 3e-8])])
    doubles = np.concatenate([between.astype(np.float64) * (1 + 2.0**-40), np.float64([1e-320, np.inf, 0.1, -0.0])])
    for x in (halves, singles, doubles):
        for to in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
            if x.dtype != to.numpy:
                tx, ty = Tensor("x", DType.of(x), x.shape), Tensor("y", to, x.shape)
                yield Unit(f"convert_{DType.of(x).value}_to_{to.value}", Convert("cast", "Cast", tx, ty), (x,))
    x = numbers((2, 3, 4), 27)
    op = Convert("cast", "Cast", Tensor("x", DType.FLOAT32, x.shape), Tensor("y", DType.FLOAT16, x.shape))
    yield Unit("convert_to_other_order", op, (x,), ((0, 2, 1),), (2, 0, 1))


def float_matmuls() -> Iterator[Unit]:
    """The same of whole float32 numbers, whose sums are exact; 65 terms are summed in chunks not all as long."""
    chunked = {"chunks": ((2, 65), (65, 3)), "even_chunks": ((3, 100), (100, 1))}
    for label, (a_shape, b_shape) in {**MATRICES, **chunked}.items():
        a, b = (np.round(numbers(shape, seed)) for shape, seed in ((a_shape, 25), (b_shape, 26)))
        shape = np.matmul(a, b).shape
        a_t, b_t, y_t = (
            Tensor(*given) for given in zip("aby", [DType.FLOAT32] * 3, (a_shape, b_shape, shape), strict=True)
        )
        op = MatMul("product", "MatMul", a_t, b_t, y_t, 0, 0, FloatActivation())
        yield Unit(f"float_matmul_{label}", op, (a, b))
        turned = tuple((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2) for x in (a, b))
        last = (len(shape) - 1, *range(len(shape) - 1))
        yield Unit(f"float_matmul_{label}_transposed", op, (a, b), turned, last)
        for name, values in (("a", a), ("b", b)):
            yield Unit(f"float_matmul_{label}_constant_{name}", op, (a, b), constants={name: values})


def quantizations() -> Iterator[Unit]:
    for dtype, scale in product(TYPES, (0.5, 0.0371, 1e-30)):
        x = np.concatenate(
            [
                (np.arange(-600, 600) * np.float32(scale) / 2).astype(np.float32),
                np.float32([np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0]),
                numbers((994,), 12, 100 * scale),
            ]
        ).reshape(2, 2, 55, 10)
        for zero in (dtype.low, dtype.low + 131):
            ty = quantized("y", dtype, x.shape, scale, zero)
            op = Quantize("quantize", "QuantizeLinear", Tensor("x", DType.FLOAT32, x.shape), ty)
            label = f"{short(dtype)}_{'tiny' if scale < 1e-9 else str(scale).replace('.', '_')}_{zero - dtype.low}"
            yield Unit(f"quantize_{label}", op, (x,))
            yield Unit(f"quantize_reordered_{label}", op, (x,), ((0, 2, 3, 1),), (0, 1, 2, 3))
    for dtype, zero in ((DType.INT8, -5), (DType.UINT8, 200), (DType.INT32, 0), (DType.INT32, 77)):
        x = codes((3, 5, 40), dtype, 13)
        tx = quantized("x", dtype, x.shape, 0.0371, zero)
        op = Dequantize("dequantize", "DequantizeLinear", tx, Tensor("y", DType.FLOAT32, x.shape))
        yield Unit(f"dequantize_{short(dtype)}_{zero + 5}", op, (x,))
        yield Unit(f"dequantize_reordered_{short(dtype)}_{zero + 5}", op, (x,), ((2, 0, 1),), (0, 1, 2))


ACTIVATIONS = {
    "relu": FloatActivation("Relu"),
    "clip": FloatActivation("Clip", (0.0, 6.0)),
    "unbounded": FloatActivation("Clip", (-np.inf, np.inf)),
    "tanh": FloatActivation("Tanh"),
    "sigmoid": FloatActivation("Sigmoid"),
    "hard_swish": FloatActivation("HardSwish"),
    "leaky": FloatActivation("LeakyRelu", (0.1,)),
    "hard_sigmoid": FloatActivation("HardSigmoid", (0.2, 0.5)),
}


def activations() -> Iterator[Unit]:
    for label, activation in ACTIVATIONS.items():
        x = numbers((2, 3, 4, 5), 14)
        x.reshape(-1)[:4] = 90.0, -90.0, 0.0, -3.0
        op = FloatUnary(label, activation.kind, *(Tensor(n, DType.FLOAT32, x.shape) for n in "xy"), activation)
        yield Unit(f"unary_{label}", op, (x,))
        yield Unit(f"unary_reordered_{label}", op, (x,), ((0, 2, 3, 1),), (0, 1, 2, 3))


def moved(label: str, operator: type, x: Array, y_shape: tuple[int, ...], *details: Any) -> Iterator[Unit]:
    """The operator on an image that lies channels first, on one that lies channels last, and into another order."""
    dtype = DType.of(x)
    op = operator(label, operator.__name__, Tensor("x", dtype, x.shape), Tensor("y", dtype, y_shape), *details)
    last = (0, 2, 3, 1)
    name = f"{label}_{short(dtype)}"
    yield Unit(name, op, (x,))
    yield Unit(f"{name}_from_last", op, (x,), (last,))
    if len(y_shape) == 4:
        yield Unit(f"{name}_last", op, (x,), (last,), last)
        yield Unit(f"{name}_swapped", op, (x,), (last,), (1, 0, 3, 2))


SLICES = {
    "inner": ((0, 1, 1, 0), (1, 1, 1, 1), (2, 2, 3, 5)),
    "backwards": ((1, 2, 3, 4), (-1, -1, -2, -3), (2, 3, 2, 2)),
    "sparse": ((0, 0, 1, 1), (1, 2, 2, 3), (2, 2, 2, 2)),
    "one": ((1, 2, 3, 4), (1, 1, 1, 1), (1, 1, 1, 1)),
}
PLACES = {
    "double": ((0, 1), (0, 1, 2), (0, 0, 1, 1, 2, 2, 3, 3), (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)),
    "odd": ((0, 1), (0, 1, 2), (0, 0, 1, 2, 2, 3, 3), (0, 1, 1, 2, 3, 3, 4)),
    "half": ((0, 1), (2,), (0, 2), (0, 2, 4)),
}


def movements() -> Iterator[Unit]:
    """Every kind of movement of elements of 1, 2 and 4 bytes."""
    for dtype in MOVED:
        x = elements((2, 3, 4, 5), dtype, 15)
        for number, perm in enumerate(((0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3), (1, 0, 2, 3))):
            yield from moved(f"transpose{number}", Transpose, x, tuple(x.shape[axis] for axis in perm), perm)
        for number, shape in enumerate(
            ((2, 60), (6, 20), (2, 3, 2, 2, 5), (120,), (8, 15), (1, 2, 3, 4, 5), (4, 3, 2, 5))
        ):
            yield from moved(f"reshape{number}", Reshape, x, shape)
        for label, (starts, steps, shape) in SLICES.items():
            yield from moved(f"slice_{label}", Slice, x, shape, starts, steps)
        yield from moved("pad_zero", Pad, x, (2, 5, 6, 6), (0, 1, 2, 0), 0.0)
        yield from moved("pad_value", Pad, x, (2, 5, 6, 6), (0, 1, 2, 0), -3.0)
        for label, places in PLACES.items():
            yield from moved(f"resize_{label}", Resize, x, tuple(len(part) for part in places), places)
    yield from moved("pad_infinite", Pad, numbers((2, 3, 4, 5), 15), (2, 3, 4, 6), (0, 0, 0, 1), -np.inf)


def concats() -> Iterator[Unit]:
    for dtype, axis, last in product(MOVED, (0, 1, 3), (False, True)):
        sizes = (2, 1, 3)
        parts = [elements(tuple(n if a == axis else 4 for a in range(4)), dtype, n) for n in sizes]
        shape = tuple(6 if a == axis else 4 for a in range(4))
        names = [f"x{i}" for i in range(3)]
        tensors = tuple(Tensor(name, dtype, part.shape) for name, part in zip(names, parts, strict=True))
        op = Concat("c", "Concat", tensors, Tensor("y", dtype, shape), axis)
        order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
        label = f"concat_{short(dtype)}_{axis}_{'last' if last else 'first'}"
        yield Unit(label, op, tuple(parts), (order, (0, 1, 2, 3), order), order)
        constant = {"x1": parts[1]}
        yield Unit(f"{label}_constant", op, tuple(parts), (order, (0, 1, 2, 3), order), order, constant)


def integer_softmaxes() -> Iterator[Unit]:
    """Factors that leave out few codes and most, rows of equal codes, rows whose order in memory is another one."""
    for factor, length in product((0.003, 0.1, 1.7, 20.0), (1, 2, 10, 300)):
        x = codes((40 if length < 300 else 9, length), DType.INT8, 10)
        x[0], x[1] = 127, -128
        x[3:6] = np.clip(x[3:6] // 8 + 40, -128, 127)
        tx, ty = (quantized(name, DType.INT8, x.shape, 1 / 256, -128) for name in "xy")
        op = IntegerSoftmax("softmax", "SOFTMAX", tx, ty, exponentials(factor))
        label = f"{str(factor).replace('.', '_')}_{length}"
        yield Unit(f"integer_softmax_{label}", op, (x,))
        wide = replace(op, y=quantized("y", DType.INT16, x.shape, 1 / 65536, -32768))
        if length in (1, 10):
            yield Unit(f"integer_softmax_wide_{label}", wide, (x,))
        logarithm = IntegerLogSoftmax("softmax", "LOG_SOFTMAX", tx, ty, *rounded_exponentials(factor))
        yield Unit(f"integer_log_softmax_{label}", logarithm, (x,))
    yield Unit("integer_softmax_columns", op, (x,), ((1, 0),), (1, 0))
    yield Unit("integer_log_softmax_columns", logarithm, (x,), ((1, 0),), (1, 0))


def integer_unaries() -> Iterator[Unit]:
    """Codes of 16 bits scaled to other types, another scale below zero, and sigmoids of them, in orders in memory."""
    x = np.concatenate([codes((295,), DType.INT16, 36), np.int16([-32768, 32767, -1, 0, 1])]).reshape(12, 25)
    one, other, large = (1518500250, -3), (1073741825, -8), (2147483647, 1)
    functions = {
        "scaled": (Scaled(one, one), DType.INT16),
        "two_scales": (Scaled(large, other), DType.INT16),
        "bytes": (Scaled(other, other), DType.INT8),
        "long": (Scaled(large, large), DType.INT32),
        "logistic": (Sigmoid("logistic", 3, 0), DType.INT16),
        "tanh": (Sigmoid("tanh", 3, 0), DType.INT16),
        "logistic_shifted": (Sigmoid("logistic", 23456, 14), DType.INT16),
        "tanh_shifted": (Sigmoid("tanh", 3, 2), DType.INT16),
    }
    for label, (function, dtype) in functions.items():
        is_wide, is_sigmoid = dtype is DType.INT32, isinstance(function, Sigmoid)
        tx = quantized("x", DType.INT16, x.shape, 0.01, 0 if is_sigmoid else 77)
        ty = Tensor("y", dtype, x.shape) if is_wide else quantized("y", dtype, x.shape, 0.02, 0 if is_sigmoid else -9)
        op = IntegerUnary("f", "QUANTIZE", tx, ty, function, dtype.low, dtype.high)
        yield Unit(f"short_{label}", op, (x,))
    yield Unit("short_columns", op, (x,), ((1, 0),), (0, 1))


def wide_softmaxes() -> Iterator[Unit]:
    """Distances that count and such that do not, rows of one and of many, equal codes, another order in memory."""
    for scale, length in product(((1717986918, -1), (1518500250, 5)), (1, 2, 29)):
        x = codes((7, length), DType.INT16, 41)
        x[0], x[1], x[2:4] = 32767, -32768, x[2:4] // 300
        tx, ty = (quantized(name, DType.INT16, x.shape, 2.0**-15, 0) for name in "xy")
        op = WideSoftmax("softmax", "SOFTMAX", tx, ty, scale, *softmax_lines())
        yield Unit(f"wide_softmax_{length}_{scale[1] + 1}", op, (x,))
    yield Unit("wide_softmax_columns", op, (x,), ((1, 0),), (1, 0))


def wide_integer_binaries() -> Iterator[Unit]:
    """Sums, differences and products of int16 codes by TensorFlow Lite, with constants, broadcast."""
    a, b = (codes((3, 4, 5), DType.INT16, seed) for seed in (42, 43))
    a[0, 0], b[0, 0] = -32768, -32768
    for kind, y_scale in (("add", 1 / 2900), ("sub", 1 / 2900), ("mul", 1 / 1100)):
        by = integer_binary(kind, 1 / 5000, 1 / 7300, y_scale, -32768, 30000, 15)
        for label, other in {"all": b, "rows": b[:, :, :1]}.items():
            shapes = {"a": (a.shape, 1 / 5000), "b": (other.shape, 1 / 7300), "y": (a.shape, y_scale)}
            tensors = (quantized(name, DType.INT16, shape, scale, 0) for name, (shape, scale) in shapes.items())
            op = QuantizedBinary("d", kind.upper(), kind, *tensors, by)
            yield Unit(f"wide_integer_{kind}_{label}", op, (a, other), ((0, 1, 2), (2, 0, 1)), (0, 1, 2))
            yield Unit(f"wide_integer_{kind}_{label}_constant", op, (a, other), constants={"b": other})


def integer_lstms() -> Iterator[Unit]:
    """One step and several, one sequence and two, a cell that is clipped, states at both ends."""
    for batch, steps, inputs, units, clip in ((1, 1, 3, 1, 2**15), (1, 4, 5, 7, 9000), (2, 3, 8, 4, 2**15)):
        state = np.random.default_rng(37 + batch)
        parts = [
            IntegerRows(
                state.integers(-127, 128, (4, units, n)).astype(np.int8),
                state.integers(-20000, 20000, (4, units)),
                ((1234567890, -4), (1987654321, -5), (1111111111, -4), (1515151515, -3)),
            )
            for n in (inputs, units)
        ]
        x, h = codes((batch, steps, inputs), DType.INT8, 38), codes((batch, units), DType.INT8, 39)
        c = codes((batch, 2 * units), DType.INT8, 40)
        c[0, :2], h[0, 0] = (0, -128), -128
        op = IntegerLstm(
            "lstm",
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            quantized("x", DType.INT8, x.shape, 0.05, 3),
            quantized("h", DType.INT8, h.shape, 0.0078, -4),
            Tensor("c", DType.INT8, c.shape),
            Tensor("y", DType.INT8, (batch, steps + 2, units)),
            *parts,
            (1 << 30, -14),
            (1 << 30, -18),
            (1073741900, -22),
            -4,
            -11 if units < 7 else -14,
            clip,
        )
        yield Unit(f"integer_lstm_{batch}_{steps}_{units}", op, (x, h, c))


def squared_differences() -> Iterator[Unit]:
    """Of two tensors in different orders, of one number for each row, and of a constant."""
    a, b = codes((3, 4, 5), DType.INT8, 34), codes((3, 4, 5), DType.INT8, 35)
    by = integer_binary("squared_difference", 0.031, 0.0173, 0.047, -128, 127)
    for label, other in {"all": b, "rows": b[:, :, :1]}.items():
        shapes = {"a": (a.shape, 0.031, -7), "b": (other.shape, 0.0173, 11), "y": (a.shape, 0.047, -120)}
        tensors = (quantized(name, DType.INT8, *shapes[name]) for name in shapes)
        op = QuantizedBinary("d", "SQUARED_DIFFERENCE", "squared_difference", *tensors, by)
        yield Unit(f"squared_difference_{label}", op, (a, other), ((0, 1, 2), (2, 0, 1)), (0, 1, 2))
        yield Unit(f"squared_difference_{label}_constant", op, (a, other), constants={"b": other})


def interpolations() -> Iterator[Unit]:
    """An image of two made larger down and smaller across, at places and between them, in either order in memory."""
    x = codes((2, 3, 5, 4), DType.INT8, 33)
    tensors = (Tensor("x", DType.INT8, x.shape), Tensor("y", DType.INT8, (2, 6, 3, 4)))
    down, across = Between((0, 0, 0, 1, 1, 2), (0, 512, 1023, 0, 1, 0)), Between((0, 2, 3), (256, 512, 768))
    op = Interpolate("image", "RESIZE_BILINEAR", *tensors, down, across)
    for label, order in {"last": (0, 1, 2, 3), "first": (0, 3, 1, 2)}.items():
        yield Unit(f"interpolate_{label}", op, (x,), (order,), order)
    one = (replace(tensor, shape=(1, *tensor.shape[1:])) for tensor in tensors)
    yield Unit("interpolate_one", Interpolate("image", "RESIZE_BILINEAR", *one, down, across), (x[:1],))
    yield Unit("interpolate_truncated", replace(op, op_type="Resize", truncates=True), (x,))


def dynamics() -> Iterator[Unit]:
    """Scales and zero points that are computed, numbers on half steps, and orders in memory."""
    x, extremes = numbers((2, 3, 4), 30), Tensor("x", DType.FLOAT32, (2,))
    yield Unit("extremes", Extremes("d", "D", Tensor("x", DType.FLOAT32, x.shape), replace(extremes, name="y")), (x,))
    for label, ends in {"both": (-3.7, 5.1), "tie": (-12.5, 242.5), "zero": (0, 0), "below": (-2, 0)}.items():
        given = (np.float32(ends),)
        scale, zero = Tensor("y", DType.FLOAT32, ()), Tensor("y", DType.UINT8, ())
        yield Unit(f"dynamic_scale_{label}", DynamicParameter("d", "D", "scale", extremes, scale), given)
        yield Unit(f"dynamic_zero_{label}", DynamicParameter("d", "D", "zero point", extremes, zero), given)
    steps = (np.arange(-260, 260) / 2).astype(np.float32).reshape(4, 10, 13)
    tensors = [Tensor("x", DType.FLOAT32, steps.shape), Tensor("s", DType.FLOAT32, ()), Tensor("z", DType.UINT8, ())]
    op = DynamicQuantize("d", "D", *tensors, Tensor("y", DType.UINT8, steps.shape))
    for zero, order in product((0, 131, 255), ((0, 1, 2), (0, 2, 1))):
        given = (steps, np.float32(1), np.uint8(zero))
        yield Unit(f"dynamic_quantize_{zero}_{order[1]}", op, given, (order, (), ()), order)
    sums = numbers((1, 3, 2), 31).astype(np.int64)
    for bound, last in product((1000, 2**31), (False, True)):
        acc = np.arange(24).reshape(2, 3, 4).astype(np.int32)
        order = (0, 2, 1) if last else (0, 1, 2)
        tensors = [
            Tensor("x", DType.INT32, acc.shape),
            Tensor("z", DType.INT8, ()),
            Tensor("y", DType.INT32, acc.shape),
        ]
        correction = ZeroPointCorrection("d", "D", *tensors, sums, ((0, 0), (0, 1, 2), (0, 1, 1, 0)), bound)
        name = f"{bound}_{'last' if last else 'first'}"
        yield Unit(f"correction_{name}", correction, (acc, np.int8(-7)), (order, ()), order)
        yield float_output(name, (correction,), (acc, np.int8(-7)), order)
    yield float_output("uncorrected", (), (acc,), order)
    for places, (label, activation) in product(((0, 0), (1, 0)), BOUNDED.items()):
        of_weights = np.broadcast_to(sums, (max(places) + 1, 3, 2)) + np.arange(max(places) + 1)[:, None, None]
        tensors = [*tensors[:2], replace(tensors[2], name="s")]
        correction = ZeroPointCorrection("d", "D", *tensors, of_weights, (places, (0, 1, 2), (0, 1, 1, 0)), 1000)
        yield layer_output(f"{label}_{places[0]}", correction, acc - 9, activation)


BOUNDED = {
    "bounded_not": FloatActivation(),
    "bounded_below": FloatActivation("Relu"),
    "bounded": FloatActivation("Clip", (-2.0, 3.0)),
    "tanh": FloatActivation("Tanh"),
}


def layer_output(name: str, correction: ZeroPointCorrection, acc: np.ndarray, activation: FloatActivation) -> Unit:
    """What quantize_dynamic makes of the sums of a convolution: a factor, an addend for each channel, a function."""
    numbers_of = {name: Tensor(name, DType.FLOAT32, acc.shape) for name in "cny"}
    one, row = Tensor("one", DType.FLOAT32, ()), Tensor("row", DType.FLOAT32, (3, 1))
    steps = [
        correction,
        Convert("d", "D", correction.y, numbers_of["c"]),
        FloatBinary("d", "D", "mul", numbers_of["c"], one, numbers_of["n"]),
        FloatBinary("d", "D", "add", numbers_of["n"], row, numbers_of["y"]),
    ]
    if activation.kind:
        steps[-1] = replace(steps[-1], y=replace(numbers_of["y"], name="a"))
        steps.append(FloatUnary("d", "D", steps[-1].y, numbers_of["y"], activation))
    op = FloatOutput("d", "D", correction.x, numbers_of["y"], tuple(steps))
    feeds, last = (acc, np.int8(-7), np.float32(0.37), numbers((3, 1), 47)), (0, 2, 1)
    return Unit(f"float_output_{name}", op, feeds, (last, (), (), (0, 1)), last, {"row": feeds[-1]})


def float_output(
    name: str, corrections: tuple[ZeroPointCorrection, ...], feeds: tuple[np.ndarray, ...], order: Order
) -> Unit:
    """Every kind of operation, with operands on either side: of one element, a number a channel, one an element."""
    acc = feeds[0]
    like = Tensor("c", DType.FLOAT32, acc.shape)
    one, row = (Tensor(name, DType.FLOAT32, shape) for name, shape in (("one", ()), ("row", (3, 1))))
    x = Tensor("x", DType.INT32, acc.shape)
    corrected = replace(x, name="sums")
    corrections = tuple(replace(correction, y=corrected) for correction in corrections)
    names = iter("abdefghij")
    number, steps, operands = like, [*corrections, Convert("d", "D", corrected if corrections else x, like)], []
    for kind, operand, is_first in (
        ("mul", one, False),
        ("add", row, False),
        ("sub", one, True),
        ("div", row, True),
        ("mul", row, True),
        ("sub", like, False),
    ):
        after, own = replace(like, name=f"n{len(steps)}"), replace(operand, name=next(names))
        steps.append(FloatBinary("d", "D", kind, *((own, number) if is_first else (number, own)), after))
        operands.append(own)
        number = after
    y = replace(like, name="y")
    steps.append(FloatUnary("d", "D", number, y, FloatActivation("Relu")))
    given = [numbers(operand.shape, 40 + index) for index, operand in enumerate(operands)]
    op = FloatOutput("d", "D", x, y, tuple(steps))
    orders = [order if len(operand.shape) == 3 else tuple(range(len(operand.shape))) for operand in operands]
    return Unit(f"float_output_{name}", op, (*feeds, *given), (order, *(() for _ in corrections), *orders), order)


PORTABLE = tuple(
    unit
    for make in (
        lookups,
        clamps_of_16_bits,
        channel_lookups,
        binaries,
        wide_binaries,
        broadcasts,
        twice,
        pools,
        averages,
        global_averages,
        large_global_averages,
        wide_global_averages,
        reductions,
        embeddings,
        gathered_elements,
        top_elements,
        arg_maxima,
        matmuls,
        layer_norms,
        instance_norms,
        float_normalizations,
        recurrent_layers,
        dynamic_lstms,
        float_matmuls,
        conversions,
        softmaxes,
        integer_lstms,
        integer_softmaxes,
        integer_unaries,
        wide_integer_binaries,
        wide_softmaxes,
        interpolations,
        squared_differences,
        quantizations,
        activations,
        movements,
        concats,
        dynamics,
    )
    for unit in make()
)
UNITS = (
    *PORTABLE,
    *(
        replace(unit, name=f"dsp_{unit.name}", target="cortex-m4")
        for unit in PORTABLE
        if isinstance(unit.op, QuantizedBinary | GlobalAveragePool | IntegerLstm | MatMul)
        and unit.op.y.dtype.is_quantized
        and not unit.name.startswith("wide")
    ),
    *(
        replace(unit, name=f"mve_{unit.name}", target="cortex-m55")
        for unit in PORTABLE
        if isinstance(unit.op, MatMul) and unit.op.y.dtype is not DType.FLOAT32 and not unit.name.startswith("wide")
    ),
)
