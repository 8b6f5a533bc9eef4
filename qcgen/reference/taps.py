"""What windows see of an image, tap by tap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Array


def taps(g: ConvGeometry, image: Array, outside: float = 0) -> Iterator[Array]:
    """For each tap, rows from top to bottom: the elements (N, C, out...) of an image (N, C, in...) that it meets.

    Outside the image it meets ``outside``. No padded image is made: pads of a valid model can be larger than memory.
    """
    for tap in product(*(range(k) for k in g.kernel)):
        seen = np.full((*image.shape[:2], *g.output), outside, image.dtype)
        outputs, elements = _inside(g, tap)
        seen[(slice(None), slice(None), *outputs)] = image[(slice(None), slice(None), *elements)]
        yield seen


def _inside(g: ConvGeometry, tap: tuple[int, ...]) -> tuple[list[slice], list[slice]]:
    """The outputs of which a tap lies in the image, and the elements that it meets there, axis by axis."""
    outputs, elements = [], []
    for t, dilation, stride, pad, size, count in zip(
        tap, g.dilations, g.strides, g.pads_begin, g.input, g.output, strict=True
    ):
        begin = t * dilation - pad  # where the tap of the first output lies
        first = max(0, -(begin // stride))
        end = max(first, min(count, (size - 1 - begin) // stride + 1))
        outputs.append(slice(first, end))
        elements.append(slice(begin + first * stride, begin + end * stride, stride) if first < end else slice(0, 0))
    return outputs, elements
