"""Tiles of outputs that are computed from one evaluation of their pixels: which sizes serve, and what they cost.

Along each axis Toom-Cook algorithms compute m neighbouring outputs of k taps from n = m + k - 1 products, exact in
integers. With Bt (n, n), G (n, k) and At (m, n) outputs are At [(G w) . (Bt d)] for n inputs d and k weights w: both
polynomials are evaluated at n points, one of which is infinity, and the product is interpolated. (Winograd's F(m, k) is
the same.) In C the matrices are functions of templates/library/dsp_winograd.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from qcgen.errors import prove
from qcgen.ir.program import Int64s
from qcgen.kernels.windows import PlaneAxis

POINTS: dict[int, tuple[int, ...]] = {1: (), 4: (0, 1, -1), 6: (0, 1, -1, 2, -2)}
"""The finite points of algorithms with n products."""

_DIVISORS = {1: 1, 4: 2, 6: 24}
_LAST_SHIFT = {1: 0, 4: 0, 6: 1}  # the weight at infinity is kept as small as the others, and its product doubled

ELEMENT_HIGH = 255  # elements of the image are made 0 to 255 when they are widened


@dataclass(frozen=True)
class ToomCook:
    """``outputs`` of ``taps`` taps from ``size`` products; sums are ``divisor`` times what is wanted."""

    outputs: int
    taps: int

    @property
    def size(self) -> int:
        """Products, and inputs."""
        return self.outputs + self.taps - 1

    @property
    def points(self) -> range:
        """The numbers of the points, and of the inputs."""
        return range(self.size)

    @property
    def numbers(self) -> range:
        """The numbers of the outputs."""
        return range(self.outputs)

    @property
    def divisor(self) -> int:
        """What makes G whole."""
        return _DIVISORS[self.size]

    @property
    def is_trivial(self) -> bool:
        """Whether nothing is transformed: one tap, one output."""
        return self.size == 1

    @property
    def inputs(self) -> Int64s:
        """Bt (n, n): row i has the coefficients of the product of all (x - p) but that of point i, the last of all."""
        points = POINTS[self.size]
        roots = [*(points[:i] + points[i + 1 :] for i in range(len(points))), points]
        rows = [np.atleast_1d(np.poly(each))[::-1] for each in roots]
        matrix: Int64s = np.rint([np.pad(row, (0, self.size - row.size)) for row in rows]).astype(np.int64)
        return matrix

    @property
    def weights(self) -> Int64s:
        """G (n, k) times the divisor, less the shift at infinity."""
        points = POINTS[self.size]
        rows = [
            [p**s * self.divisor // prod(p - q for q in points if q != p) for s in range(self.taps)] for p in points
        ]
        last = [0] * (self.taps - 1) + [self.divisor >> _LAST_SHIFT[self.size]]
        return np.array([*rows, last], np.int64)

    @property
    def sums(self) -> Int64s:
        """At (m, n), with the shift at infinity."""
        rows = np.array([[p**r for p in POINTS[self.size]] for r in range(self.outputs)], np.int64)
        last = np.zeros((self.outputs, 1), np.int64)
        last[-1] = 1 << _LAST_SHIFT[self.size]
        return np.concatenate([rows.reshape(self.outputs, -1), last], axis=1)


def algorithms(taps: int) -> tuple[ToomCook, ...]:
    """Those for a kernel of ``taps`` taps."""
    if taps == 1:
        return (ToomCook(1, 1),)
    return tuple(ToomCook(size - taps + 1, taps) for size in POINTS if size > taps)


@dataclass(frozen=True)
class Tile:
    """An algorithm for each axis. Products of a tile are numbered row of points by row of points."""

    height: ToomCook
    width: ToomCook

    @property
    def products(self) -> int:
        """Products of a tile, and its pixels."""
        return self.height.size * self.width.size

    @property
    def axes(self) -> tuple[ToomCook, ...]:
        """The algorithms that do something."""
        return tuple(each for each in (self.height, self.width) if not each.is_trivial)

    @property
    def divisor(self) -> int:
        """Sums are so many times what is wanted: ``odd_divisor`` times 2^``shift``."""
        return self.height.divisor * self.width.divisor

    @property
    def shift(self) -> int:
        """The zeros at the end of the divisor."""
        return (self.divisor & -self.divisor).bit_length() - 1

    @property
    def odd_divisor(self) -> int:
        """What is left of the divisor."""
        return self.divisor >> self.shift

    @property
    def inverse(self) -> int:
        """The inverse of that odd number modulo 2^32; multiplication by it divides exactly."""
        return pow(self.odd_divisor, -1, 2**32)

    @property
    def _range(self) -> tuple[int, int]:
        """The smallest and the largest value at any point, for elements from 0 to ELEMENT_HIGH."""
        products = np.einsum("ia,jb->ijab", self.height.inputs, self.width.inputs)
        low, high = (part.sum(axis=(2, 3)) for part in (np.minimum(products, 0), np.maximum(products, 0)))
        return ELEMENT_HIGH * int(low.min()), ELEMENT_HIGH * int(high.max())

    @property
    def bias(self) -> int:
        """What keeps all values from below zero."""
        low, high = self._range
        prove(high - low < 2**15, "all values fit the half of a word")
        return -low

    def weights(self, taps: Int64s) -> Int64s:
        """(products, M, C) of weights (M, C, kH, kW)."""
        found: Int64s = np.einsum("ia,mcab,jb->ijmc", self.height.weights, taps, self.width.weights)
        return found.reshape(self.products, *taps.shape[:2])

    @property
    def weight_cost(self) -> float:
        """Cycles of transforming the weights of four input channels and one output channel, roughly."""
        return 18.0 * self.products + 16.0 * self.height.taps * self.width.taps

    def count(self, height: PlaneAxis, width: PlaneAxis) -> int:
        """The tiles of an image, the last of which may overlap their neighbours; 0 if the image is too small."""
        return _along(height, self.height) * _along(width, self.width)

    def cost(self, in_channels: int, out_channels: int) -> float:
        """Cycles of a tile, within a tenth: the values at all points, the products, the outputs."""
        quads, outputs = -(-in_channels // 4), self.height.outputs * self.width.outputs
        evaluated = self.products * quads * (8.8 + sum(6.6 + 0.74 * each.size for each in self.axes))
        multiplied = self.products * out_channels * (4.7 * quads + 2.1)
        finished = out_channels * (15.4 * outputs + 2.2 * self.products)
        return evaluated + multiplied + finished


def _along(axis: PlaneAxis, algorithm: ToomCook) -> int:
    """Tiles on one axis, those of the outputs of one phase of its dilation after the other."""
    m = algorithm.outputs
    phases = [-(-(axis.output - phase) // axis.dilation) for phase in range(axis.dilation)]
    return sum(-(-outputs // m) for outputs in phases) if min(phases) >= m else 0


def tiles(height: PlaneAxis, width: PlaneAxis) -> tuple[Tile, ...]:
    """All tiles for a kernel that is not of one tap."""
    if height.kernel == width.kernel == 1:
        return ()
    return tuple(Tile(h, w) for h, w in product(algorithms(height.kernel), algorithms(width.kernel)))
