"""ONNX's numbers for element types, as in tensors and in the attribute ``to`` of Cast."""

from __future__ import annotations

from qcgen.ir.types import DType

ELEMENT_TYPES: dict[int, DType] = {
    1: DType.FLOAT32,
    2: DType.UINT8,
    3: DType.INT8,
    4: DType.UINT16,
    5: DType.INT16,
    6: DType.INT32,
    7: DType.INT64,
    9: DType.BOOL,
    10: DType.FLOAT16,
    11: DType.FLOAT64,
    12: DType.UINT32,
    13: DType.UINT64,
}
"""TensorProto.DataType of onnx.proto; numbers that are not here are types that qcgen has no use for."""


def number_of(dtype: DType) -> int:
    """The number of a type; not of OTHER."""
    return next(number for number, each in ELEMENT_TYPES.items() if each is dtype)


def element_type(number: int) -> DType | None:
    """The type with this number: None for 0, which means undefined, OTHER for types without use."""
    return None if number == 0 else ELEMENT_TYPES.get(number, DType.OTHER)
