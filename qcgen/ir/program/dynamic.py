"""Quantization whose scale and zero point depend on the numbers of each call (DynamicQuantizeLinear)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qcgen.ir.program.tensor import Tensor


@dataclass(frozen=True)
class Extremes:
    """y (2,) = the smallest and the largest of all numbers of x and 0, x float32 of any shape; NaN is neither."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicParameter:
    """The scale () float32, or the zero point () uint8, for numbers between the extremes x (2,)."""

    name: str
    op_type: str
    kind: Literal["scale", "zero point"]
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicQuantize:
    """y = clamp(round_half_even(x / scale) + zero_point), x float32, y uint8; both parameters () are computed."""

    name: str
    op_type: str
    x: Tensor
    scale: Tensor
    zero_point: Tensor
    y: Tensor
