"""The operators that a random network is made of: each takes the network and a tensor, and adds what it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np

from fuzz_networks.network import Network, Value

Extend = Callable[[Network, Value], "Value | None"]
"""Adds an operator that reads the tensor; gives what it wrote, or None where it cannot read such a tensor."""

LARGEST = 6000
"""Elements of a tensor up to which operators go on from it."""


# Windows.


Window = tuple[dict[str, Any], list[int], list[int]]
"""Attributes of a convolution or pooling, its kernel, and the sizes of its outputs."""


def windows(net: Network, sizes: tuple[int, ...], *, is_pool: bool = False) -> Window:
    """A window on axes of these sizes, which fits: uneven, beyond the image, with gaps in between."""
    while True:
        found = _window(net, sizes, is_pool)
        if found is not None and min(found[2]) >= 1:
            return found


def _window(net: Network, sizes: tuple[int, ...], is_pool: bool) -> Window | None:
    rank = len(sizes)
    kernel = [net.pick(1, 1, 2, 3, 3, 3, 4, 5) for _ in sizes]
    if net.chance(0.3):
        kernel = [kernel[0]] * rank
    strides = [1] * rank if net.chance(0.4) else [net.pick(1, 1, 1, 2, 2, 3, 4, 6) for _ in sizes]
    dilations = [1] * rank if is_pool and net.chance(0.8) else [net.pick(1, 1, 1, 1, 2, 3) for _ in sizes]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _pads(net, kernel, kernel if is_pool else [r + net.chance(0.1) for r in reach])
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    auto = net.pick("SAME_UPPER", "SAME_LOWER", "VALID") if net.chance(0.15) else "NOTSET"
    if auto == "NOTSET":
        attributes["pads"] = pads
        outputs = [(i + pads[a] + pads[a + rank] - reach[a]) // strides[a] + 1 for a, i in enumerate(sizes)]
    elif auto == "VALID":
        attributes["auto_pad"] = auto
        outputs = [(i - r) // s + 1 for i, r, s in zip(sizes, reach, strides, strict=True)]
    elif max(dilations) > 1:
        return None
    else:
        attributes["auto_pad"] = auto
        outputs = [-(-i // s) for i, s in zip(sizes, strides, strict=True)]
    for name, default in (("strides", 1), ("dilations", 1), ("pads", 0)):
        if set(attributes.get(name, ())) == {default} and net.chance(0.5):
            del attributes[name]
    return attributes, kernel, outputs


def _pads(net: Network, kernel: list[int], below: list[int]) -> list[int]:
    """Pads before and behind each axis, less than ``below``; often those that keep the size."""
    if net.chance(0.4):
        return [min(k // 2, b - 1) for k, b in zip(kernel, below, strict=True)] * 2
    return [net.rng.randint(0, min(3, b - 1)) for b in below * 2]


def activated(net: Network, numbers: str) -> tuple[str, bool]:
    """Maybe a Relu or a Clip from 0 behind a convolution, product or sum, and whether there is one."""
    if not net.chance(0.3):
        return numbers, False
    return (net.node("Relu", [numbers]) if net.chance(0.75) else clip(net, numbers, 0.0, 6.0)), True


def clip(net: Network, numbers: str, low: float, high: float) -> str:
    if net.opset < 11:
        return net.node("Clip", [numbers], min=low, max=high)
    return net.node("Clip", [numbers, net.constant(np.float32(low)), net.constant(np.float32(high))])


def lowest(value: Value, is_clamped: bool) -> int | None:
    """The zero point behind a Relu that onnxruntime takes into its integer operator."""
    return value.low if is_clamped else None


def product_of(net: Network, x: Value, make: Callable[[str], str], shape: tuple[int, ...], spread: float) -> Value:
    """A float product, maybe a Relu, codes: fused by onnxruntime."""
    numbers, is_clamped = activated(net, make(net.dequantize(x)))
    meaning = net.meaning("", shape, spread, x.dtype)
    if is_clamped:
        meaning = net.meaning("", shape, spread, x.dtype, zero=meaning.low)
    return net.quantize(numbers, meaning)


def conv(net: Network, x: Value) -> Value | None:
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3):
        return None
    attributes, _, sizes = windows(net, x.shape[2:])
    channels = x.shape[1]
    divisors = [d for d in range(1, channels + 1) if channels % d == 0]
    group = net.pick(1, 1, 1, channels, channels, net.rng.choice(divisors))
    out = group * net.pick(1, 1, 1, 2, 3) if group > 1 else net.channels()
    return convolution(net, x, attributes, out, group, sizes)


def convolution(
    net: Network, x: Value, attributes: dict[str, Any], out: int, group: int, sizes: list[int]
) -> Value | None:
    """A convolution to ``out`` channels, whose image has these ``sizes``; None if it is large."""
    kernel, channels, shape = attributes["kernel_shape"], x.shape[1], (x.shape[0], out, *sizes)
    if prod(kernel) * out * channels // group > 20_000 or prod(shape) > LARGEST:
        return None
    is_integer = net.chance(net.integer)
    axis = 0 if net.chance(0.7) and (is_integer or net.opset >= 13) else None
    name, scale, zero, numbers = net.weights((out, channels // group, *kernel), x, axis)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * prod(kernel) * channels / group)) + 1e-9
    attributes["group"] = group if group > 1 or net.chance(0.3) else None
    bias, units = net.bias(out, x, scale, spread) if net.chance(0.7) else ("", None)
    if is_integer:
        y = net.meaning("", shape, spread, x.dtype)
        inputs = [*net.triple(x), name, net.constant(scale), net.constant(zero), *net.parameters(y)]
        inputs += [bias] if bias else []
        return net.add(replace(y, name=net.node("QLinearConv", inputs, **attributes)))
    inputs = [net.dequantized_weights(name, scale, zero, axis)]
    if bias:
        inputs.append(bias_numbers(net, bias, units, axis))
    return product_of(net, x, lambda a: net.node("Conv", [a, *inputs], **attributes), shape, spread)


def bias_numbers(net: Network, bias: str, units: Any, axis: int | None) -> str:
    """The float bias of a QDQ layer: int32 codes behind a DequantizeLinear, or floats."""
    if net.chance(0.1):
        return net.constant((net.constants[bias] * units.astype(np.float64)).astype(np.float32))
    scale = units[0] if axis is None else units
    zero = [net.constant(np.zeros(np.shape(scale), np.int32))] if net.chance(0.5) else []
    return net.node("DequantizeLinear", [bias, net.constant(scale), *zero], axis=None if axis is None else 0)


def conv_transpose(net: Network, x: Value) -> Value | None:
    """Last in its path: onnxruntime computes it in float32, so that a code may be the next one."""
    rank = len(x.shape) - 2
    if rank not in (1, 2) or not net.chance(0.3):
        return None
    group = net.pick(1, 1, x.shape[1])
    kernel = [net.pick(1, 2, 3, 4) for _ in range(rank)]
    strides = [net.pick(1, 2, 2, 3) for _ in range(rank)]
    pads = [net.rng.randint(0, k - 1) if net.chance(0.5) else 0 for k in kernel * 2]
    extra = [net.rng.randint(0, s - 1) for s in strides]
    sizes = [
        (i - 1) * s - pads[a] - pads[a + rank] + k + e
        for a, (i, s, k, e) in enumerate(zip(x.shape[2:], strides, kernel, extra, strict=True))
    ]
    out = net.pick(1, 2, 3, 5, 8)
    shape = (x.shape[0], out * group, *sizes)
    if min(sizes) < 1 or prod(shape) > LARGEST:
        return None
    axis = 1 if net.opset >= 13 and group == 1 and net.chance(0.6) else None
    name, scale, zero, numbers = net.weights((x.shape[1], out, *kernel), x, axis)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * prod(kernel) * x.shape[1] / group / prod(strides))) + 1e-9
    inputs = [net.dequantized_weights(name, scale, zero, axis)]
    if net.chance(0.6):
        bias, units = net.bias(out * group, x, scale, spread)
        inputs.append(bias_numbers(net, bias, units, axis))
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "output_padding": extra, "group": group}
    made = net.between(x, lambda a: net.node("ConvTranspose", [*a, *inputs], **attributes), shape, spread)
    return last(net, made, "code")


def last(net: Network, value: Value, tolerance: str) -> None:
    """The tensor is an output that nothing reads, right within a tolerance."""
    net.values.remove(value)
    net.outputs.append(net.node("DequantizeLinear", [value.name, *net.parameters(value)]))
    net.tolerance = tolerance


def pool(net: Network, x: Value) -> Value | None:
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3):
        return None
    is_largest = net.chance(0.5)
    attributes, _, sizes = windows(net, x.shape[2:], is_pool=True)
    shape = (*x.shape[:2], *sizes)
    if "dilations" in attributes and (not is_largest or net.opset < 10):
        if set(attributes["dilations"]) != {1}:
            return None
        del attributes["dilations"]
    if is_largest:
        if net.opset >= 12 and net.chance(0.5):
            made = net.node("MaxPool", [marked(net, x)], **attributes)
            return net.add(replace(x, name=made, shape=shape))
        like = x if net.chance(0.8) else None
        return net.between(x, lambda a: net.node("MaxPool", a, **attributes), shape, x.spread, like=like)
    attributes["count_include_pad"] = net.pick(0, 1, None)
    if net.chance(net.integer):
        y = net.meaning("", shape, x.spread, x.dtype)
        inputs = [*net.triple(x), *net.parameters(y)]
        return net.add(replace(y, name=net.microsoft("QLinearAveragePool", inputs, **attributes)))
    like = x if net.chance(0.5) else None
    return net.between(x, lambda a: net.node("AveragePool", a, **attributes), shape, x.spread, like=like)


def marked(net: Network, x: Value) -> str:
    """The name of a tensor whose codes an operator reads."""
    net.read.add(x.name)
    return x.name


def global_pool(net: Network, x: Value) -> Value | None:
    if len(x.shape) not in (3, 4):
        return None
    shape = (*x.shape[:2], *([1] * (len(x.shape) - 2)))
    spread = x.spread / sqrt(prod(x.shape[2:])) + 1e-9
    if net.chance(net.integer) and len(x.shape) == 4:
        y = net.meaning("", shape, spread, x.dtype)
        inputs = [*net.triple(x), *net.parameters(y)]
        return net.add(replace(y, name=net.microsoft("QLinearGlobalAveragePool", inputs, channels_last=0)))
    op_type = net.pick("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool")
    return net.between(x, lambda a: net.node(op_type, a), shape, spread)


def reduce(net: Network, x: Value) -> Value | None:
    op_type = net.pick("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")
    axes = sorted(net.rng.sample(range(len(x.shape)), net.rng.randint(1, len(x.shape))))
    keep = net.pick(0, 1)
    shape = tuple(1 if a in axes else s for a, s in enumerate(x.shape) if keep or a not in axes)
    if not shape:
        return None
    count = prod(x.shape[a] for a in axes)
    spread = x.spread * {"ReduceMean": 1 / sqrt(count), "ReduceSum": sqrt(count)}.get(op_type, 1.0)
    written = [a - len(x.shape) if net.chance(0.3) else a for a in axes]
    is_input = net.opset >= (13 if op_type == "ReduceSum" else 18)

    def make(a: list[str]) -> str:
        if is_input:
            return net.node(op_type, [*a, net.integers(*written)], keepdims=keep)
        return net.node(
            op_type, a, axes=[w % len(x.shape) for w in written] if net.opset < 11 else written, keepdims=keep
        )

    y = net.between(x, make, shape, spread)
    # Their float32 sums may lie on the other side of a tie.
    return last(net, y, "code") if op_type in ("ReduceMean", "ReduceSum") else y


# Products of matrices.


def matmul(net: Network, x: Value) -> Value | None:
    if len(x.shape) < 2 or x.shape[-1] > 200:
        return None
    inner, out = x.shape[-1], net.channels()
    shape = (*x.shape[:-1], out)
    if prod(shape) > LARGEST:
        return None
    is_integer = net.chance(net.integer)
    axis = 1 if net.chance(0.5) and (is_integer or net.opset >= 13) else None
    name, scale, zero, numbers = net.weights((inner, out), x, axis)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * inner)) + 1e-9
    if is_integer:
        y = net.meaning("", shape, spread, x.dtype)
        inputs = [*net.triple(x), name, net.constant(scale), net.constant(zero), *net.parameters(y)]
        return net.add(replace(y, name=net.node("QLinearMatMul", inputs)))
    weights = net.dequantized_weights(name, scale, zero, axis)
    return product_of(net, x, lambda a: net.node("MatMul", [a, weights]), shape, spread)


def gemm(net: Network, x: Value) -> Value | None:
    if len(x.shape) != 2:
        return None
    inner, out = x.shape[-1], net.channels()
    shape = (x.shape[0], out)
    turned = net.pick(0, 1)
    is_integer = net.chance(net.integer)
    axis = (0 if turned else 1) if net.chance(0.5) and (is_integer or net.opset >= 13) else None
    name, scale, zero, numbers = net.weights((out, inner) if turned else (inner, out), x, axis)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * inner)) + 1e-9
    bias, units = net.bias(out, x, scale, spread) if net.chance(0.8) else ("", None)
    if is_integer:
        y = net.meaning("", shape, spread, x.dtype)
        inputs = [*net.triple(x), name, net.constant(scale), net.constant(zero), bias, *net.parameters(y)]
        return net.add(replace(y, name=net.microsoft("QGemm", inputs, transB=turned or None, alpha=1.0)))
    operands = [net.dequantized_weights(name, scale, zero, axis)]
    if bias:
        operands.append(bias_numbers(net, bias, units, axis))
    if net.opset < 11 and not bias:
        return None
    return product_of(net, x, lambda a: net.node("Gemm", [a, *operands], transB=turned or None), shape, spread)


def attention(net: Network, x: Value) -> Value | None:
    """The product of two computed matrices: of a tensor and another one, or itself transposed."""
    if len(x.shape) < 2 or prod(x.shape) > 1000:
        return None
    partners = [v for v in net.values if len(v.shape) == len(x.shape) and v.shape[:-2] == x.shape[:-2]]
    fitting = [v for v in partners if v.shape[-2] == x.shape[-1] and v.dtype == x.dtype]
    y = net.rng.choice(fitting) if fitting and net.chance(0.7) else transposed(net, x, last=True)
    shape = (*x.shape[:-1], y.shape[-1])
    spread = x.spread * y.spread * sqrt(x.shape[-1])
    if net.chance(net.integer):
        z = net.meaning("", shape, spread, x.dtype)
        return net.add(replace(z, name=net.node("QLinearMatMul", [*net.triple(x), *net.triple(y), *net.parameters(z)])))
    return net.between([x, y], lambda ab: net.node("MatMul", ab), shape, spread)


def integer_sums(net: Network, x: Value) -> None:
    """ConvInteger or MatMulInteger, whose sums are an output."""
    if not net.chance(0.3 * net.integer):
        return
    if len(x.shape) == 4 and x.shape[1] <= 16:
        attributes, kernel, _ = windows(net, x.shape[2:])
        name, _, zero, _ = net.weights((net.pick(1, 2, 4, 5), x.shape[1], *kernel), x, None)
        op_type = "ConvInteger"
    elif len(x.shape) >= 2:
        name, _, zero, _ = net.weights((x.shape[-1], net.channels()), x, None)
        op_type, attributes = "MatMulInteger", {}
    else:
        return
    if x.dtype == "int8" and op_type == "ConvInteger":  # onnxruntime has it for uint8 alone
        return
    inputs = [marked(net, x), name, net.constant(np.asarray(x.zero, x.dtype)), net.constant(zero)]
    net.outputs.append(net.node(op_type, inputs, **attributes))


# Elementwise.


def pair(net: Network, x: Value) -> Value | None:
    """A residual: with another tensor of this shape, one that is broadcast, or the tensor itself."""
    same = [v for v in net.values if v.shape == x.shape and v.name != x.name and v.dtype == x.dtype]
    wide = [v for v in net.values if v.dtype == x.dtype and broadcast(v.shape, x.shape) == x.shape]
    if net.chance(0.12):
        y = x
    elif same and net.chance(0.8):
        y = net.rng.choice(same)
    else:
        y = net.rng.choice(wide)
    op_type = net.pick("Add", "Add", "Add", "Mul", "Mul", "Sub")
    spread = x.spread * y.spread if op_type == "Mul" else float(np.hypot(x.spread, y.spread))
    a, b = (x, y) if net.chance(0.5) else (y, x)
    if net.chance(net.integer) and op_type != "Sub":
        z = net.meaning("", x.shape, spread, x.dtype)
        inputs = [*net.triple(a), *net.triple(b), *net.parameters(z)]
        return net.add(replace(z, name=net.microsoft(f"QLinear{op_type}", inputs)))
    is_clamped = op_type == "Add" and net.chance(0.2)

    def make(ab: list[str]) -> str:
        made = net.node(op_type, ab)
        return net.node("Relu", [made]) if is_clamped else made

    return net.between([a, b], make, x.shape, spread, zero=lowest(x, is_clamped))


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


FUNCTIONS: dict[str, int] = {
    "Sigmoid": 6, "Tanh": 6, "HardSigmoid": 6, "LeakyRelu": 6, "Relu": 6, "Exp": 6, "Abs": 6, "Neg": 6, "Erf": 9,
    "Sqrt": 6, "Reciprocal": 6, "Softsign": 1, "HardSwish": 14, "Gelu": 20, "Floor": 6, "Ceil": 6, "Round": 11,
    "Sign": 9, "ThresholdedRelu": 10, "Shrink": 9, "QuickGelu": 0, "MsGelu": 0, "Clip": 6, "SiLU": 6, "GeluByErf": 9,
    "Square": 6, "Min": 8, "Max": 8, "AddConstant": 7, "MulConstant": 7,
}  # fmt: skip
"""Functions of one number by the opset that has them."""


def function(net: Network, x: Value) -> Value | None:
    name = net.rng.choice([name for name, since in FUNCTIONS.items() if since <= net.opset])
    if name in ("Sigmoid", "LeakyRelu") and net.chance(net.integer):
        y = net.meaning("", x.shape, 0.3 if name == "Sigmoid" else x.spread, x.dtype)
        attributes = {"alpha": net.rng.uniform(0.01, 0.9)} if name == "LeakyRelu" else {}
        return net.add(
            replace(y, name=net.microsoft(f"QLinear{name}", [*net.triple(x), *net.parameters(y)], **attributes))
        )
    spread = 0.4 if name in ("Sigmoid", "Tanh", "HardSigmoid", "Erf", "Softsign", "Sign") else x.spread
    if name == "Exp":
        spread = float(np.exp(min(2 * x.spread, 60)))
    if name == "Reciprocal":
        spread = 1 / (x.spread + 1e-6)
    if name == "Square":
        spread = x.spread**2
    return net.between(x, lambda a: apply(net, name, a[0], x), x.shape, spread)


def apply(net: Network, name: str, a: str, x: Value) -> str:
    number = net.constant(np.float32(net.rng.gauss(0, x.spread)))
    match name:
        case "Clip":
            low, high = sorted(net.rng.gauss(0, 2 * x.spread) for _ in range(2))
            return clip(net, a, low, high)
        case "LeakyRelu":
            return net.node(name, [a], alpha=net.rng.uniform(-0.5, 1.5))
        case "HardSigmoid" | "HardSwish" | "ThresholdedRelu":
            return net.node(name, [a])
        case "Shrink":
            return net.node(name, [a], lambd=x.spread, bias=net.rng.gauss(0, x.spread))
        case "Gelu":
            return net.node(name, [a], approximate=net.pick("none", "tanh"))
        case "QuickGelu":
            return net.microsoft(name, [a], alpha=net.rng.uniform(0.5, 2))
        case "MsGelu":
            return net.microsoft("Gelu", [a])
        case "SiLU":
            return net.node("Mul", [a, net.node("Sigmoid", [a])])
        case "GeluByErf":
            root = net.constant(np.float32(np.sqrt(2)))
            erf = net.node("Erf", [net.node("Div", [a, root])])
            half = net.node("Mul", [a, net.node("Add", [erf, net.constant(np.float32(1))])])
            return net.node("Mul", [half, net.constant(np.float32(0.5))])
        case "Square":
            return net.node("Mul", [a, a])
        case "Min" | "Max":
            return net.node(name, [a, number])
        case "AddConstant":
            return net.node(net.pick("Add", "Sub"), [a, number])
        case "MulConstant":
            return net.node(net.pick("Mul", "Div"), [a, number])
        case _:
            return net.node(name, [a])


def by_channel(net: Network, x: Value) -> Value | None:
    """BatchNormalization, PRelu, or a constant of each channel that is added or multiplied."""
    if len(x.shape) not in (3, 4):
        return None
    count = x.shape[1]

    def vector(spread: float, middle: float = 0.0) -> np.ndarray:
        return net.np.normal(middle, spread, count).astype(np.float32)

    column = (count, *([1] * (len(x.shape) - 2)))
    kind = net.pick("BatchNormalization", "PRelu", "Add", "Mul", "Sub")
    spread = x.spread
    if kind == "BatchNormalization":
        parts = [vector(0.5, 1), vector(x.spread), vector(x.spread), np.abs(vector(x.spread)) + np.float32(0.1)]
        names = [net.constant(part) for part in parts]
        return net.between(x, lambda a: net.node(kind, [*a, *names]), x.shape, spread)
    constant = net.constant(vector(0.7 if kind in ("PRelu", "Mul") else x.spread).reshape(column))
    return net.between(x, lambda a: net.node(kind, [*a, constant]), x.shape, spread)


def softmax(net: Network, x: Value) -> Value | None:
    axis = len(x.shape) - 1 if net.chance(0.7) else net.rng.randrange(len(x.shape))
    if net.chance(net.integer) and axis == len(x.shape) - 1:
        y = softmax_codes(net, x)
        inputs = [*net.triple(x), *net.parameters(y)]
        return net.add(replace(y, name=net.microsoft("QLinearSoftmax", inputs, axis=axis, opset=max(net.opset, 13))))
    if net.opset < 13:
        axis = len(x.shape) - 1
    made = net.node(
        "Softmax", [net.dequantize(x)], axis=net.pick(axis, axis - len(x.shape)) if net.opset >= 11 else axis
    )
    return net.quantize(made, softmax_codes(net, x))


def softmax_codes(net: Network, x: Value) -> Value:
    if net.chance(0.7):  # as quantizers have it
        return Value("", x.shape, 1 / 256, x.low, x.dtype, 0.3)
    return net.meaning("", x.shape, 0.3, x.dtype)


def normalization(net: Network, x: Value) -> Value | None:
    if net.opset >= 17 and x.shape[-1] >= 8 and net.chance(0.7):
        count = x.shape[-1]
        names = [net.constant(net.np.normal(1, 0.3, count).astype(np.float32))]
        if net.chance(0.8):
            names.append(net.constant(net.np.normal(0, 0.5, count).astype(np.float32)))
        epsilon = net.pick(1e-5, 1e-5, 1e-12, 1e-3)
        return net.between(
            x, lambda a: net.node("LayerNormalization", [*a, *names], axis=-1, epsilon=epsilon), x.shape, 1
        )
    if len(x.shape) in (3, 4) and prod(x.shape[2:]) > 1 and net.chance(0.4):
        names = [net.constant(net.np.normal(m, 0.4, x.shape[1]).astype(np.float32)) for m in (1, 0)]
        return net.between(x, lambda a: net.node("InstanceNormalization", [*a, *names]), x.shape, 1)
    return None


def requantize(net: Network, x: Value) -> Value | None:
    """Codes of another meaning."""
    if not net.chance(0.15):
        return None
    return net.between(x, lambda a: a[0], x.shape, x.spread)


# Movement.


def moved(
    net: Network, x: Value, make: Callable[[list[str]], str], shape: tuple[int, ...], *, codes: bool = True
) -> Value:
    """Codes that are moved: as such, or between DequantizeLinear and QuantizeLinear, mostly of the same meaning."""
    if codes and net.chance(0.25 + 0.5 * net.integer):
        return net.add(replace(x, name=make([marked(net, x)]), shape=shape))
    return net.between(x, make, shape, x.spread, like=x if net.chance(0.8) else None)


def transposed(net: Network, x: Value, *, last: bool = False) -> Value:
    order = list(range(len(x.shape)))
    if last:
        order[-2:] = order[:-3:-1]
    else:
        net.rng.shuffle(order)
    shape = tuple(x.shape[a] for a in order)
    return moved(net, x, lambda a: net.node("Transpose", a, perm=order), shape)


def transpose(net: Network, x: Value) -> Value | None:
    return transposed(net, x) if len(x.shape) > 1 else None


def reshape(net: Network, x: Value) -> Value | None:
    if net.chance(0.3):
        axis = net.rng.randint(0, len(x.shape))
        shape = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        return moved(net, x, lambda a: net.node("Flatten", a, axis=axis), shape)
    left, sizes = prod(x.shape), []
    rank = net.pick(2, 3, 3, 4, 4)
    for _ in range(rank - 1):
        divisors = [d for d in range(1, min(left, 16) + 1) if left % d == 0]
        sizes.append(net.rng.choice(divisors))
        left //= sizes[-1]
    sizes.append(left)
    net.rng.shuffle(sizes)
    if net.chance(0.3):
        sizes = [1, *x.shape] if len(x.shape) < 4 else [*x.shape[:2], prod(x.shape[2:])]
    if len(sizes) > 5 or max(sizes) > 400:
        return None
    written = list(sizes)
    if net.chance(0.4):
        written[net.rng.randrange(len(written))] = -1
    return moved(net, x, lambda a: net.node("Reshape", [*a, net.integers(*written)]), tuple(sizes))


def concat(net: Network, x: Value) -> Value | None:
    axis = net.rng.randrange(len(x.shape))
    rest = lambda v: (*v.shape[:axis], *v.shape[axis + 1 :])  # noqa: E731
    fitting = [v for v in net.values if len(v.shape) == len(x.shape) and rest(v) == rest(x) and v.dtype == x.dtype]
    others = [net.rng.choice(fitting) for _ in range(net.pick(1, 1, 2, 3))]
    parts = [x, *others]
    net.rng.shuffle(parts)
    shape = tuple(sum(v.shape[axis] for v in parts) if a == axis else s for a, s in enumerate(x.shape))
    if prod(shape) > LARGEST:
        return None
    spread = max(v.spread for v in parts)
    written = net.pick(axis, axis - len(shape)) if net.opset >= 11 else axis
    if net.chance(net.integer):
        y = net.meaning("", shape, spread, x.dtype)
        inputs = [*net.parameters(y), *(name for v in parts for name in net.triple(v))]
        return net.add(replace(y, name=net.microsoft("QLinearConcat", inputs, axis=axis)))
    like = x if net.chance(0.4) else None
    return net.between(parts, lambda a: net.node("Concat", a, axis=written), shape, spread, like=like)


def slice_(net: Network, x: Value) -> Value | None:
    axes = sorted(net.rng.sample(range(len(x.shape)), net.rng.randint(1, min(2, len(x.shape)))))
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for axis in axes:
        n = x.shape[axis]
        begin, end = sorted(net.rng.sample(range(n + 1), 2))
        step = net.pick(1, 1, 1, 2, 3, -1, -2)
        if step < 0:
            start, stop = end - 1, begin - 1
            indices = range(start, stop, step)
            stop = stop if stop >= 0 else -n - 1
        else:
            start, stop, indices = begin, end, range(begin, end, step)
            if end == n and net.chance(0.3):
                stop = 2**31 - 1
            elif net.chance(0.2) and end < n:
                stop = end - n
        starts.append(start), ends.append(stop), steps.append(step)
        shape[axis] = len(indices)
    names = [net.integers(*each) for each in (starts, ends, axes, steps)]
    return moved(net, x, lambda a: net.node("Slice", [*a, *names]), tuple(shape))


def split(net: Network, x: Value) -> Value | None:
    axis = net.rng.randrange(len(x.shape))
    n = x.shape[axis]
    if n < 2:
        return None
    count = net.rng.randint(2, min(3, n))
    cuts = sorted(net.rng.sample(range(1, n), count - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    is_codes = net.opset >= 13 and net.chance(0.4)
    source = marked(net, x) if is_codes else net.dequantize(x)
    if net.opset >= 13:
        name = net.node("Split", [source, net.integers(*sizes)], outputs=count, axis=axis)
    else:
        name = net.node("Split", [source], outputs=count, axis=axis, split=sizes)
    found = []
    for index, size in enumerate(sizes):
        part = name if index == 0 else f"{name}.{index}"
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        value = replace(x, name=part, shape=shape)
        if is_codes:
            found.append(net.add(value))
        elif index == 0 or net.chance(0.9):
            found.append(net.quantize(part, value))
    return net.rng.choice(found)


def pad(net: Network, x: Value) -> Value | None:
    if net.opset < 11:
        return None
    mode = net.pick("constant", "constant", "constant", "edge", "reflect")
    most = [2 if mode != "reflect" else min(2, n - 1) for n in x.shape]
    pads = [net.rng.randint(0, most[a]) if net.chance(0.6) else 0 for a in range(len(x.shape))] * 1
    pads += [net.rng.randint(0, most[a]) if net.chance(0.6) else 0 for a in range(len(x.shape))]
    if mode == "constant" and net.chance(0.1):
        pads = [net.rng.randint(-1, 2) if n > 3 else p for p, n in zip(pads, x.shape * 2, strict=True)]
    rank = len(x.shape)
    shape = tuple(n + pads[a] + pads[a + rank] for a, n in enumerate(x.shape))
    if min(shape) < 1 or prod(shape) > LARGEST:
        return None
    fill = net.rng.choice([0.0, 0.0, 0.0, net.rng.gauss(0, x.spread)])
    extra = [net.constant(np.float32(fill))] if mode == "constant" and (fill or net.chance(0.5)) else []
    codes = [net.constant(np.asarray(x.zero, x.dtype))] if mode == "constant" else []
    if net.chance(0.3) and net.opset >= 13:
        made = net.node("Pad", [marked(net, x), net.integers(*pads), *codes], mode=mode)
        return net.add(replace(x, name=made, shape=shape))
    like = x if net.chance(0.8) else None
    return net.between(
        x, lambda a: net.node("Pad", [*a, net.integers(*pads), *extra], mode=mode), shape, x.spread, like=like
    )


def resize(net: Network, x: Value) -> Value | None:
    if len(x.shape) != 4:
        return None
    by = [net.pick(1, 2, 2, 3), net.pick(1, 2, 2, 3)]
    sizes = [x.shape[2] * by[0], x.shape[3] * by[1]]
    if net.opset >= 11 and net.chance(0.3):
        sizes = [net.size(), net.size()]
    shape = (*x.shape[:2], *sizes)
    if prod(shape) > LARGEST:
        return None
    if net.opset < 11:
        scales = net.numbers(1, 1, *by)
        return moved(net, x, lambda a: net.node("Resize", [*a, scales], mode="nearest"), shape)
    mode = net.pick("nearest", "nearest", "linear")
    if sizes[0] == x.shape[2] and sizes[1] != x.shape[3]:
        # Between convolutions onnxruntime moves channels last and takes 1, 1, scale, 1 for channels first: it then adds
        # up the quarters of the last channel instead of those of the last row. Half a code is rounded up or down by it.
        mode = "nearest"
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": net.rng.choice(modes)}
    if mode == "nearest":
        attributes["nearest_mode"] = net.pick("floor", "round_prefer_floor", "ceil", "round_prefer_ceil")
    roi = "" if net.opset >= 13 else net.constant(np.zeros(0, np.float32))
    if sizes == [x.shape[2] * by[0], x.shape[3] * by[1]] and net.chance(0.6):
        inputs = [roi, net.numbers(1, 1, *by)]
    else:
        none = "" if net.opset >= 13 else net.constant(np.zeros(0, np.float32))
        inputs = [roi, none, net.integers(*shape)]
    return moved(net, x, lambda a: net.node("Resize", [*a, *inputs], **attributes), shape, codes=mode == "nearest")


def blocks(net: Network, x: Value) -> Value | None:
    if len(x.shape) != 4:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0 and net.chance(0.5):
        mode = net.pick("DCR", "CRD") if net.opset >= 11 else None
        make = lambda a: net.node("DepthToSpace", a, blocksize=2, mode=mode)  # noqa: E731
        return moved(net, x, make, (n, c // 4, 2 * h, 2 * w), codes=False)
    if h % 2 == 0 and w % 2 == 0:
        return moved(
            net, x, lambda a: net.node("SpaceToDepth", a, blocksize=2), (n, 4 * c, h // 2, w // 2), codes=False
        )
    return None


def axes(net: Network, x: Value) -> Value | None:
    """Squeeze, Unsqueeze, Expand, Tile, Gather, Identity."""
    kind = net.pick("Squeeze", "Unsqueeze", "Expand", "Tile", "Gather", "Identity")
    shape = list(x.shape)
    match kind:
        case "Squeeze":
            ones = [a for a, s in enumerate(shape) if s == 1]
            if not ones or len(shape) < 3:
                return None
            axis = net.rng.choice(ones)
            del shape[axis]
        case "Unsqueeze":
            if len(shape) > 3:
                return None
            axis = net.rng.randint(0, len(shape))
            shape.insert(axis, 1)
        case "Expand":
            shape = [net.pick(2, 3) if s == 1 and net.chance(0.5) else s for s in shape]
            return moved(net, x, lambda a: net.node("Expand", [*a, net.integers(*shape)]), tuple(shape), codes=False)
        case "Tile":
            times = [net.pick(1, 1, 2) for _ in shape]
            shape = [s * t for s, t in zip(shape, times, strict=True)]
            if prod(shape) > LARGEST:
                return None
            return moved(net, x, lambda a: net.node("Tile", [*a, net.integers(*times)]), tuple(shape))
        case "Gather":
            axis = net.rng.randrange(len(shape))
            indices = [net.rng.randrange(shape[axis]) for _ in range(net.size())]
            shape[axis] = len(indices)
            return moved(net, x, lambda a: net.node("Gather", [*a, net.integers(*indices)], axis=axis), tuple(shape))
        case _:
            return moved(net, x, lambda a: net.node("Identity", a), tuple(shape))
    if net.opset < 13:
        return moved(net, x, lambda a: net.node(kind, a, axes=[axis]), tuple(shape))
    return moved(net, x, lambda a: net.node(kind, [*a, net.integers(axis)]), tuple(shape))


def arg_max(net: Network, x: Value) -> None:
    """Places of the largest or the smallest, which are an output."""
    if net.opset < 13 or not net.chance(0.3):
        return
    by = {"axis": net.rng.randrange(len(x.shape)), "keepdims": net.pick(0, 1), "select_last_index": net.pick(0, 1)}
    source = marked(net, x) if net.chance(0.5) else net.dequantize(x)
    net.outputs.append(net.node(net.pick("ArgMax", "ArgMin"), [source], **by))


def image_conv(net: Network, x: Value) -> Value | None:
    """A convolution as networks for images have it: 3x3 or 1x1, depthwise or all channels, often of the same size."""
    if len(x.shape) != 4 or min(x.shape[2:]) < 2:
        return None
    channels = x.shape[1]
    is_depthwise = net.chance(0.4)
    kernel = net.pick([3, 3], [3, 3], [5, 3], [2, 2], [3, 1]) if is_depthwise or net.chance(0.5) else [1, 1]
    strides = net.pick([1, 1], [1, 1], [1, 1], [2, 2], [2, 1])
    pads = [k // 2 for k in kernel] * 2 if net.chance(0.8) else [0] * 4
    sizes = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(x.shape[2:], kernel, strides, pads[:2], strict=True)]
    if min(sizes) < 1:
        return None
    out = channels if is_depthwise else net.pick(channels, net.channels(), 4, 8)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return convolution(net, x, attributes, out, channels if is_depthwise else 1, sizes)


OPERATORS: dict[Extend, int] = {
    conv: 30, pair: 14, pool: 10, function: 10, matmul: 8, gemm: 6, concat: 6, global_pool: 3, reduce: 3, attention: 4,
    integer_sums: 1, arg_max: 1, by_channel: 4, softmax: 4, normalization: 4, requantize: 1, transpose: 4, reshape: 5,
    slice_: 3, split: 3, pad: 3, resize: 4, blocks: 2, axes: 4, conv_transpose: 2,
}  # fmt: skip
"""How often each operator is tried."""

IMAGE: dict[Extend, int] = {
    image_conv: 24, conv: 3, pair: 9, pool: 4, function: 4, by_channel: 2, concat: 3, resize: 1, pad: 1, global_pool: 1,
    softmax: 1,
}  # fmt: skip
"""The same in networks of images."""
