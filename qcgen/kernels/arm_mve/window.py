"""Where the Helium kernels read a window: in the image, or in a copy whose elements lie side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from qcgen.ir.program import Conv, ConvGeometry
from qcgen.ir.types import DType, Layout
from qcgen.kernels.arm_mve.blocks import BYTES
from qcgen.kernels.axes import Axis, any_at_border, any_inside, axes
from qcgen.kernels.windows import Runs


@dataclass(frozen=True)
class CopiedWindow(Runs):
    """How a window is found.

    Where it is copied, ``run`` elements are at a time. ``is_flat``: it is a pixel. ``is_in_place``: windows inside the
    image are a single run, which is read where it lies; but those that begin beyond ``last_in_place`` are copied,
    because whole vectors would leave the image (None if none does). ``copies`` says whether any window is copied; then
    ``bytes`` hold one.

    ``step``: windows of an image of one row overlap, so two are found as one, and the second begins so many elements
    behind the first; 0 where each is found by itself.
    """

    run: int
    is_flat: bool
    is_in_place: bool
    last_in_place: int | None
    copies: bool
    bytes: int
    step: int

    @property
    def looped_axes(self) -> tuple[Axis, ...]:
        """The axes that a loop over the runs has: none if it is a pixel."""
        return () if self.is_flat else super().looped_axes

    @property
    def all_bytes(self) -> int:
        """What the copies of two windows take."""
        return self.bytes if self.step else 2 * self.bytes

    @property
    def on_stack(self) -> bool:
        """Whether the C function's stack holds the copies: of a vector each. Two windows found as one are longer."""
        return self.copies and self.bytes <= BYTES

    @property
    def copies_inside(self) -> bool:
        """Whether windows inside are copied: some or all of them."""
        return self.has_inside and (not self.is_in_place or self.last_in_place is not None)


def window(op: Conv) -> CopiedWindow:
    """The windows of a channels-last image."""
    g = op.geometry
    spatial = window_axes(g)
    step = spatial[-1].stride_step if _is_line(g) else 0
    is_rows = g.kernel[-1] == 1 or g.dilations[-1] == 1
    spill = -g.taps % BYTES
    last = g.in_channels * prod(g.input) - g.taps - step - spill
    is_one_run = is_rows and prod(g.kernel[:-1]) == 1
    is_flat = not g.is_padded and set(g.kernel) == {1} and set(g.strides) == {1}
    is_in_place = is_one_run and any_inside(spatial) and op.x.dtype is DType.INT8 and last >= 0
    last_in_place = last if is_in_place and spill else None
    copies = any_at_border(spatial) or not is_in_place or last_in_place is not None
    run = g.in_channels * g.kernel[-1] if is_rows else g.in_channels
    return CopiedWindow(
        axes=spatial,
        is_rows=is_rows,
        depth=0,
        run=run + step,
        is_flat=is_flat,
        is_in_place=is_in_place,
        last_in_place=last_in_place,
        copies=copies,
        bytes=g.taps + step + spill,
        step=step,
    )


def window_axes(g: ConvGeometry) -> tuple[Axis, ...]:
    """The axes as windows are found; where two are found as one, the last axis counts it by its first output."""
    spatial = axes(g, Layout.CHANNELS_LAST)
    if not _is_line(g):
        return spatial
    row = spatial[-1]
    end = max(row.inside_begin, row.inside_end - 1)
    return (*spatial[:-1], replace(row, kernel=row.kernel + row.stride, inside_end=end))


def _is_line(g: ConvGeometry) -> bool:
    """Whether the image is a row at whose border two windows that overlap are copied."""
    is_row = prod(g.output[:-1]) == prod(g.kernel[:-1]) == g.dilations[-1] == 1 < g.output[-1]
    return is_row and g.strides[-1] <= g.kernel[-1] and any_at_border(axes(g, Layout.CHANNELS_LAST))
