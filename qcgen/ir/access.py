"""How far the output of a kernel may lie over its input, from the order in which it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s

NOTHING = np.iinfo(np.int64).max
"""The lowest byte that a unit reads that reads none."""


@dataclass(frozen=True)
class AccessOrder:
    """What a kernel reads and writes, unit by unit in the order in which it computes them.

    ``reads`` (units,) int64: the lowest byte of the first input that each unit reads, NOTHING where it reads none.
    ``writes`` (units,) int64: the byte behind the highest one of the output that it writes. ``gathers``: a unit has
    read all of its input before it writes. ``multiple``: the units are those of one channel, and the kernel computes
    them for one channel after the other; only distances of whole pixels, of so many bytes, keep channels apart.
    """

    reads: Int64s
    writes: Int64s
    gathers: bool
    multiple: int = 1

    @property
    def units(self) -> int:
        """How many units there are, of one channel for a kernel that goes channel by channel."""
        return self.reads.size

    @property
    def distance(self) -> int:
        """The least D for which the output may begin at y = x - D, the input at x; a multiple of ``multiple``.

        For each unit: what it and those before it write ends at or below x plus what later units read, and what it
        reads itself unless it gathers. D is negative where reads run ahead far enough for y to lie above x.
        """
        written = np.maximum.accumulate(self.writes)
        needed = np.minimum.accumulate(self.reads[::-1])[::-1]
        if self.gathers:
            written, needed = written[:-1], needed[1:]
        is_read = needed != NOTHING
        # Where nothing is left to be read, any y will do; -writes[-1] puts the output above all of it.
        least = int((written[is_read] - needed[is_read]).max(initial=-int(self.writes[-1])))
        return least + -least % self.multiple
