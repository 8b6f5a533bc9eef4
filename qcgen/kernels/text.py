"""How generated C is written: what comments say of a convolution, loops in copies of their body, library calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import DType, Layout

INDENT = "    "

KINDS = {
    DType.INT8: "s8",
    DType.UINT8: "u8",
    DType.INT16: "s16",
    DType.UINT16: "u16",
    DType.FLOAT32: "float",
}
"""How the names of the library's functions end that take elements of these types."""

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


def sequence_text(steps: int, inputs: int, units: int) -> str:
    """The sizes of a recurrent layer, for comments.

    >>> sequence_text(1, 4, 3)
    '1 step of 4 elements, 3 units'
    """
    counts = ((steps, "step"), (inputs, "element"), (units, "unit"))
    of_time, elements, states = (f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    return f"{of_time} of {elements}, {states}"


def x_kind(op: Conv) -> str:
    """How the names of functions end that read the image's elements."""
    return KINDS[op.x.dtype]


@dataclass(frozen=True)
class LibraryCall(Context):
    """The node's C function and the call in it."""

    template: ClassVar[str] = "kernels/library_call.c.jinja"

    comment: str  # above the function
    parameters: str  # of C
    function: str  # its name in the library, without qcgen_
    arguments: tuple[str, ...]  # of C
    layer: Struct | None  # whose address is the first argument, if there is one
    is_apart: bool = False  # the function is not inlined


def library_call(
    op: Operator,
    what: str,
    parameters: str,
    function: str,
    *arguments: str | int,
    layer: Struct | None = None,
    is_apart: bool = False,
) -> LibraryCall:
    """The context of an operator; ``what``: a sentence on what its function computes."""
    comment = f"{op.name}: {op.op_type}. {what}".rstrip()
    return LibraryCall(comment, parameters, function, tuple(map(str, arguments)), layer, is_apart)


@dataclass(frozen=True)
class Unrolled:
    """A loop of ``count`` rounds of ``unroll`` copies, then ``rest`` more copies."""

    total: int
    unroll: int
    count: int
    rest: int

    @property
    def copies(self) -> range:
        """The copies in the loop."""
        return range(self.unroll)

    @property
    def behind(self) -> int:
        """The copies that no loop has: all if it would have one round."""
        return self.rest if self.count > 1 else self.total

    @property
    def rest_copies(self) -> range:
        """The copies behind the loop."""
        return range(self.rest)


def unrolled(total: int, most: int, whole: int = 0) -> Unrolled:
    """How a loop of ``total`` rounds is written: in copies that divide it, if there are enough of these.

    There are at most ``most`` copies in a loop, and up to ``whole`` if that saves it.
    """
    if total <= max(most, whole):
        return Unrolled(total, total, 1 if total else 0, 0)
    unroll = max((n for n in range(max(1, most // 2), most + 1) if total % n == 0), default=most)
    return Unrolled(total, unroll, total // unroll, total % unroll)


def sized_loop(unroll: int) -> Unrolled:
    """A loop whose rounds each layer counts, one or more, of so many copies."""
    return Unrolled(2 * unroll, unroll, 2, 0)


@dataclass(frozen=True)
class ChannelBlocks:
    """Blocks of ``width`` output channels, from ``first`` on and before ``beyond``, summed at the same time."""

    width: int
    first: int
    beyond: int

    @property
    def channels(self) -> range:
        """The channels of a block, counted from its first."""
        return range(self.width)

    @property
    def size(self) -> int:
        """How many channels there are in all blocks."""
        return self.beyond - self.first

    @property
    def last(self) -> int:
        """The last channel of all."""
        return self.beyond - 1


def divided(total: int, widths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """``total`` in blocks of these widths, the largest first: each width with where its blocks begin and end.

    >>> list(divided(7, (4, 2, 1)))
    [(4, 0, 4), (2, 4, 6), (1, 6, 7)]
    """
    first = 0
    for width in widths:
        beyond = first + (total - first) // width * width
        if beyond > first:
            yield width, first, beyond
        first = beyond
