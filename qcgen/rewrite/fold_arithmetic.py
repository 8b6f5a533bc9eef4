"""Constant folding of operators that compute: exactly as a runtime would, in the type of the operands."""

from __future__ import annotations

import numpy as np

from qcgen.ir.element_types import element_type
from qcgen.ir.types import Array, DType
from qcgen.rewrite.clamps import are_crossed
from qcgen.rewrite.operands import Operands
from qcgen.rewrite.quantization import by_element


def _pair(operands: Operands) -> tuple[Array, Array]:
    a, b = operands[0], operands[1]
    if a.dtype != b.dtype or a.dtype.kind not in "iuf":
        raise TypeError("the operands must have the same numeric type")
    return a, b


def add(operands: Operands) -> tuple[Array, ...]:
    """a + b; integers wrap."""
    a, b = _pair(operands)
    return (np.add(a, b),)


def subtract(operands: Operands) -> tuple[Array, ...]:
    """a - b; integers wrap."""
    a, b = _pair(operands)
    return (np.subtract(a, b),)


def multiply(operands: Operands) -> tuple[Array, ...]:
    """a * b; integers wrap."""
    a, b = _pair(operands)
    return (np.multiply(a, b),)


def divide(operands: Operands) -> tuple[Array, ...] | None:
    """a / b; integers are truncated toward zero as in C, and not divided by zero."""
    a, b = _pair(operands)
    if a.dtype.kind == "f":
        return (np.divide(a, b),)
    if not b.all():
        return None
    quotient = np.floor_divide(a, b)
    # floor_divide rounds down; where a remainder is left and the signs differ, truncation is one higher.
    up = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return (quotient + up.astype(a.dtype),)


COMPARISONS = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
LOGIC = {"And": np.logical_and, "Not": np.logical_not, "Or": np.logical_or, "Xor": np.logical_xor}


def compare(operands: Operands) -> tuple[Array, ...]:
    """Truth values of numbers of one type; Equal of truth values, too."""
    a, b = operands[0], operands[1]
    if a.dtype != b.dtype or a.dtype.kind not in ("iufb" if operands.node.op_type == "Equal" else "iuf"):
        raise TypeError("the operands must have the same numeric type")
    return (COMPARISONS[operands.node.op_type](a, b),)


def logic(operands: Operands) -> tuple[Array, ...]:
    """Truth values of truth values."""
    arrays = [array for array in operands.arrays if array is not None]
    if any(array.dtype != np.bool_ for array in arrays):
        raise TypeError("the operands must be truth values")
    return (np.asarray(LOGIC[operands.node.op_type](*arrays)),)


def where(operands: Operands) -> tuple[Array, ...]:
    """x where the condition holds, else y; of float32 -0 of x becomes 0, as in onnxruntime."""
    condition, x, y = (operands[index] for index in range(3))
    if condition.dtype != np.bool_ or x.dtype != y.dtype:
        raise TypeError("it chooses by truth values between tensors of one type")
    return (np.where(condition, x + x.dtype.type(0) if x.dtype.kind == "f" else x, y),)


def negate(operands: Operands) -> tuple[Array, ...]:
    """-x."""
    return (np.negative(operands[0]),)


def relu(operands: Operands) -> tuple[Array, ...]:
    """max(x, 0)."""
    return (np.maximum(operands[0], operands[0].dtype.type(0)),)


def clip(operands: Operands) -> tuple[Array, ...]:
    """min(max(x, low), high): the upper bound wins. Bounds are inputs, before opset 11 attributes."""
    x = operands[0]
    low = operands[1] if operands.has(1) else operands.attribute("min")
    high = operands[2] if operands.has(2) else operands.attribute("max")
    if are_crossed(operands.node):
        raise ValueError("min is above max")
    if low is not None:
        x = np.maximum(x, np.asarray(low).astype(x.dtype).reshape(()))
    if high is not None:
        x = np.minimum(x, np.asarray(high).astype(x.dtype).reshape(()))
    return (x,)


def cast(operands: Operands) -> tuple[Array, ...] | None:
    """The elements in another type; not where the result would depend on the machine (floats out of range)."""
    x, to = operands[0], element_type(operands.integer("to", 0))
    if to is None or to is DType.OTHER or x.dtype.kind not in "iufb":
        return None
    if x.dtype.kind == "f" and to.numpy.kind in "iu":
        whole = np.trunc(x.astype(np.float64))
        if not np.all((whole >= to.low) & (whole <= to.high)) or (to.bytes == 8 and np.any(np.abs(whole) >= 2**63)):
            return None
    return (x.astype(to.numpy),)


def quantize(operands: Operands) -> tuple[Array, ...] | None:
    """saturate(round_half_even(x / scale) + zero_point) in float32, per tensor, along an axis or in blocks.

    Source: ONNX QuantizeLinear-10 to 25 and onnxruntime's kernel, which clamps before it rounds. Not for types other
    than 8 and 16 bits.
    """
    x, scale = operands[0].astype(np.float32), operands[1]
    to = _quantized_type(operands)
    if scale.dtype != np.float32 or operands[0].dtype not in (np.float32, np.int32):
        return None
    if to not in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        return None
    if np.isnan(x).any():
        return None
    zero_point = operands[2] if operands.has(2) else np.zeros((), to.numpy)
    zero = _parameter(operands, zero_point).astype(np.float32)
    quotient = np.clip(x / _parameter(operands, scale), to.low - zero, to.high - zero)
    return ((np.rint(quotient) + zero).astype(to.numpy),)


def _quantized_type(operands: Operands) -> DType:
    if operands.has(2):
        return DType.of(operands[2])
    return element_type(operands.integer("output_dtype", 0)) or DType.UINT8


def dequantize(operands: Operands) -> tuple[Array, ...] | None:
    """float32(x - zero_point) * scale, per tensor, along an axis or in blocks; not for float16."""
    x, scale = operands[0], operands[1]
    if scale.dtype != np.float32 or x.dtype.kind not in "iu" or x.itemsize > 4:
        return None
    difference = x.astype(np.int64)
    if operands.has(2):
        if operands[2].dtype != x.dtype:
            return None
        difference = difference - _parameter(operands, operands[2]).astype(np.int64)
    return (difference.astype(np.float32) * _parameter(operands, scale),)


def _parameter(operands: Operands, parameter: Array) -> Array:
    axis, block = operands.integer("axis", 1), operands.integer("block_size", 0)
    found = by_element(parameter, operands[0].shape, axis, block)
    if found is None:
        raise ValueError("scale and zero point have one element for each place or block")
    return found
