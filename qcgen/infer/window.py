"""Shapes of convolutions and poolings."""

from __future__ import annotations

from qcgen.convolutions import CONVOLUTIONS, layout_of, layout_of_pool
from qcgen.geometry import Window, window_of
from qcgen.infer.facts import Facts, Shape
from qcgen.ir.graph import Dim
from qcgen.ir.types import Layout


def convolution(facts: Facts) -> Shape | None:
    """Y of any convolution of x with w: (N, M, output...) or, channels last, (N, output..., M)."""
    x, w, node = facts.known_shape(0), facts.shape(1), facts.node
    if w is None:
        kernel, channels = facts.integers("kernel_shape"), None
    else:
        kernel, channels = tuple(dim for dim in w[2:] if isinstance(dim, int)), w[0]
        if len(kernel) != len(w) - 2 or len(w) != len(x):
            raise ValueError("x and w have different ranks")
    is_last = layout_of(node, CONVOLUTIONS[node.domain, node.op_type]) is Layout.CHANNELS_LAST
    return _slide(facts, x, kernel, channels, is_last)


def pooling(facts: Facts) -> Shape | None:
    """Every window gives one element."""
    x, is_last = facts.known_shape(), _is_last(facts)
    return _slide(facts, x, facts.integers("kernel_shape"), x[-1 if is_last else 1], is_last)


def global_pooling(facts: Facts) -> Shape:
    """Every spatial axis shrinks to 1."""
    x = facts.known_shape()
    return _image(x[0], (1,) * (len(x) - 2), x[-1 if _is_last(facts) else 1], _is_last(facts))


def _is_last(facts: Facts) -> bool:
    return layout_of_pool(facts.node) is Layout.CHANNELS_LAST


def _slide(facts: Facts, x: Shape, kernel: tuple[int, ...] | None, channels: Dim, is_last: bool) -> Shape | None:
    if kernel is None or len(kernel) != len(x) - 2 or (window := window_of(facts.node, kernel)).why_not() is not None:
        return None
    sizes = x[1:-1] if is_last else x[2:]
    return _image(x[0], tuple(_output(window, index, size) for index, size in enumerate(sizes)), channels, is_last)


def _output(window: Window, index: int, size: Dim) -> Dim:
    return window.axis(index, size).output if isinstance(size, int) else None


def _image(batch: Dim, sizes: Shape, channels: Dim, is_last: bool) -> Shape:
    return (batch, *sizes, channels) if is_last else (batch, channels, *sizes)
