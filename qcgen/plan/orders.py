"""Orders of axes in memory."""

from __future__ import annotations

from qcgen.ir.program import Tensor
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Order


def row_major(tensor: Tensor) -> Order:
    """The order in which the model numbers the axes."""
    return tuple(range(len(tensor.shape)))


def stored(tensor: Tensor, layout: Layout | None) -> Order:
    """The order that an image has in memory when its channels are where ``layout`` says; others are row-major."""
    axes = row_major(tensor)
    if layout is None or tensor.layout is None or layout is tensor.layout:
        return axes
    if layout is Layout.CHANNELS_LAST:
        return (axes[0], *axes[2:], axes[1])
    return (axes[0], axes[-1], *axes[1:-1])


def same(one: Order, other: Order, shape: tuple[int, ...]) -> bool:
    """Whether two orders put the elements of a tensor in the same places: axes of size 1 do not matter."""
    return _moving(one, shape) == _moving(other, shape)


def layout_of(tensor: Tensor, order: Order) -> Layout | None:
    """Where the channels of an image are in memory; None if it is neither of the two layouts."""
    for layout in (Layout.CHANNELS_LAST, Layout.CHANNELS_FIRST):
        if same(order, stored(tensor, layout), tensor.shape):
            return layout
    return None


def transposed(order: Order, perm: tuple[int, ...]) -> Order:
    """The order of y in the memory of x, where axis i of y is axis ``perm[i]`` of x."""
    return tuple(perm.index(axis) for axis in order)


def _moving(order: Order, shape: tuple[int, ...]) -> Order:
    return tuple(axis for axis in order if shape[axis] != 1)
