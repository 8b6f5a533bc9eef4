"""QLinearConv in Orion's fixed point, unless its numbers leave 32 bits for every input."""

from __future__ import annotations

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Conv, Float32s, Int64s, Operator, OrionConv, Requantize, inputs_of
from qcgen.ir.types import Array, DType
from qcgen.lower.codes import codes_of, has_bias
from qcgen.lower.linear import lower_conv
from qcgen.lower.source import Source, quantization_of
from qcgen.options import spelt
from qcgen.orion import MAGNITUDE_MAX, accumulators, multiply, safe_accumulators

# The magnitudes of an Orion convolution that leave 32 bits whatever the input is: Orion panics every time.

FORMATS = {16: "FP16x16", 23: "FP8x23"}
"""Orion's formats with 32-bit magnitudes, by their fraction bits."""


def _too_large(where: str, bits: int, quantity: str, values: Int64s, channels: bool = True) -> tuple[Problem, ...]:
    """What to tell the user if a magnitude of the values (M, ...), which no input changes, does not fit 32 bits."""
    by_channel = np.abs(values.reshape(values.shape[0], -1)).max(axis=1)
    channel = int(np.argmax(by_channel))
    value, place = int(by_channel[channel]), f" in output channel {channel}" if channels else ""
    if value <= MAGNITUDE_MAX:
        return ()
    what = (
        f"{quantity} has a magnitude of {value} (the number {value / 2**bits:.6g}){place},"
        f" {value - MAGNITUDE_MAX} more than the {MAGNITUDE_MAX} that {FORMATS[bits]} holds"
    )
    hint = f"every weight, bias and scale must stay below {2 ** (32 - bits)}: use smaller weights or scales"
    other = "" if bits == 16 else f", or compile with {spelt(numerics='orion-fp16x16')}, whose numbers reach 65536"
    return (Problem(where, what, hint + other),)


def overflows(where: str, op: OrionConv) -> tuple[Problem, ...]:
    """Every quantity of the convolution that leaves 32 bits whatever the input is, so that there is never an output.

    All numbers of ``op`` may have any size that int64 holds. What only some inputs drive so far is tested at run time.
    """
    constants = ("a dequantized weight", op.weights), ("the dequantized bias", op.bias)
    found = (_too_large(where, op.fraction_bits, *constant) for constant in constants)
    return tuple(problem for problems in found for problem in problems) or _never_requantized(where, op)


def _never_requantized(where: str, op: OrionConv) -> tuple[Problem, ...]:
    """The first output channel none of whose accumulators can be requantized."""
    reached, (low, high) = accumulators(op), safe_accumulators(op)
    lost = np.flatnonzero((reached[:, 0] > high) | (reached[:, 1] < low))
    if not lost.size:
        return ()
    channel = int(lost[0])
    lowest, highest = reached[channel].tolist()
    what = (
        f"no input has an output in {FORMATS[op.fraction_bits]}: in output channel {channel} the sum of products and"
        f" bias is within [{lowest}, {highest}], and divided by y_scale it fits 32 bits within [{low}, {high}] only"
    )
    return (Problem(where, what, "use a larger y_scale or a smaller bias"),)


# The operands of a convolution of codes as Orion's fixed point takes them: per-tensor scales, int8 codes.

INPUTS = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B")
"""QLinearConv's inputs in their order, by ONNX's names."""

PER_TENSOR = "quantize per tensor: Orion's arithmetic has one scale and one zero point for a whole tensor"


def convolutions_of_codes(graph: Graph) -> tuple[list[Node], dict[str, tuple[Operator, ...]]]:
    """The nodes that are left where a Conv between DequantizeLinear and QuantizeLinear reads and writes the codes.

    And by its node's name each such Conv, and each QLinearConv, with what it becomes.
    """
    found: dict[str, tuple[Operator, ...]] = {}
    for node in graph.nodes:
        operators = lower_conv(Source(node, graph)) if node.is_a("Conv", "QLinearConv") else ()
        if operators and isinstance(operators[-1], Conv) and isinstance(operators[-1].epilogue, Requantize):
            found[node.name] = operators
    made = {operators[-1].y.name for operators in found.values()}
    nodes = [node for node in graph.nodes if node.op_type != "QuantizeLinear" or node.outputs[0] not in made]
    read = {x.name for operators in found.values() for x in inputs_of(operators[0])}
    read |= {name for node in nodes if node.name not in found for name in node.inputs}
    used = read | set(graph.outputs)
    return [node for node in nodes if node.name in found or used.intersection(node.outputs)], found


def _names(source: Source) -> dict[str, str]:
    """What the model calls each of INPUTS; a zero point that it leaves out is called after the scale."""
    if source.node.op_type == "QLinearConv":
        return dict(zip(INPUTS, source.node.inputs, strict=False))
    ends = (*map(source.graph.dequantizer, source.node.inputs[:2]), source.graph.quantizer(source.node))
    x, w, y = (
        (each.input(0), each.input(1), each.input(2) or f"{each.input(1)}_zero_point")
        for each in ends
        if each is not None
    )
    return dict(zip(INPUTS, (*x, *w, *y[1:], f"{source.node.input(2)}_quantized"), strict=True))


class _Operands:
    """Encodes operands; what Orion has not gathers in ``problems``, and a harmless value stands in for it."""

    def __init__(self, source: Source, fraction_bits: int) -> None:
        self.where = f"node {source.node.name!r} ({source.node.operator})"
        self.problems: list[Problem] = []
        self._names, self._bits = _names(source), fraction_bits

    def scale(self, name: str, given: Float32s) -> int:
        """A scale as Orion encodes it: truncated toward zero to f bits, 1 to 2^32 - 1."""
        if not self._is_one(name, given):
            return 1
        scale, bits = float(given.reshape(())), self._bits
        encoded = encode_scale(scale, bits)
        if 0 < encoded <= MAGNITUDE_MAX:
            return encoded
        what, hint = f"becomes 0 in {FORMATS[bits]}", f"a scale must be at least {2.0**-bits:.6g} here"
        if encoded:
            what = f"is {encoded} in {FORMATS[bits]}, more than {MAGNITUDE_MAX}"
            hint = f"a scale must be below {2 ** (32 - bits)} here"
        self.reject(name, f"{scale:.6g} {what}", hint)
        return 1

    def zero_point(self, name: str, given: Array) -> int:
        """An int8 zero point; without one the tensor of a QLinearConv would be uint8."""
        return int(given.reshape(())) if self._is_one(name, given) and self.is_int8(name, DType.of(given)) else 0

    def bias(self, codes: Int64s, x_scale: int, w_scale: int) -> Int64s:
        """The dequantized bias (M,): B · (x_scale·w_scale), the scales' product truncated.

        Orion encodes B as B·2^f and multiplies; that magnitude and the scale's must fit 32 bits, and then the product
        needs no truncation.
        """
        scale = (x_scale * w_scale) >> self._bits
        unit = "x_scale times w_scale, the scale of the bias,"
        problems = (
            *_too_large(self.where, self._bits, "the encoded bias", codes << self._bits),
            *_too_large(self.where, self._bits, unit, np.array([scale], np.int64), channels=False),
        )
        self.problems += problems
        return np.zeros_like(codes) if problems else codes * scale

    def _is_one(self, name: str, given: Array) -> bool:
        if given.size != 1:
            self.reject(name, f"it has {given.size} elements, not 1", PER_TENSOR)
        return given.size == 1

    def is_int8(self, name: str, dtype: DType) -> bool:
        """Whether codes have the only type that Orion has."""
        if dtype is not DType.INT8:
            hint = f"quantize activations and weights to int8, or compile with {spelt(numerics='onnxruntime')}"
            self.reject(name, f"its type is {dtype.value}, not int8", hint)
        return dtype is DType.INT8

    def reject(self, name: str, what: str, hint: str) -> None:
        """Notes what is wrong with an input."""
        tensor = self._names[name]
        label = f"input {name}" if tensor in ("", name) else f"input {name} {tensor!r}"
        self.problems.append(Problem(self.where, f"{label}: {what}", hint))


def encode_scale(scale: float, fraction_bits: int) -> int:
    """scale · 2^fraction_bits truncated toward zero; a finite scale, exact because the factor is a power of two."""
    return int(scale * 2.0**fraction_bits)


def lower_orion(source: Source, conv: Conv, fraction_bits: int) -> OrionConv:
    """What a convolution of codes, which a node becomes, means in FP16x16 (16 fraction bits) or FP8x23 (23).

    Raises ModelRejected with every problem: operands of other types or scales than Orion has or, once these are right,
    numbers that leave 32 bits for every input, where Orion panics. The geometry is ONNX's: Orion's own reading of
    auto_pad and dilations is not followed.
    """
    assert fraction_bits in FORMATS, f"Orion has no 32-bit format with {fraction_bits} fraction bits"
    operands, w, f, (x, y) = _Operands(source, fraction_bits), codes_of(source, 1), fraction_bits, (conv.x, conv.y)
    assert w is not None, "the weights are codes"
    x_scale, y_scale = (np.asarray(quantization_of(end).scale, np.float32) for end in (x, y))
    scales = {"x_scale": x_scale, "w_scale": w.scale, "y_scale": y_scale}
    xs, ws, ys = (operands.scale(name, scale) for name, scale in scales.items())
    x_zp, w_zp, y_zp = (
        operands.zero_point("x_zero_point", np.asarray(x.zero_point, x.dtype.numpy)),
        operands.zero_point("w_zero_point", w.zero_point),
        operands.zero_point("y_zero_point", np.asarray(y.zero_point, y.dtype.numpy)),
    )
    is_int8, bias = operands.is_int8("w", DType.of(w.codes)), np.zeros(conv.bias.shape, np.int64)
    operands.is_int8("x", x.dtype)
    if len(x.shape) > 5:
        hint = "Orion convolves images with 1 to 3 spatial axes (3 to 5 in all)"
        operands.reject("x", f"it has {len(x.shape)} axes", hint)
    if has_bias(source) and is_int8:
        bias = operands.bias(conv.bias.astype(np.int64), xs, ws)
    if operands.problems:
        raise ModelRejected(operands.problems)
    op = OrionConv(
        name=conv.name,
        op_type="QLinearConv",
        x=x,
        y=y,
        geometry=conv.geometry,
        fraction_bits=f,
        x_values=dequantize(np.arange(-128, 128, dtype=np.int64), x_zp, xs, f),
        weights=dequantize(conv.weights.astype(np.int64), w_zp, ws, f),
        bias=bias,
        y_scale=ys,
        y_zero_point=y_zp << f,
    )
    if problems := overflows(operands.where, op):
        raise ModelRejected(problems)
    return op


def dequantize(codes: Int64s, zero_point: int, scale: int, fraction_bits: int) -> Int64s:
    """(q·2^f − zp·2^f) · scale as Orion computes it; int8 codes and zero point, 0 <= scale < 2^32: below 2^63."""
    return multiply((codes - zero_point) << fraction_bits, scale, fraction_bits)
