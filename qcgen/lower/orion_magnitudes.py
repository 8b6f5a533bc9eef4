"""Proof that no magnitude of an Orion convolution leaves 32 bits, or the quantities that do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qcgen.errors import Problem
from qcgen.ir.program import Int64s, OrionConv
from qcgen.orion.arithmetic import MAGNITUDE_MAX, divide
from qcgen.orion.intervals import sum_intervals

FORMATS = {16: "FP16x16", 23: "FP8x23"}
"""Orion's formats with 32-bit magnitudes, by their fraction bits."""


@dataclass(frozen=True)
class Magnitude:
    """The largest magnitude that a quantity reaches; ``channel`` is the output channel, None if all share it."""

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
            f"{self.quantity} can reach a magnitude of {self.value} (the number {self.value / 2**fraction_bits:.6g})"
            f"{place}, {self.value - MAGNITUDE_MAX} more than the {MAGNITUDE_MAX} that {FORMATS[fraction_bits]} holds"
        )
        return Problem(where, what, _hint(fraction_bits, limit))


def _hint(fraction_bits: int, limit: int) -> str:
    """What to do about a number that is too large; ``limit`` is where the format's numbers end."""
    narrower = f"every number must stay below {limit}, for every input: use smaller weights or a larger y_scale"
    if fraction_bits == 16:
        return narrower
    return f"{narrower}, or compile with --numerics orion-fp16x16, whose numbers reach 65536"


def overflows(where: str, op: OrionConv) -> tuple[Problem, ...]:
    """Every quantity of the convolution that some input drives out of 32 bits.

    Sums are bounded in the order in which Orion adds: the products of one input channel from 0, then the channels onto
    the bias; with groups the channels first and the bias last. All numbers of ``op`` may have any size that int64
    holds. A quantity that is computed from another one that does not fit is not examined.
    """
    for stage in (_operands, _products, _channel_sums, _sums, _quotients, _moved_quotients):
        problems = [magnitude.problem(where, op.fraction_bits) for magnitude in stage(op)]
        found = tuple(problem for problem in problems if problem is not None)
        if found:
            return found
    return ()


def _largest(quantity: str, values: Int64s) -> Magnitude:
    """The largest of the values (M, ...) of all channels."""
    by_channel = np.abs(values.reshape(values.shape[0], -1)).max(axis=1)
    channel = int(np.argmax(by_channel))
    return Magnitude(quantity, int(by_channel[channel]), channel)


def _operands(op: OrionConv) -> Iterator[Magnitude]:
    yield Magnitude("the dequantized input", int(np.abs(op.x_values).max()))
    yield _largest("a dequantized weight", op.weights)
    yield _largest("the dequantized bias", op.bias)


def _products(op: OrionConv) -> Iterator[Magnitude]:
    """The product in Python's integers: before it is truncated it may need 64 bits, which Orion has."""
    weight = _largest("", op.weights)
    product = (int(np.abs(op.x_values).max()) * weight.value) >> op.fraction_bits
    yield Magnitude("a product of input and weight", product, weight.channel)


def _channel_sums(op: OrionConv) -> Iterator[Magnitude]:
    """Bounds of the complete sums bound all their prefixes too, because every product's interval contains 0."""
    sums = sum_intervals(op)
    yield _largest("the sum of the products of one input channel", np.maximum(sums.high, -sums.low))


def _sums(op: OrionConv) -> Iterator[Magnitude]:
    """Without groups the bias comes first, and every prefix lies in the interval of the whole accumulator."""
    if op.geometry.group > 1:
        sums = sum_intervals(op)
        yield _largest("the sum of all products", np.maximum(sums.total_high, -sums.total_low))
    yield _largest("the sum of products and bias", _accumulators(op))


def _quotients(op: OrionConv) -> Iterator[Magnitude]:
    """Quotients grow with the accumulator, so its two extremes decide."""
    yield _largest("the quotient of the sum and y_scale", divide(_accumulators(op), op.y_scale, op.fraction_bits))


def _moved_quotients(op: OrionConv) -> Iterator[Magnitude]:
    quotients = divide(_accumulators(op), op.y_scale, op.fraction_bits)
    yield _largest("the quotient plus y_zero_point", quotients + op.y_zero_point)


def _accumulators(op: OrionConv) -> Int64s:
    """(M, 2): the smallest and the largest accumulator of every channel."""
    sums = sum_intervals(op)
    return np.stack([op.bias + sums.total_low, op.bias + sums.total_high], axis=1)
