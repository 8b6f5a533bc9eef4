"""How many instructions a call of arm_mve/depthwise executes: counts of gcc's code for a Cortex-M55 at -O3."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.program import Int64s
from qcgen.ir.types import Array
from qcgen.kernels.arm_mve.columns import BLOCK, QUAD, Columns
from qcgen.kernels.arm_mve.output import MveOutput

EXACT = {"raw": 14, "high word": 110, "wide": 200, "narrow": 90, "emulated": 450}
"""Of the exact function for four sums, by the kind of the output step."""

EMULATED = 310  # of the exact function for four sums, one of them near a tie
EMULATED_ONE = 110  # of the emulation for one sum
UNROLLED = 8  # outputs of a row that gcc writes out one by one


@dataclass(frozen=True)
class Work:
    """What the count depends on besides the columns.

    ``tested`` (quads,) is the number of channels of each four with a tie window; ``near`` (quads,) is how many of their
    sums are in it if these are anywhere in a step.
    """

    columns: Columns
    batch: int
    kind: str
    mve: MveOutput
    tested: Int64s
    near: Array
    is_packed: bool
    is_flipped: bool


def instructions(work: Work) -> float:
    """Instructions of one call."""
    columns = work.columns
    blocks = -(-columns.channels // BLOCK)
    total = 100 + 0.5 * (columns.line.bytes if columns.line else columns.scratch)
    if not work.is_packed:
        total += blocks * _weights(work) + 2 * columns.groups * columns.kernel_words
    return total + work.batch * (blocks * _filling(work) + _sums(work))


def _filling(work: Work) -> float:
    """Interleaving one block of an image."""
    columns = work.columns
    whole, rest = divmod(columns.bytes, BLOCK)
    flips = 4 if work.is_flipped else 0
    inside = 40 + whole * (10 + flips) + (30 + flips if rest else 0)
    # The first and the last bands stand outside their loop: gcc knows which of their rows are padding.
    border = 80 + whole * (14 + flips) + (30 + flips if rest else 0)
    copied = 0 if columns.line is None else 20 + columns.line.pixels * (4 if columns.channels > BLOCK else 0.5)
    return copied + sum(inside if is_inside else border for is_inside in columns.inside)


def _weights(work: Work) -> float:
    """Interleaving the weights of one block and laying them out."""
    columns = work.columns
    vectors = -(-columns.kernel_bytes // BLOCK)
    quads = -(-columns.column // QUAD)
    return 30 + columns.groups * (80 + 14 * vectors) + quads * (12 + 10 * columns.groups * columns.parts)


def _sums(work: Work) -> float:
    """All rows of outputs of one image."""
    columns, mve = work.columns, work.mve
    height, width = columns.height.output, columns.width.output
    bands = -(-height // columns.band)
    row = width * _sum(columns) + (17 if width > UNROLLED else 0) + (2 if columns.band > 1 else 0)
    if not mve.is_fast:
        always = len(work.tested) * (bands * 10 + height * (15 + row + width * EXACT[work.kind]))
        return always + height * width * float(work.near.sum()) * EMULATED_ONE
    row += width * (6 + (mve.low is not None) + (mve.high is not None) + 2 * (mve.offset is None))
    return sum(bands * 10 + height * (row + _near_ties(work, int(count))) for count in work.tested)


def _sum(columns: Columns) -> float:
    """The sums of four channels for one pixel."""
    return 12 + (13 * columns.parts + 1) * columns.groups if columns.is_large else 11


def _near_ties(work: Work, count: int) -> float:
    """What a row of four channels takes on top if ``count`` of them have a tie window."""
    if not count:
        return 0
    width = work.columns.width.output
    if not work.mve.limit:
        return width * EXACT["high word"]
    near = min(count * (2**31 - work.mve.limit) / 2**31, 1)
    again = 1 - (1 - near) ** width
    return 20 + 13 * width + again * (40 + width * (_sum(work.columns) + 29)) + near * width * EMULATED
