"""The magnitudes of an Orion convolution that leave 32 bits whatever the input is: Orion panics every time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.errors import Problem
from qcgen.ir.program import Int64s, OrionConv
from qcgen.options import spelt
from qcgen.orion.arithmetic import MAGNITUDE_MAX
from qcgen.orion.intervals import accumulators, safe_accumulators

FORMATS = {16: "FP16x16", 23: "FP8x23"}
"""Orion's formats with 32-bit magnitudes, by their fraction bits."""


@dataclass(frozen=True)
class Magnitude:
    """The largest magnitude of a quantity that is the same for every input.

    ``channel`` is the output channel, None if all share it.
    """

    quantity: str
    value: int
    channel: int | None = None

    def problem(self, where: str, fraction_bits: int) -> Problem | None:
        """What to tell the user if the magnitude does not fit 32 bits."""
        if self.value <= MAGNITUDE_MAX:
            return None
        place = "" if self.channel is None else f" in output channel {self.channel}"
        limit = 2 ** (32 - fraction_bits)
        what = (
            f"{self.quantity} has a magnitude of {self.value} (the number {self.value / 2**fraction_bits:.6g})"
            f"{place}, {self.value - MAGNITUDE_MAX} more than the {MAGNITUDE_MAX} that {FORMATS[fraction_bits]} holds"
        )
        return Problem(where, what, _hint(fraction_bits, limit))


def _hint(fraction_bits: int, limit: int) -> str:
    """What to do about a number that is too large; ``limit`` is where the format's numbers end."""
    narrower = f"every weight, bias and scale must stay below {limit}: use smaller weights or scales"
    if fraction_bits == 16:
        return narrower
    return f"{narrower}, or compile with {spelt(numerics='orion-fp16x16')}, whose numbers reach 65536"


def overflows(where: str, op: OrionConv) -> tuple[Problem, ...]:
    """Every quantity of the convolution that leaves 32 bits whatever the input is, so that there is never an output.

    All numbers of ``op`` may have any size that int64 holds. What only some inputs drive so far is tested at run time.
    """
    constants = _largest("a dequantized weight", op.weights), _largest("the dequantized bias", op.bias)
    problems = [magnitude.problem(where, op.fraction_bits) for magnitude in constants]
    found = tuple(problem for problem in problems if problem is not None)
    return found or _never_requantized(where, op)


def _largest(quantity: str, values: Int64s) -> Magnitude:
    """The largest of the values (M, ...) of all channels."""
    by_channel = np.abs(values.reshape(values.shape[0], -1)).max(axis=1)
    channel = int(np.argmax(by_channel))
    return Magnitude(quantity, int(by_channel[channel]), channel)


def _never_requantized(where: str, op: OrionConv) -> tuple[Problem, ...]:
    """The first output channel none of whose accumulators can be requantized."""
    reached, (low, high) = accumulators(op), safe_accumulators(op)
    lost = np.flatnonzero((reached[:, 0] > high) | (reached[:, 1] < low))
    if not lost.size:
        return ()
    channel = int(lost[0])
    lowest, highest = reached[channel].tolist()
    what = (
        f"no input has an output in {FORMATS[op.fraction_bits]}: in output channel {channel} the sum of products and"
        f" bias is within [{lowest}, {highest}], and divided by y_scale it fits 32 bits within [{low}, {high}] only"
    )
    return (Problem(where, what, "use a larger y_scale or a smaller bias"),)
