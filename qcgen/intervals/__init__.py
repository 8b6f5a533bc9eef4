"""What every accumulator and every tensor channel can be, propagated from the inputs through the Program."""

from __future__ import annotations

from qcgen.intervals.accumulators import (
    INT32_MAX,
    INT32_MIN,
    AccumulatorInterval,
    Range,
    accumulator_interval,
    accumulators,
    all_meet_image,
    element_sums,
    image_channel_axis,
    is_large,
    partial_sums,
    weight_differences,
    window_kinds,
    window_patterns,
)
from qcgen.intervals.propagate import annotate, channel_ranges

__all__ = [
    "INT32_MAX",
    "INT32_MIN",
    "AccumulatorInterval",
    "Range",
    "accumulator_interval",
    "accumulators",
    "all_meet_image",
    "annotate",
    "channel_ranges",
    "element_sums",
    "image_channel_axis",
    "is_large",
    "partial_sums",
    "weight_differences",
    "window_kinds",
    "window_patterns",
]
