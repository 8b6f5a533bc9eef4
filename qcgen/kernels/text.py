"""How the generated C of several families speaks of a convolution: comments, and endings of names."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry
from qcgen.ir.types import DType, Layout

_SPATIAL_NAMES = ("frame", "plane", "row", "column")


@dataclass(frozen=True)
class Described(Context):
    """A convolution as comments and declarations speak of it."""

    g: ConvGeometry
    description: str  # the comment above the node's function
    x_type: str  # of C


def described(op: Conv) -> Described:
    """The names that the templates of all convolutions have in common."""
    return Described(op.geometry, describe(op), op.x.dtype.c)


def describe(op: Conv) -> str:
    """One line for the comment above a node's function."""
    g = op.geometry
    parts = [f"{op.name}: {op.op_type}, kernel {_by(g.kernel)}, stride {_by(g.strides)}"]
    if g.is_padded:
        parts.append(f"padding {_by(g.pads_begin)}" + (f" to {_by(g.pads_end)}" if g.pads_end != g.pads_begin else ""))
    if set(g.dilations) != {1}:
        parts.append(f"dilation {_by(g.dilations)}")
    if g.group > 1:
        parts.append(f"{g.group} groups")
    return ", ".join(parts) + "."


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in sizes)


def window_shape(g: ConvGeometry, layout: Layout) -> str:
    """The order of a window's taps, for comments: [rows][columns][input channels] with their numbers."""
    spatial = "".join(counted(count, name) for count, name in zip(g.kernel, _SPATIAL_NAMES[-g.rank :], strict=True))
    channels = counted(g.group_in, "input channel")
    return spatial + channels if layout is Layout.CHANNELS_LAST else channels + spatial


def counted(count: int, noun: str) -> str:
    """A dimension of a table, for comments.

    >>> counted(1, "row"), counted(3, "row")
    ('[1 row]', '[3 rows]')
    """
    return f"[{count} {noun}{'' if count == 1 else 's'}]"


def x_kind(op: Conv) -> str:
    """How the names of instructions end that read the image's elements."""
    return "u8" if op.x.dtype is DType.UINT8 else "s8"
