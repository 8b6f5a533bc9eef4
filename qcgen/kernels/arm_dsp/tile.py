"""Tiles of outputs that are computed from one evaluation of their pixels: which sizes serve, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from qcgen.errors import prove
from qcgen.ir.program import Int64s
from qcgen.kernels.arm_dsp.toom_cook import ToomCook, algorithms
from qcgen.kernels.windows import PlaneAxis

ELEMENT_HIGH = 255  # elements of the image are made 0 to 255 when they are widened


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
