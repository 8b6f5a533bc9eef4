"""Element types and layouts that all representations share."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


class DType(Enum):
    """The element type of a tensor; the value is its ONNX name, as in ``tensor(int8)``."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOL = "bool"
    OTHER = "other"  # a type that qcgen has no use for: strings, bfloat16, 4-bit and 8-bit floats, complex

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type with the same values; not for OTHER."""
        return np.dtype({"float": "float32", "double": "float64"}.get(self.value, self.value))

    @property
    def c(self) -> str:
        """The C99 type with the same values: float16 is the word of IEEE 754's binary16, bool a byte of 0 or 1."""
        words = {"float": "float", "double": "double", "float16": "uint16_t", "bool": "uint8_t"}
        return words.get(self.value, f"{self.value}_t")

    @property
    def bytes(self) -> int:
        """The size of one element in bytes."""
        return self.numpy.itemsize

    @property
    def is_quantized(self) -> bool:
        """Whether this is one of the two types of quantized activations and weights."""
        return self in Q8

    @property
    def is_16_bit(self) -> bool:
        """Whether this is one of the two types of activations that are quantized to 16 bits."""
        return self in (DType.INT16, DType.UINT16)

    @property
    def is_code(self) -> bool:
        """Whether this is a type of quantized activations, of 8 or of 16 bits."""
        return self in CODES

    @property
    def is_float(self) -> bool:
        """Whether this is a type of real numbers."""
        return self in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)

    @property
    def low(self) -> int:
        """The smallest value of an integer type, or of bool."""
        return 0 if self is DType.BOOL else int(np.iinfo(self.numpy).min)

    @property
    def high(self) -> int:
        """The largest value of an integer type, or of bool."""
        return 1 if self is DType.BOOL else int(np.iinfo(self.numpy).max)

    @staticmethod
    def of(array: Array) -> DType:
        """The type of a numpy array's elements."""
        return _type_of(array.dtype)


Q8 = (DType.INT8, DType.UINT8)
"""The types of codes of 8 bits."""

CODES = (*Q8, DType.INT16, DType.UINT16)
"""The types of activations that are quantized."""


@cache
def _type_of(dtype: np.dtype[Any]) -> DType:
    name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
    return DType(name) if name in DType._value2member_map_ else DType.OTHER


class Layout(Enum):
    """The order of the axes of an image tensor in memory: N, C, spatial axes; or N, spatial axes, C."""

    CHANNELS_FIRST = "nchw"
    CHANNELS_LAST = "nhwc"
