"""Types and shapes of operators that work element by element, of conversions and of constants."""

from __future__ import annotations

from functools import reduce

import numpy as np

from qcgen.infer.facts import Facts, TensorType, broadcast, integers
from qcgen.ir.element_types import element_type
from qcgen.ir.types import DType


def unary(facts: Facts) -> tuple[TensorType, ...]:
    """The first input's type and shape."""
    return (facts.same(0),)


def binary(facts: Facts) -> tuple[TensorType, ...]:
    """Two inputs, broadcast."""
    dtype = facts.dtype(0) or facts.dtype(1)
    return (TensorType(dtype, broadcast(facts.shape(0), facts.shape(1))),)


def comparison(facts: Facts) -> tuple[TensorType, ...]:
    """Truth values of two inputs, broadcast."""
    return (TensorType(DType.BOOL, broadcast(facts.shape(0), facts.shape(1))),)


def where(facts: Facts) -> tuple[TensorType, ...]:
    """The type of what is chosen; condition and both, broadcast."""
    dtype = facts.dtype(1) or facts.dtype(2)
    return (TensorType(dtype, reduce(broadcast, (facts.shape(0), facts.shape(1), facts.shape(2)))),)


def branches(facts: Facts) -> tuple[TensorType, ...]:
    """If, whose branches give its further inputs: what is the same of both."""
    count = len(facts.node.inputs) // 2
    pairs = [(facts.same(1 + index), facts.same(1 + count + index)) for index in range(count)]
    return tuple(
        TensorType(one.dtype if one.dtype is other.dtype else None, one.shape if one.shape == other.shape else None)
        for one, other in pairs
    )


def variadic(facts: Facts) -> tuple[TensorType, ...]:
    """Any number of inputs, broadcast."""
    shapes = [value.shape for value in facts.inputs]
    return (TensorType(facts.dtype(0), reduce(broadcast, shapes)),)


def quantized_binary(facts: Facts) -> tuple[TensorType, ...]:
    """QLinearAdd and QLinearMul: (A, its scale and zero point, B, its scale and zero point, ...)."""
    return (TensorType(facts.dtype(0) or facts.dtype(3), broadcast(facts.shape(0), facts.shape(3))),)


def dropout(facts: Facts) -> tuple[TensorType, ...]:
    """The data and the mask."""
    return (facts.same(0), TensorType(DType.BOOL, facts.shape(0)))


def cast(facts: Facts) -> tuple[TensorType, ...]:
    """The type that the attribute ``to`` names."""
    return (TensorType(element_type(facts.integer("to", 0)), facts.shape(0)),)


def quantize(facts: Facts) -> tuple[TensorType, ...]:
    """The type of the zero point, else that of the attribute output_dtype, else uint8."""
    if facts.has(2):
        return (TensorType(facts.dtype(2), facts.shape(0)),)
    return (TensorType(element_type(facts.integer("output_dtype", 0)) or DType.UINT8, facts.shape(0)),)


def dequantize(facts: Facts) -> tuple[TensorType, ...]:
    """The type of the scale, which is float except in newer opsets."""
    return (TensorType(facts.dtype(1) or DType.FLOAT32, facts.shape(0)),)


def dynamic_quantize(facts: Facts) -> tuple[TensorType, ...]:
    """Codes, scale and zero point."""
    return (TensorType(DType.UINT8, facts.shape(0)), TensorType(DType.FLOAT32, ()), TensorType(DType.UINT8, ()))


def constant(facts: Facts) -> tuple[TensorType, ...]:
    """The tensor of an attribute value, or the scalar or list of value_int, value_floats and so on."""
    types = {"value_int": DType.INT64, "value_ints": DType.INT64, "value_float": DType.FLOAT32}
    types |= {"value_floats": DType.FLOAT32, "value_string": DType.OTHER, "value_strings": DType.OTHER}
    for name, value in facts.node.attributes.items():
        if isinstance(value, np.ndarray):
            return (TensorType(DType.of(value), value.shape),)
        if name in types:
            return (TensorType(types[name], (len(value),) if isinstance(value, tuple) else ()),)
    return ()


def range_(facts: Facts) -> tuple[TensorType, ...]:
    """Numbers of the inputs' type; how many they are is known when they are folded."""
    return (TensorType(facts.dtype(0), None),)


def constant_of_shape(facts: Facts) -> tuple[TensorType, ...]:
    """The shape that the input holds, filled with the attribute value, a float 0 by default."""
    value, shape = facts.node.attributes.get("value"), facts.constant(0)
    dtype = DType.of(value) if isinstance(value, np.ndarray) else DType.FLOAT32
    return (TensorType(dtype, None if shape is None else integers(shape)),)
