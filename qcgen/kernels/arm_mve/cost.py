"""Instructions of arm_mve/conv and arm_mve/dense on a Cortex-M55, estimated from what was counted with gcc -O3."""

from __future__ import annotations

from math import prod

import numpy as np

from qcgen.ir.program import Conv
from qcgen.kernels.arm_mve.blocks import BYTES, blocks, guarded, has_last
from qcgen.kernels.arm_mve.output import LANES, mve_output
from qcgen.kernels.arm_mve.window import Window, window, window_axes
from qcgen.kernels.packing import Packed

STEP = {1: 9, 2: 14}
"""Instructions of 16 elements of so many windows against four channels."""
BLOCK = {1: 15, 2: 19}
"""Those of a block of channels besides."""
FLAG = {1: 4, 2: 12}
"""Those of asking whether a block has tie windows, and of the registers that this takes."""
TIES = {1: 10, 2: 16}
"""Those of the test for tie windows, in blocks whose channels have one."""
EXACT = {"raw": 15, "high word": 85, "wide": 65, "narrow": 65, "emulated": 260}
"""Those of four output codes one by one, by the arithmetic."""
CALL = {1: 20, 2: 30}
"""Those of a call for one or two windows, besides blocks."""
WINDOW, BORDER = 14, 30
"""Those of finding a window inside the image, or at its border, besides copies."""
COPY, PIECE = 6, 3
"""Those of a copied run, and of 16 elements of it."""


def instructions(op: Conv, packed: Packed) -> float:
    """Instructions of one call."""
    g = op.geometry
    pixels = prod(g.output)
    ones = 1 if has_last(pixels) else 0
    twos = (pixels - ones + 1) // 2
    planned = window(op)
    finding = ((1 if planned.step else 2) * twos + ones) / pixels * _windows(op, planned)
    return g.batch * (twos * _channels(op, packed, 2) + ones * _channels(op, packed, 1) + finding)


def _channels(op: Conv, packed: Packed, windows: int) -> float:
    """All channels of one or two windows."""
    divided, mve = blocks(op, packed), mve_output(op, packed)
    count = -(-divided.channels // LANES)
    loops = 2 * divided.loop.count + 1 if divided.loop.count > 1 else 0
    block = BLOCK[windows] + STEP[windows] * divided.steps + loops
    exact = windows * EXACT[packed.epilogue.output.kind]
    if not mve.is_fast:
        return CALL[windows] + count * (block + exact)
    if not mve.has_windows:
        return CALL[windows] + count * block
    has_window = np.pad(guarded(op, packed), (0, -divided.channels % LANES)).reshape(-1, LANES)
    near = int(has_window.any(axis=1).sum())
    hits = windows * int(has_window.sum()) * (2**31 - mve.limit) / 2**31 if mve.limit else near
    return CALL[windows] + count * (block + FLAG[windows]) + near * TIES[windows] + min(hits, near) * exact


def _windows(op: Conv, planned: Window) -> float:
    """Finding the windows of all output pixels."""
    g = op.geometry
    pixels = prod(g.output)
    if g.taps == g.in_channels and not g.is_padded and set(g.strides) == {1}:
        return pixels * (COPY + PIECE * -(-planned.run // BYTES)) if not planned.is_in_place else 0
    runs = (g.taps + planned.step) / planned.run
    copied = runs * (COPY + PIECE * -(-planned.run // BYTES))
    inside = prod(axis.inside_end - axis.inside_begin for axis in window_axes(g))
    border = BORDER + copied + runs * (2 * COPY if planned.is_rows else COPY / 2)
    return inside * (WINDOW + (0 if planned.is_in_place else copied)) + (pixels - inside) * border
