"""Quantization, casts, sums and products: element by element, quantized and float."""

from __future__ import annotations

from typing import Literal

from qcgen.ir.element_types import element_type
from qcgen.ir.program import (
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatBinary,
    Operator,
    Quantize,
    QuantizedBinary,
    Reshape,
    Tensor,
)
from qcgen.ir.types import DType
from qcgen.lower.codes import are_wide, ends_of, of_type
from qcgen.lower.source import Source
from qcgen.lower.truth import to_truth


def lower_quantize(source: Source) -> Operator:
    """QuantizeLinear, per tensor: (x, y_scale, y_zero_point)."""
    return Quantize(*source.called, source.tensor(0), source.result(source.quantization(1, 2)))


def lower_dequantize(source: Source) -> Operator:
    """DequantizeLinear, per tensor: (x, x_scale, x_zero_point)."""
    return Dequantize(*source.called, source.tensor(0, source.quantization(1, 2)), source.result())


def lower_dynamic_quantize(source: Source) -> tuple[Operator, ...]:
    """DynamicQuantizeLinear: codes of 8 bits, and the scale and the zero point that it finds for each input."""
    outputs = (*source.node.outputs, "", "")
    scale, zero_point = (
        source.result(index=index) if outputs[index] else source.inner(suffix, dtype, ())
        for index, suffix, dtype in ((1, "scale", DType.FLOAT32), (2, "zero_point", DType.UINT8))
    )
    return quantized_by_extremes(source, scale, zero_point, source.result() if outputs[0] else None)


def quantized_by_extremes(
    source: Source, scale: Tensor, zero_point: Tensor, codes: Tensor | None
) -> tuple[Operator, ...]:
    """The first input's scale and zero point, from its smallest and largest number, and its codes, if they are used."""
    x, extremes = source.tensor(0), source.inner("extremes", DType.FLOAT32, (2,))
    made = () if codes is None else (DynamicQuantize(*source.called, x, scale, zero_point, codes),)
    return (
        Extremes(*source.called, x, extremes),
        DynamicParameter(*source.called, "scale", extremes, scale),
        DynamicParameter(*source.called, "zero point", extremes, zero_point),
        *made,
    )


def lower_cast(source: Source) -> Operator | tuple[Operator, ...]:
    """Cast to another type, or to the one that is there."""
    to, (name, op_type, x, y) = source.node.attributes.get("to"), source.ends
    if isinstance(to, int) and element_type(to) is DType.BOOL:
        return to_truth(source)
    return Reshape(name, op_type, x, y) if x.dtype is y.dtype else Convert(name, op_type, x, y)


def lower_same(source: Source) -> Operator:
    """Operators that change nothing: Identity, Dropout."""
    return Reshape(*source.ends)


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
    if ends is None or kind is None or not (are_wide(ends) or kind != "sub"):
        return (FloatBinary(*source.called, kind or "div", source.tensor(0), source.tensor(1), source.result()),)
    (a, b, y), before = ends, list[Operator]()
    # Codes of 8 bits are all of one type. onnxruntime takes an operand that is repeated along the innermost axis for
    # the second one, whichever comes first; the order of the additions depends on it.
    if not are_wide(ends):
        (a, of_a), (b, of_b) = of_type(source, a, y.dtype), of_type(source, b, y.dtype)
        before += (*of_a, *of_b)
        if kind == "add" and _repeats_innermost(a, b):
            a, b = b, a
    return (*before, QuantizedBinary(*source.called, kind, a, b, y))


def _repeats_innermost(a: Tensor, b: Tensor) -> bool:
    """Whether a has size 1 on the innermost axis on which either has more."""
    rank = max(len(a.shape), len(b.shape))
    sizes = zip(*((1,) * (rank - len(t.shape)) + t.shape for t in (a, b)), strict=True)
    inner = [pair for pair in sizes if max(pair) > 1][-1:]
    return any(first == 1 for first, _ in inner)
