"""Operators that work element by element, quantized and float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from qcgen import arithmetic, functions
from qcgen.ir.element_types import element_type
from qcgen.ir.program import (
    BinaryKind,
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    Float32s,
    FloatActivation,
    FloatBinary,
    FloatUnary,
    Lookup,
    Operator,
    Quantize,
    QuantizedBinary,
    Reshape,
    Tensor,
)
from qcgen.ir.types import DType
from qcgen.lower.codes import are_wide, ends_of, of_type
from qcgen.lower.source import Source, quantization_of
from qcgen.lower.truth import to_truth


def lower_quantize(source: Source) -> tuple[Operator, ...]:
    """QuantizeLinear, per tensor: (x, y_scale, y_zero_point)."""
    return (Quantize(*source.called, source.tensor(0), source.result(source.quantization(1, 2))),)


def lower_dynamic_quantize(source: Source) -> tuple[Operator, ...]:
    """DynamicQuantizeLinear: codes of 8 bits, and the scale and the zero point that it finds for each input."""
    scale, zero_point = (
        source.result(index=index)
        if index < len(source.node.outputs) and source.node.outputs[index]
        else source.inner(suffix, dtype, ())
        for index, suffix, dtype in ((1, "scale", DType.FLOAT32), (2, "zero_point", DType.UINT8))
    )
    return quantized_by_extremes(source, scale, zero_point, source.result() if source.node.outputs[0] else None)


def quantized_by_extremes(
    source: Source, scale: Tensor, zero_point: Tensor, codes: Tensor | None
) -> tuple[Operator, ...]:
    """The first input's scale and zero point, from its smallest and largest number, and its codes, if they are used."""
    called = source.called
    x, extremes = source.tensor(0), source.inner("extremes", DType.FLOAT32, (2,))
    made = () if codes is None else (DynamicQuantize(*called, x, scale, zero_point, codes),)
    return (
        Extremes(*called, x, extremes),
        DynamicParameter(*called, "scale", extremes, scale),
        DynamicParameter(*called, "zero point", extremes, zero_point),
        *made,
    )


def lower_dequantize(source: Source) -> tuple[Operator, ...]:
    """DequantizeLinear, per tensor: (x, x_scale, x_zero_point)."""
    return (Dequantize(*source.called, source.tensor(0, source.quantization(1, 2)), source.result()),)


def _of_codes(source: Source, kind: BinaryKind, a: Tensor, b: Tensor, y: Tensor) -> tuple[Operator, ...]:
    """The operator of codes, all of one type where they have 8 bits.

    onnxruntime takes an operand that is repeated along the innermost axis for the second one, whichever comes first;
    the order of the additions depends on it.
    """
    before: tuple[Operator, ...] = ()
    if not are_wide((a, b, y)):
        (a, of_a), (b, of_b) = of_type(source, a, y.dtype), of_type(source, b, y.dtype)
        before = (*of_a, *of_b)
        if kind == "add" and _repeats_innermost(a, b):
            a, b = b, a
    return (*before, QuantizedBinary(*source.called, kind, a, b, y))


def _repeats_innermost(a: Tensor, b: Tensor) -> bool:
    """Whether a has size 1 on the innermost axis on which either has more."""
    rank = max(len(a.shape), len(b.shape))
    sizes = zip(*((1,) * (rank - len(t.shape)) + t.shape for t in (a, b)), strict=True)
    inner = [pair for pair in sizes if max(pair) > 1][-1:]
    return any(first == 1 for first, _ in inner)


def lower_qlinear_sigmoid(source: Source) -> tuple[Operator, ...]:
    """QLinearSigmoid: (X, scale, zero point, Y_scale, Y_zero_point)."""
    return _table(source, functions.logistic)


def lower_qlinear_leaky_relu(source: Source) -> tuple[Operator, ...]:
    """QLinearLeakyRelu: inputs as of QLinearSigmoid."""
    alpha = source.real("alpha", 0.01)
    return _table(source, lambda x: functions.leaky_relu(x, alpha))


def _table(source: Source, function: Callable[[Float32s], Float32s]) -> tuple[Operator, ...]:
    x, y = source.tensor(0, source.quantization(1, 2)), source.result(source.quantization(3, 4))
    return (lookup(source, x, y, function),)


def lookup(source: Source, x: Tensor, y: Tensor, function: Callable[[Float32s], Float32s]) -> Lookup:
    """The table of a float function between two quantized tensors that say what their codes mean."""
    x_by, y_by = quantization_of(x), quantization_of(y)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    values = function(arithmetic.dequantize(codes, x_by.scale, x_by.zero_point))
    table = arithmetic.quantize(values, y_by.scale, y_by.zero_point, y.dtype.low, y.dtype.high)
    return Lookup(*source.called, x, y, table)


def lower_cast(source: Source) -> tuple[Operator, ...]:
    """Cast to another type, or to the one that is there."""
    to = source.node.attributes.get("to")
    if isinstance(to, int) and element_type(to) is DType.BOOL:
        return to_truth(source)
    x, y = source.tensor(0), source.result()
    if x.dtype is y.dtype:
        return lower_same(source)
    return (Convert(*source.called, x, y),)


def lower_same(source: Source) -> tuple[Operator, ...]:
    """Operators that change nothing: Identity, Dropout."""
    return (Reshape(*source.called, source.tensor(0), source.result()),)


def lower_activation(source: Source) -> tuple[Operator, ...]:
    """Relu, Clip and the other activations of ai.onnx; of 8-bit codes, Relu and Clip compare the codes themselves."""
    x, y = source.tensor(0), source.result()
    activation = _ACTIVATIONS[source.node.op_type](source)
    if x.dtype.is_float:
        return (FloatUnary(*source.called, x, y, activation),)
    low, high = activation.params if activation.kind == "Clip" else (0, x.dtype.high)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    table = np.minimum(np.maximum(codes, int(max(low, x.dtype.low))), int(min(high, x.dtype.high)))
    return (Lookup(*source.called, x, y, table),)


def _clip(source: Source) -> FloatActivation:
    """The bounds are attributes before opset 11; an absent one is the end of the type, which is finite for floats."""
    largest = float(np.finfo(np.float32).max)
    if source.node.version < 11:
        return FloatActivation("Clip", (source.real("min", -largest), source.real("max", largest)))
    dtype = source.tensor(0).dtype
    ends = (dtype.low, dtype.high) if dtype.is_code else (-largest, largest)
    return FloatActivation("Clip", (source.number(1, ends[0]), source.number(2, ends[1])))


_ACTIVATIONS: dict[str, Callable[[Source], FloatActivation]] = {
    "Clip": _clip,
    "HardSigmoid": lambda s: FloatActivation("HardSigmoid", (s.real("alpha", 0.2), s.real("beta", 0.5))),
    "HardSwish": lambda _: FloatActivation("HardSwish"),
    "LeakyRelu": lambda s: FloatActivation("LeakyRelu", (s.real("alpha", 0.01),)),
    "Relu": lambda _: FloatActivation("Relu"),
    "Sigmoid": lambda _: FloatActivation("Sigmoid"),
    "Tanh": lambda _: FloatActivation("Tanh"),
}
"""The activations of ai.onnx, with their parameters."""

_KINDS: dict[str, Literal["add", "mul", "sub"]] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "QLinearAdd": "add",
    "QLinearMul": "mul",
}


def lower_binary(source: Source) -> tuple[Operator, ...]:
    """Two tensors, float32 or codes; Div, and Sub where no code has 16 bits, in float32."""
    kind = _KINDS.get(source.node.op_type)
    ends = None if kind is None else ends_of(source, 0, 1)
    if ends is not None and kind is not None and (are_wide(ends) or kind != "sub"):
        return _of_codes(source, kind, *ends)
    return (FloatBinary(*source.called, kind or "div", source.tensor(0), source.tensor(1), source.result()),)
