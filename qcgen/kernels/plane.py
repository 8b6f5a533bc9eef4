"""The two axes of an image as kernels see them that compute planes, tiles or columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qcgen.ir.program import ConvGeometry


@dataclass(frozen=True)
class PlaneAxis:
    """One axis of the image; rank 1 has a height of one."""

    input: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def span(self) -> int:
        """Elements from a window's first to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def reached(self) -> int:
        """Elements that windows reach, padding included."""
        return (self.output - 1) * self.stride + self.span

    @property
    def copied(self) -> int:
        """Elements of the image that windows reach."""
        return max(min(self.input, self.reached - self.pad), 0)


@dataclass(frozen=True)
class OutputGroups:
    """``outputs`` of a row that are summed together; ``count`` such groups, each ``step`` further on."""

    outputs: int
    count: int
    step: int


def plane_axes(g: ConvGeometry) -> tuple[PlaneAxis, PlaneAxis]:
    """Height and width of an image of one or two axes."""
    found = [
        PlaneAxis(*sizes)
        for sizes in zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    ]
    return (found[0], found[1]) if len(found) == 2 else (PlaneAxis(1, 1, 1, 1, 1, 0), found[0])


def first_taps(axis: PlaneAxis) -> Iterable[int]:
    """The first tap on the image of each window along an axis; the kernel's size or more if there is none."""
    return (max(0, -(-(axis.pad - o * axis.stride) // axis.dilation)) for o in range(axis.output))


def beyond_taps(axis: PlaneAxis) -> Iterable[int]:
    """What follows the last tap on the image; 0 or less if there is none."""
    ends = (-(-(axis.input + axis.pad - o * axis.stride) // axis.dilation) for o in range(axis.output))
    return (min(axis.kernel, end) for end in ends)
