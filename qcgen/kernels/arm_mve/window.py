"""Where the Helium kernels read a window: in the image, or in a copy whose elements lie side by side."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.program import Conv
from qcgen.ir.types import DType, Layout
from qcgen.kernels.arm_mve.blocks import BYTES
from qcgen.kernels.axes import any_at_border, any_inside, axes


@dataclass(frozen=True)
class Window:
    """How a window is found.

    ``is_rows``: the taps of a row of the kernel lie side by side in the image; then ``run`` elements are copied at a
    time, otherwise those of one tap. ``is_in_place``: windows inside the image are a single run, which is read where it
    lies; but those that begin beyond ``last_in_place`` are copied, because whole vectors would leave the image (None if
    none does). ``copies`` says whether any window is copied; then ``bytes`` of scratch hold one.
    """

    is_rows: bool
    run: int
    has_border: bool
    has_inside: bool
    is_in_place: bool
    last_in_place: int | None
    copies: bool
    bytes: int

    @property
    def copies_inside(self) -> bool:
        """Whether windows inside are copied: some or all of them."""
        return self.has_inside and (not self.is_in_place or self.last_in_place is not None)


def window(op: Conv) -> Window:
    """The windows of a channels-last image."""
    g = op.geometry
    spatial = axes(g, Layout.CHANNELS_LAST)
    has_border, has_inside = any_at_border(spatial), any_inside(spatial)
    is_rows = g.kernel[-1] == 1 or g.dilations[-1] == 1
    spill = -g.taps % BYTES
    last = g.in_channels * prod(g.input) - g.taps - spill
    is_one_run = is_rows and prod(g.kernel[:-1]) == 1
    is_in_place = is_one_run and has_inside and op.x.dtype is DType.INT8 and last >= 0
    last_in_place = last if is_in_place and spill else None
    copies = has_border or not is_in_place or last_in_place is not None
    run = g.in_channels * g.kernel[-1] if is_rows else g.in_channels
    return Window(is_rows, run, has_border, has_inside, is_in_place, last_in_place, copies, g.taps + spill)
