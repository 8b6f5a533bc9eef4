"""Depthwise layers of several sizes in one function: each channel is copied to a plane with padding, then convolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf, prod

from qcgen.ir.context import LayerField, own
from qcgen.ir.program import ConvGeometry
from qcgen.kernels.arm_dsp.kernel_words import KernelWords, kernel_words
from qcgen.kernels.kernel import Scratch, SizesPrice
from qcgen.kernels.windows import PlaneAxis, plane_axes

MAX_PLANE = 400  # elements of 16 bits, which the C function has on its stack where the arena has no room for them
MAX_TAPS = 9  # whose words registers hold besides what loops need
MAX_COPIES = 3, 4  # of the bodies of the loops that fill a row of the plane, and that compute a row of outputs

ELEMENT_BYTES, WORD_BYTES = 2, 4  # of a plane, whose elements are loaded in pairs

ELEMENT_COST = 4  # instructions more for an element of the image,
CHANNEL_COST = 70  # and for each channel, whose weights are packed
FUNCTION_BYTES = 2300  # of a layer's own functions: one of 1100, and one more where the common shift brings guard bands


@dataclass(frozen=True)
class PlaneProduct:
    """``sum`` = the product with a word of weights by the primitive ``by``, plus ``addend``."""

    sum: str
    by: str
    weight: int  # the number of the word
    addend: str


@dataclass(frozen=True)
class PlaneLoad:
    """Two elements of a row, or the lower one alone if no product takes the other, and their products."""

    index: int  # in the plane, from the first window's first
    is_pair: bool
    products: tuple[PlaneProduct, ...]


@dataclass(frozen=True)
class PlaneSizes:
    """Where the C of a function for layers of several sizes has them, and what is the same in all.

    ``channels``, ``rows`` and ``columns`` of the image, ``out_rows`` and ``out_columns``; ``first``: where the image
    begins in the plane, whose rows are ``pitch`` apart; ``zero_point`` is that of x, ``scale`` what weights are times.
    """

    channels: LayerField
    rows: LayerField
    columns: LayerField
    out_rows: LayerField
    out_columns: LayerField
    first: LayerField
    zero_point: LayerField
    scale: LayerField
    plane: int  # elements
    is_double: bool  # two channels are copied at the same time
    in_arena: bool  # the planes are scratch memory, not on the stack
    pitch: int
    copies: range  # of the body of the loop that fills a row
    row_step: int  # from a window to the next below
    column_step: int  # to the first on the right that the loop over columns has not computed
    sums: tuple[str, ...]  # of the outputs in the body of this loop
    loads: tuple[PlaneLoad, ...]  # what they are summed from


def plane_sizes(sizes: Sequence[ConvGeometry], free_bytes: int) -> PlaneSizes:
    """What the function shows for layers of these sizes, of which all can share it (``can_share``).

    ``free_bytes``: bytes of the arena that are free while they run; planes lie there if one fits, else on the stack.
    """
    axes = [plane_axes(g) for g in sizes]
    height, width = axes[0]
    pitch = _pitch(sizes)
    copies = _copies(MAX_COPIES[0], [width.input for _, width in axes])
    outputs = _outputs(sizes)
    plane = _elements(sizes)
    in_arena = ELEMENT_BYTES * plane <= free_bytes
    return PlaneSizes(
        channels=own("channels"),
        rows=own("rows"),
        columns=own("columns"),
        out_rows=own("out_rows"),
        out_columns=own("out_columns"),
        first=own("first"),
        zero_point=own("zero_point"),
        scale=own("scale"),
        plane=plane,
        is_double=2 * plane <= (free_bytes // ELEMENT_BYTES if in_arena else MAX_PLANE),
        in_arena=in_arena,
        pitch=pitch,
        copies=range(copies),
        row_step=height.stride * pitch,
        column_step=outputs * width.stride,
        sums=tuple(f"sum{output}" for output in range(outputs)),
        loads=tuple(_loads(sizes, pitch)),
    )


def planes_of(sizes: PlaneSizes) -> Scratch:
    """The memory of the planes, wherever it is."""
    return Scratch(ELEMENT_BYTES * sizes.plane * (2 if sizes.is_double else 1), WORD_BYTES)


def plane_numbers(g: ConvGeometry, sizes: Sequence[ConvGeometry], zero_point: int, scale: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    height, width = plane_axes(g)
    return {
        "channels": g.in_channels,
        "rows": height.input,
        "columns": width.input,
        "out_rows": height.output,
        "out_columns": width.output,
        "first": height.pad * _pitch(sizes) + width.pad,
        "zero_point": zero_point,
        "scale": scale,
    }


def can_share(sizes: Sequence[ConvGeometry]) -> bool:
    """Whether layers of these sizes have the same kernel and strides, and a plane that the stack has room for."""
    alike = {(g.kernel, g.strides, g.dilations, g.batch) for g in sizes}
    g = sizes[0]
    is_small = prod(g.kernel) <= MAX_TAPS and set(g.dilations) == {1} and g.batch == 1
    return len(alike) == 1 and is_small and _elements(sizes) <= MAX_PLANE


def _copies(most: int, lengths: Sequence[int]) -> int:
    """How many copies the body of a loop has whose rounds divide all these lengths."""
    return max(n for n in range(1, most + 1) if gcd(*lengths) % n == 0)


def _pitch(sizes: Sequence[ConvGeometry]) -> int:
    return max(_length(plane_axes(g)[1]) for g in sizes)


def _elements(sizes: Sequence[ConvGeometry]) -> int:
    """Those of the plane: the last word of a window of an odd number of taps reads no further than its last tap."""
    return _pitch(sizes) * max(_length(plane_axes(g)[0]) for g in sizes)


def _length(axis: PlaneAxis) -> int:
    """Elements of the image with its padding."""
    return max(axis.pad + axis.input, axis.reached)


def _outputs(sizes: Sequence[ConvGeometry]) -> int:
    """How many outputs of a row are summed at the same time."""
    return _copies(MAX_COPIES[1], [plane_axes(g)[1].output for g in sizes])


def _kernel(sizes: Sequence[ConvGeometry]) -> KernelWords:
    """The taps in words, as the outputs that are summed at the same time meet them."""
    height, width = plane_axes(sizes[0])
    return kernel_words(height, replace(width, output=_outputs(sizes)))


def _loads(sizes: Sequence[ConvGeometry], pitch: int) -> Iterator[PlaneLoad]:
    """Row by row of the kernel, word by word, each with its products for all outputs."""
    height, width = plane_axes(sizes[0])
    kernel, started = _kernel(sizes), set[str]()
    for row in range(height.kernel):
        words: dict[int, list[tuple[str, str, int]]] = {}
        for output in range(_outputs(sizes)):
            for word, by, weight in kernel.products(row, output * width.stride):
                words.setdefault(word, []).append((f"sum{output}", by, weight))
        for word, found in sorted(words.items()):
            products = []
            for name, by, weight in found:
                products.append(PlaneProduct(name, by, weight, name if name in started else "bias"))
                started.add(name)
            is_pair = any(not by.startswith("low") for _, by, _ in found)
            yield PlaneLoad(row * pitch + 2 * word, is_pair, tuple(products))


def plane_words(sizes: Sequence[ConvGeometry]) -> tuple[tuple[int, int, int | None], ...]:
    """The words of weights: number, taps in the lower and in the upper half."""
    _, width = plane_axes(sizes[0])
    found = []
    for number, (low, high) in enumerate(_kernel(sizes).words):
        assert low is not None, "the lower half of a word of a kernel without dilation is a tap"
        place = None if high is None else high[0] * width.kernel + high[1]
        found.append((number, low[0] * width.kernel + low[1], place))
    return tuple(found)


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What copying takes, and loops without copies of their bodies; infinite if the layers cannot share."""
    if not can_share(sizes):
        return inf
    return g.in_channels * (CHANNEL_COST + ELEMENT_COST * prod(g.input))


SIZES = SizesPrice(lambda _: FUNCTION_BYTES, _more_instructions)
