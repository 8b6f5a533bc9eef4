"""QLinearConv in Orion's fixed point, unless its numbers leave 32 bits for every input."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import Conv, Int64s, OrionConv, Requantize, Tensor
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower.linear import conv_geometry, lower_conv
from qcgen.lower.source import Source, tensor_of
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


# The operands of a QLinearConv as Orion's fixed point takes them: per-tensor scales, int8 codes.

INPUTS = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B")
"""QLinearConv's inputs in their order, by ONNX's names."""

PER_TENSOR = "quantize per tensor: Orion's arithmetic has one scale and one zero point for a whole tensor"


def convolutions_of_codes(graph: Graph) -> Graph:
    """The graph in which a Conv between DequantizeLinear and QuantizeLinear is a QLinearConv of the same operands.

    A bias of other units, and zero points that the model leaves out, are constants of their own.
    """
    constants, nodes, made = dict(graph.constants), list[Node](), set[str]()
    for node in graph.nodes:
        conv = lower_conv(Source(node, graph))[-1] if node.is_a("Conv") else None
        if isinstance(conv, Conv) and isinstance(conv.epilogue, Requantize):
            node = _as_qlinear_conv(node, graph, conv, constants)
            made.add(node.outputs[0])
        nodes.append(node)
    nodes = [node for node in nodes if node.op_type != "QuantizeLinear" or node.outputs[0] not in made]
    used = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    nodes = [node for node in nodes if used.intersection(node.outputs)]
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _as_qlinear_conv(node: Node, graph: Graph, conv: Conv, constants: dict[str, Array]) -> Node:
    source, quantize = Source(node, graph), graph.readers[node.outputs[0]][0]
    inputs: list[str] = []
    for maker, dtype in ((source.dequantized(0), conv.x.dtype), (source.dequantized(1), None)):
        assert maker is not None, "a convolution of codes reads what is dequantized"
        zero_point = np.zeros((), dtype.numpy if dtype else conv.weights.dtype)
        inputs += [*maker.node.inputs[:2], _known(maker.node, zero_point, graph, constants)]
    inputs += [quantize.inputs[1], _known(quantize, np.zeros((), conv.y.dtype.numpy), graph, constants)]
    if source.has(2):
        inputs.append(fresh(f"{node.input(2)}_quantized", graph.names))
        constants[inputs[-1]] = conv.bias
    return replace(node, op_type="QLinearConv", inputs=tuple(inputs), outputs=(conv.y.name,), written=node.operator)


def _known(node: Node, absent: Array, graph: Graph, constants: dict[str, Array]) -> str:
    """The zero point of a QuantizeLinear or DequantizeLinear, a new constant if it is absent."""
    if node.input(2):
        return node.input(2)
    name = fresh(f"{node.input(1)}_zero_point", graph.names)
    constants[name] = absent
    return name


@dataclass
class OrionOperands:
    """Reads a node's operands, which check has accepted: what Orion has not gathers in ``problems``.

    A harmless value stands in for it.
    """

    node: Node
    graph: Graph
    fraction_bits: int
    problems: list[Problem] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The node in messages."""
        return f"node '{self.node.name}' ({self.node.operator})"

    def x_shape(self) -> tuple[int, ...]:
        """The shape (N, C, spatial...) of x, which is int8."""
        x = tensor_of(self.graph, self.node.input(0))
        if x.dtype is not DType.INT8:
            self._reject("x", f"its type is {x.dtype.value}, not int8", _int8())
        if len(x.shape) > 5:
            hint = "Orion convolves images with 1 to 3 spatial axes (3 to 5 in all)"
            self._reject("x", f"it has {len(x.shape)} axes", hint)
        return x.shape

    def weights(self) -> Int64s | None:
        """The codes of w (M, C/group, k...)."""
        codes = self._constant("w")
        return codes.astype(np.int64) if self._is_int8("w", codes) else None

    def scale(self, name: str) -> tuple[float, int]:
        """A scale as the model gives it and as Orion encodes it: truncated toward zero to f bits, 1 to 2^32 - 1."""
        array, bits = self._scalar(name), self.fraction_bits
        if array is None:
            return 1.0, 1
        scale, encoded = float(array), encode_scale(float(array), bits)
        if 0 < encoded <= MAGNITUDE_MAX:
            return scale, encoded
        what, hint = f"becomes 0 in {FORMATS[bits]}", f"a scale must be at least {2.0**-bits:.6g} here"
        if encoded:
            what = f"is {encoded} in {FORMATS[bits]}, more than {MAGNITUDE_MAX}"
            hint = f"a scale must be below {2 ** (32 - bits)} here"
        self._reject(name, f"{scale:.6g} {what}", hint)
        return 1.0, 1

    def zero_point(self, name: str) -> int:
        """An int8 zero point; ONNX requires it here, and without one the tensor would be uint8."""
        array = self._scalar(name)
        return int(array) if array is not None and self._is_int8(name, array) else 0

    def bias(self, channels: int, x_scale: int, w_scale: int) -> Int64s:
        """The dequantized bias (M,): B · (x_scale·w_scale), the scales' product truncated; zeros if there is none.

        Orion encodes B as B·2^f and multiplies; that magnitude and the scale's must fit 32 bits, and then the product
        needs no truncation.
        """
        absent = np.zeros(channels, dtype=np.int64)
        if not self.node.input(INPUTS.index("B")):
            return absent
        codes = self._constant("B").astype(np.int64)
        scale = (x_scale * w_scale) >> self.fraction_bits
        unit = "x_scale times w_scale, the scale of the bias,"
        problems = (
            *_too_large(self.where, self.fraction_bits, "the encoded bias", codes << self.fraction_bits),
            *_too_large(self.where, self.fraction_bits, unit, np.array([scale], np.int64), channels=False),
        )
        self.problems += problems
        return absent if problems else codes * scale

    def _scalar(self, name: str) -> Array | None:
        """The only element of a constant."""
        array = self._constant(name)
        if array.size == 1:
            return array.reshape(())
        self._reject(name, f"it has {array.size} elements, not 1", PER_TENSOR)
        return None

    def _constant(self, name: str) -> Array:
        return self.graph.constants[self.node.input(INPUTS.index(name))]

    def _is_int8(self, name: str, array: Array) -> bool:
        if array.dtype != np.int8:
            self._reject(name, f"its type is {array.dtype.name}, not int8", _int8())
        return bool(array.dtype == np.int8)

    def _reject(self, name: str, what: str, hint: str) -> None:
        tensor = self.node.input(INPUTS.index(name))
        label = f"input {name}" if tensor in ("", name) else f"input {name} '{tensor}'"
        self.problems.append(Problem(self.where, f"{label}: {what}", hint))


def encode_scale(scale: float, fraction_bits: int) -> int:
    """scale · 2^fraction_bits truncated toward zero; a finite scale, exact because the factor is a power of two."""
    return int(scale * 2.0**fraction_bits)


def _int8() -> str:
    return f"quantize activations and weights to int8, or compile with {spelt(numerics='onnxruntime')}"


def lower_orion(node: Node, graph: Graph, fraction_bits: int) -> OrionConv:
    """The convolution that a QLinearConv of ai.onnx means in FP16x16 (16 fraction bits) or FP8x23 (23).

    ``check`` has accepted the node. Raises ModelRejected with every problem: operands of other types or scales than
    Orion has or, once these are right, numbers that leave 32 bits for every input, where Orion panics. The geometry is
    ONNX's: Orion's own reading of auto_pad and dilations is not followed.
    """
    assert fraction_bits in FORMATS, f"Orion has no 32-bit format with {fraction_bits} fraction bits"
    operands = OrionOperands(node, graph, fraction_bits)
    op = _assemble(operands)
    problems = operands.problems if op is None else overflows(operands.where, op)
    if problems:
        raise ModelRejected(problems)
    assert op is not None, "what cannot be assembled has a problem"
    return op


def _assemble(operands: OrionOperands) -> OrionConv | None:
    """The convolution, its numbers of any size; None if ``operands`` has found problems."""
    node, f = operands.node, operands.fraction_bits
    (x_scale, xs), (_, ws), (y_scale, ys) = (operands.scale(name) for name in ("x_scale", "w_scale", "y_scale"))
    x_zp, w_zp, y_zp = (operands.zero_point(name) for name in ("x_zero_point", "w_zero_point", "y_zero_point"))
    codes, x_shape = operands.weights(), operands.x_shape()
    bias = None if codes is None else operands.bias(codes.shape[0], xs, ws)
    if operands.problems or codes is None or bias is None:
        return None
    geometry, _ = conv_geometry(Source(node, operands.graph))
    y_shape = (geometry.batch, geometry.out_channels, *geometry.output)
    return OrionConv(
        name=node.name,
        op_type=node.op_type,
        x=Tensor(node.input(0), DType.INT8, x_shape, Layout.CHANNELS_FIRST, x_scale, x_zp),
        y=Tensor(node.outputs[0], DType.INT8, y_shape, Layout.CHANNELS_FIRST, y_scale, y_zp),
        geometry=geometry,
        fraction_bits=f,
        x_values=dequantize(np.arange(-128, 128, dtype=np.int64), x_zp, xs, f),
        weights=dequantize(codes, w_zp, ws, f),
        bias=bias,
        y_scale=ys,
        y_zero_point=y_zp << f,
    )


def dequantize(codes: Int64s, zero_point: int, scale: int, fraction_bits: int) -> Int64s:
    """(q·2^f − zp·2^f) · scale as Orion computes it; int8 codes and zero point, 0 <= scale < 2^32: below 2^63."""
    return multiply((codes - zero_point) << fraction_bits, scale, fraction_bits)
