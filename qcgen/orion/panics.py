"""Which of Orion's magnitudes can leave 32 bits, so that code must test them: Orion panics there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s, OrionConv
from qcgen.orion.arithmetic import MAGNITUDE_MAX
from qcgen.orion.intervals import Interval, accumulators, safe_accumulators, safe_codes, sum_intervals, tap_products


@dataclass(frozen=True)
class Tests:
    """What only the input decides: whether these numbers leave 32 bits. Intervals exclude it for all others.

    ``codes`` and ``accumulators`` are the intervals that are fine, None if nothing else occurs: codes of x that can be
    dequantized, accumulators that can be requantized. The others say whether to test each product, the sum of the
    products of an input channel behind each of them, and the sum behind each input channel.
    """

    codes: Interval | None
    products: bool
    channel_sums: bool
    sums: bool
    accumulators: Interval | None

    @property
    def any(self) -> bool:
        """Whether Orion can panic at all."""
        partial = self.products or self.channel_sums or self.sums
        return partial or self.codes is not None or self.accumulators is not None

    @property
    def in_order(self) -> bool:
        """Whether sums must be taken in Orion's order, because those on the way are tested."""
        return self.channel_sums or self.sums


def run_time_tests(op: OrionConv) -> Tests:
    """What must be tested for this convolution; a test behind another one counts on it."""
    codes, safe = safe_codes(op), safe_accumulators(op)
    sums, reached = sum_intervals(op), accumulators(op)
    totals = [sums.total_low, sums.total_high] if op.geometry.group > 1 else []
    sums_leave = any(_leaves(bounds) for bounds in [*totals, reached])
    outside = int(reached.min()) < safe[0] or int(reached.max()) > safe[1]
    is_tested = sums_leave and safe == (-MAGNITUDE_MAX, MAGNITUDE_MAX)
    return Tests(
        codes=None if codes == (-128, 127) else codes,
        products=any(_leaves(products) for products in tap_products(op)),
        channel_sums=_leaves(sums.low) or _leaves(sums.high),
        sums=sums_leave,
        accumulators=safe if outside and not is_tested else None,
    )


def _leaves(values: Int64s) -> bool:
    return bool(np.abs(values).max(initial=0) > MAGNITUDE_MAX)
