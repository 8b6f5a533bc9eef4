"""Shapes of operators that work element by element; types of conversions and of constants."""

from __future__ import annotations

from functools import reduce

import numpy as np

from qcgen.infer.facts import Facts, Shape, TensorType, broadcast
from qcgen.ir.element_types import element_type
from qcgen.ir.types import DType


def like_first(facts: Facts) -> Shape | None:
    """The first input's shape."""
    return facts.shape(0)


def broadcasted(facts: Facts) -> Shape | None:
    """All inputs, broadcast."""
    return reduce(broadcast, [value.shape for value in facts.inputs])


def branches(facts: Facts) -> tuple[TensorType, ...]:
    """If, whose branches give its further inputs: what is the same of both."""
    count = len(facts.node.inputs) // 2
    pairs = zip(facts.inputs[1 : 1 + count], facts.inputs[1 + count : 1 + 2 * count], strict=True)
    return tuple(
        TensorType(one.dtype if one.dtype is other.dtype else None, one.shape if one.shape == other.shape else None)
        for one, other in pairs
    )


def cast(facts: Facts) -> DType | None:
    """The type that the attribute ``to`` names."""
    return element_type(facts.integer("to", 0))


def quantized(facts: Facts) -> DType | None:
    """The type of the zero point, else that of the attribute output_dtype, else uint8."""
    return facts.dtype(2) if facts.has(2) else element_type(facts.integer("output_dtype", 0)) or DType.UINT8


def quantized_product(facts: Facts) -> DType | None:
    """The type of QGemm's y_zero_point; float without one."""
    return facts.dtype(8) if facts.has(8) else DType.FLOAT32


def dynamic_quantize(facts: Facts) -> tuple[TensorType, ...]:
    """Codes, scale and zero point."""
    return (TensorType(DType.UINT8, facts.shape(0)), TensorType(DType.FLOAT32, ()), TensorType(DType.UINT8, ()))


def constant(facts: Facts) -> tuple[TensorType, ...]:
    """The tensor of an attribute value, or the scalar or list of value_int, value_floats and so on."""
    types = {"value_int": DType.INT64, "value_float": DType.FLOAT32, "value_string": DType.OTHER}
    for name, value in facts.node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return (TensorType(DType.of(value), value.shape),)
        if (dtype := types.get(name.removesuffix("s"))) is not None:
            return (TensorType(dtype, (len(value),) if isinstance(value, tuple) else ()),)
    return ()


def filling(facts: Facts) -> DType:
    """The type of ConstantOfShape's attribute value, a float by default."""
    value = facts.node.attributes.get("value")
    return DType.of(value) if isinstance(value, np.ndarray) else DType.FLOAT32
