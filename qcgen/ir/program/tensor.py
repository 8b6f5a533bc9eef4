"""Tensors and the arrays that programs hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from qcgen.ir.types import DType, Layout

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Tensor:
    """A tensor with its shape as the model stores it.

    ``layout`` says where the channels are in an image tensor, None for tensors that are not images. ``scale`` and
    ``zero_point`` are given where the tensor is quantized per tensor: real value = (q - zero_point) * scale.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    layout: Layout | None = None
    scale: float | None = None
    zero_point: int | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)
