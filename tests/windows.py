"""What ONNX's convolutions and poolings compute, from a node's attributes: plain numpy that shares nothing with qcgen.

tests/test_windows.py holds it against onnx.reference and onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np


@dataclass(frozen=True)
class Axis:
    """One spatial axis: the size of the image, and what a node's attributes say of windows along it."""

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    begin: int = 0
    end: int = 0
    ceil: bool = False

    @property
    def span(self) -> int:
        """Elements from a window's first tap to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @cached_property
    def outputs(self) -> int:
        """The number of windows, 0 or less if none fits; with ceil the last one must begin before the end padding."""
        room = self.size + self.begin + self.end - self.span
        if room < 0 or not self.ceil:
            return room // self.stride + 1
        windows = -(-room // self.stride) + 1
        return windows - ((windows - 1) * self.stride >= self.size + self.begin)

    @cached_property
    def places(self) -> np.ndarray:
        """(kernel, outputs): the element that each tap of each window meets, in the padding below 0 or from size on."""
        first = np.arange(self.outputs) * self.stride - self.begin
        return np.arange(self.kernel)[:, None] * self.dilation + first


def attributes(axes: Sequence[Axis]) -> dict[str, list[int]]:
    """As a node spells them, without those that only poolings have."""
    pads = [axis.begin for axis in axes] + [axis.end for axis in axes]
    strides, dilations = [axis.stride for axis in axes], [axis.dilation for axis in axes]
    return {"strides": strides, "dilations": dilations, "pads": pads}


def windows(x: np.ndarray, axes: Sequence[Axis], outside: float) -> np.ndarray:
    """(N, C, taps, out...) of an image (N, C, in...): what the taps of windows meet, ``outside`` in the padding."""
    margin = max(max(-axis.places.min(), axis.places.max() + 1 - axis.size, 0) for axis in axes)
    wide = np.pad(x, [(0, 0), (0, 0), *[(margin, margin)] * len(axes)], constant_values=outside)
    places = [axis.places + margin for axis in axes]
    taps = product(*(range(axis.kernel) for axis in axes))
    return np.stack([wide[(..., *np.ix_(*(p[t] for p, t in zip(places, tap, strict=True))))] for tap in taps], axis=2)


def convolved(x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], group: int = 1) -> np.ndarray:
    """(N, M, out...) of x (N, C, in...) and w (M, C/group, kernel...), both less their zero points."""
    seen = windows(x, axes, 0)
    outputs = seen.shape[3:]
    seen = seen.reshape(len(x), group, w.shape[1] * seen.shape[2], -1)
    weights = w.reshape(group, len(w) // group, -1)
    return np.einsum("ngto,gmt->ngmo", seen, weights).reshape(len(x), len(w), *outputs)


def largest(x: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """The maximum of each window's taps on the image; the lowest number of the type where there is none."""
    lowest = (np.iinfo if np.issubdtype(x.dtype, np.integer) else np.finfo)(x.dtype).min
    return windows(x, axes, lowest).max(axis=2)


def means(x: np.ndarray, axes: Sequence[Axis], counts_padding: bool) -> np.ndarray:
    """The mean of each window in float32, right to the last bit if the sums of x are exact in it; 0 without a tap."""
    sums = windows(x.astype(np.float64), axes, 0).sum(axis=2)
    inside = windows(np.ones((1, 1, *x.shape[2:])), axes, 0).sum(axis=2)
    taps = np.prod([axis.kernel for axis in axes]) if counts_padding else np.maximum(inside, 1)
    return np.divide(sums.astype(np.float32), taps, dtype=np.float32)


def transposed(x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], more: Sequence[int], group: int = 1) -> np.ndarray:
    """ConvTranspose: every element of x (N, C, in...) times every tap of w (C, M/group, kernel...), where it belongs.

    ``more``: output_padding.
    """
    whole = [a.stride * (a.size - 1) + a.span + m for a, m in zip(axes, more, strict=True)]
    per_group, inputs = w.shape[1], w.shape[0] // group
    y = np.zeros((len(x), per_group * group, *whole), np.result_type(x, w))
    for tap in product(*(range(axis.kernel) for axis in axes)):
        places = [
            slice(t * a.dilation, t * a.dilation + a.stride * (a.size - 1) + 1, a.stride)
            for t, a in zip(tap, axes, strict=True)
        ]
        for c in range(w.shape[0]):
            first = c // inputs * per_group
            own = w[(c, slice(None), *tap)].reshape(-1, *[1] * len(axes))
            y[(slice(None), slice(first, first + per_group), *places)] += own * x[:, c : c + 1]
    cut = [slice(a.begin, size - a.end) for a, size in zip(axes, whole, strict=True)]
    return y[(slice(None), slice(None), *cut)]
