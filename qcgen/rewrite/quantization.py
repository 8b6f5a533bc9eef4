"""What QuantizeLinear and DequantizeLinear nodes say about the tensors around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen import arithmetic
from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.wiring import Wiring

DOMAINS = ("", "com.microsoft")
"""The domains in which QuantizeLinear and DequantizeLinear mean the same."""


@dataclass(frozen=True)
class GraphQuantization:
    """real value = (code - zero_point) * scale.

    ``scale`` float32, positive and finite; ``zero_point`` in the codes' type ``dtype``. Both are scalars where ``axis``
    is None (per tensor), else (n,) along that axis. The names are those of the constants; ``zero_point_name`` is ""
    where the model leaves it out.
    """

    dtype: DType
    scale: Array
    zero_point: Array
    axis: int | None
    scale_name: str
    zero_point_name: str

    @property
    def names(self) -> tuple[str, str]:
        """Scale and zero point as operands of a node."""
        return (self.scale_name, self.zero_point_name)

    def same_as(self, other: GraphQuantization) -> bool:
        """Whether the codes mean the same, however the constants are called."""
        return (
            self.dtype is other.dtype
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    @property
    def is_per_tensor(self) -> bool:
        """Whether this is how activations are quantized, to 8 or 16 bits."""
        return self.dtype.is_code and self.axis is None

    def real_values(self, codes: Array) -> Array:
        """The float32 values of codes, as DequantizeLinear computes them; per tensor."""
        return arithmetic.dequantize(codes, float(self.scale), int(self.zero_point))

    def codes(self, values: Array) -> Array:
        """The codes of float32 values, as QuantizeLinear computes them; per tensor."""
        ends = self.dtype.low, self.dtype.high
        codes = arithmetic.quantize(values, float(self.scale), int(self.zero_point), *ends)
        return np.asarray(codes.astype(self.dtype.numpy))


@dataclass(frozen=True)
class Dequantized:
    """A float tensor that DequantizeLinear makes of ``codes``."""

    codes: str
    quantization: GraphQuantization


def by_element(parameter: Array, shape: tuple[int, ...], axis: int, block: int) -> Array | None:
    """A scale or zero point in a shape that broadcasts with a tensor: per tensor, along an axis, or in blocks of it.

    None if it has not one element for each place or block. Source: ONNX DequantizeLinear-21; the last block may be
    shorter.
    """
    if parameter.size == 1 and not block:
        return parameter.reshape(())
    if not -len(shape) <= axis < len(shape) or block < 0:
        return None
    if block:
        of_blocks = list(shape)
        of_blocks[axis] = -(-shape[axis] // block)
        if parameter.shape != tuple(of_blocks):
            return None
        return np.take(parameter, np.arange(shape[axis]) // block, axis=axis)
    if parameter.shape != (shape[axis],):
        return None
    return parameter.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))


def is_quantize(node: Node) -> bool:
    """Whether this is a QuantizeLinear."""
    return node.op_type == "QuantizeLinear" and node.domain in DOMAINS


def is_dequantize(node: Node) -> bool:
    """Whether this is a DequantizeLinear."""
    return node.op_type == "DequantizeLinear" and node.domain in DOMAINS


def quantization_of(wiring: Wiring, node: Node) -> GraphQuantization | None:
    """The parameters of a QuantizeLinear or DequantizeLinear; None unless they are constant and well-formed."""
    scale, zero_point = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or node.attributes.get("block_size"):
        return None
    if not np.all(np.isfinite(scale) & (scale > 0)) or (node.input(2) and zero_point is None):
        return None
    if zero_point is None:
        dtype = _type_without_zero_point(wiring, node)
        if dtype is None or dtype is DType.OTHER:
            return None
        zero_point = np.zeros(scale.shape, dtype.numpy)
    if zero_point.dtype.kind not in "iu" or zero_point.size != scale.size or zero_point.ndim > 1:
        return None
    axis = node.attributes.get("axis", 1)
    if not isinstance(axis, int):
        return None
    one = scale.size == 1
    return GraphQuantization(
        DType.of(zero_point),
        scale.reshape(()) if one else scale,
        zero_point.reshape(()) if one else zero_point,
        None if one else _axis(wiring, node, axis),
        node.input(1),
        node.input(2),
    )


def _type_without_zero_point(wiring: Wiring, node: Node) -> DType | None:
    if is_dequantize(node):
        dtype = wiring.graph.value(node.input(0)).dtype
        constant = wiring.constant(node.input(0))
        return dtype if constant is None else DType.of(constant)
    output_dtype = node.attributes.get("output_dtype", 0)
    return (element_type(output_dtype) if isinstance(output_dtype, int) else None) or DType.UINT8


def _axis(wiring: Wiring, node: Node, axis: int) -> int:
    constant, shape = wiring.constant(node.input(0)), wiring.graph.value(node.input(0)).shape
    rank = constant.ndim if constant is not None else None if shape is None else len(shape)
    return axis + rank if axis < 0 and rank is not None else axis


def dequantized(wiring: Wiring, tensor: str) -> Dequantized | None:
    """How a tensor is dequantized, None if it comes from anything but a well-formed DequantizeLinear."""
    node = wiring.producers.get(tensor)
    if node is None or not is_dequantize(node):
        return None
    quantization = quantization_of(wiring, node)
    return None if quantization is None else Dequantized(node.input(0), quantization)


def weights(wiring: Wiring, tensor: str, axis: int) -> Dequantized | None:
    """Constant 8-bit weights, dequantized per tensor or along an axis."""
    found = dequantized(wiring, tensor)
    if found is None or wiring.constant(found.codes) is None or not found.quantization.dtype.is_quantized:
        return None
    return found if found.quantization.axis in (None, axis) else None


def quantizer(wiring: Wiring, tensor: str) -> tuple[Node, GraphQuantization] | None:
    """The QuantizeLinear to 8 or 16 bits, per tensor, that alone reads a tensor."""
    node = wiring.only_reader(tensor)
    if node is None or not is_quantize(node) or node.input(0) != tensor:
        return None
    by = quantization_of(wiring, node)
    return (node, by) if by is not None and by.is_per_tensor else None
