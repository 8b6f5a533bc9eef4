"""Toom-Cook algorithms along one axis: m neighbouring outputs of k taps from n = m + k - 1 products, exact in integers.

With Bt (n, n), G (n, k) and At (m, n) outputs are At [(G w) . (Bt d)] for n inputs d and k weights w: both polynomials
are evaluated at n points, one of which is infinity, and the product is interpolated. (Winograd's F(m, k) is the same.)
In C the matrices are functions of templates/library/dsp_winograd.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Int64s

POINTS: dict[int, tuple[int, ...]] = {1: (), 4: (0, 1, -1), 6: (0, 1, -1, 2, -2)}
"""The finite points of algorithms with n products."""

_DIVISORS = {1: 1, 4: 2, 6: 24}
_LAST_SHIFT = {1: 0, 4: 0, 6: 1}  # the weight at infinity is kept as small as the others, and its product doubled


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
