"""The order of axes of every tensor in memory."""

from __future__ import annotations

from qcgen.ir.program import Tensor
from qcgen.ir.types import Layout


def boundary_layout(tensor: Tensor, option: str) -> Layout | None:
    """The layout of an input or output: the model's own, or the one that --layout asks for; None: not an image."""
    if tensor.layout is None or option == "model":
        return tensor.layout
    return Layout(option)


def boundary_shape(tensor: Tensor, layout: Layout | None) -> tuple[int, ...]:
    """The tensor's shape in the order in which the caller holds it in memory."""
    if layout is tensor.layout:
        return tensor.shape
    n, *rest = tensor.shape
    return (n, *rest[1:], rest[0]) if layout is Layout.CHANNELS_LAST else (n, rest[-1], *rest[:-1])


def layout_text(layout: Layout | None) -> str:
    """How a layout is called in comments."""
    return {None: "", Layout.CHANNELS_FIRST: "channels first", Layout.CHANNELS_LAST: "channels last"}[layout]
