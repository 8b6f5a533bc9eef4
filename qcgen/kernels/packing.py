"""Weights in the order and range in which integer kernels read them: zero points folded away, 4 bits two to a byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval, weight_differences
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, Int64s, RoundOnce
from qcgen.ir.types import DType
from qcgen.kernels.epilogue import Output, OutputStep, prepare_epilogue
from qcgen.kernels.kernel import CommonOutput, Constants, Setting
from qcgen.kernels.text import Described, described

NIBBLE = 4  # bits
LEVELS = 2**NIBBLE
LEAST_SAVED = 64  # bytes; less is about what the instructions take that unpack


def _fits_nibbles(weights: Int64s) -> bool:
    """Whether integers are close enough together for 4 bits, and so many that flash is saved."""
    return bool(weights.max() - weights.min() < LEVELS) and weights.size // 2 >= LEAST_SAVED


def packed_nibbles(weights: Int64s) -> Int64s:
    """Bytes (M, ceil(taps / 2)) of weights (M, taps)."""
    codes = weights - low_of(weights)
    even, odd = codes[:, 0::2], np.zeros_like(codes[:, 0::2])
    odd[:, : codes.shape[1] // 2] = codes[:, 1::2]
    return even | odd << 4


def low_of(weights: Int64s) -> int:
    """What 4 bits of zero mean: -8, that of int4, where it serves."""
    low, high = int(weights.min()), int(weights.max())
    return -LEVELS // 2 if low >= -LEVELS // 2 and high < LEVELS // 2 else low


@dataclass(frozen=True)
class Packed:
    """acc = bias[m] + sum of tap * weight + correction[m] * sum of taps, for taps x + x_shift.

    ``weights`` (M, taps) int64 fit int8 and stand in ONNX order; ``bias`` (M,) holds the operator's bias, the share
    of all zero points and the epilogue's addend; ``correction`` (M,) is zero unless the weights less their zero
    point need more than eight bits. ``padding`` is the tap that padding contributes. ``wraps``: sums may leave
    int32, so the kernel must add modulo 2^32. Weights, biases and so accumulators are ``2^bits`` times the
    operator's.
    """

    weights: Int64s
    bias: Int64s
    correction: Int64s
    padding: int
    x_shift: int
    wraps: bool
    has_zero_points: bool
    epilogue: OutputStep
    bits: int = 0
    is_nibbles: bool = False
    is_long: bool = False

    @property
    def is_corrected(self) -> bool:
        """Whether the kernel must sum the taps of each window."""
        return bool(self.correction.any())

    @property
    def certificate(self) -> Certificate:
        """What is proved of the node."""
        return self.epilogue.certificate

    @property
    def weights_remark(self) -> str:
        """How the table differs from the model's weights, for its comment."""
        if self.is_corrected:
            return ", shifted into int8"
        return ", less their zero point" if self.has_zero_points else ""

    @property
    def weights_type(self) -> str:
        """The C type of the table: int16 where weights less their zero point need it."""
        return "int8_t" if self.weights.min() >= -128 and self.weights.max() <= 127 else "int16_t"

    def constants(self) -> tuple[Constants, ...]:
        """The tables besides the weights: biases, corrections, and those of the output step."""
        addend = " plus an offset of the requantization" if self.epilogue.addend.any() else ""
        share = ", less the zero points' share" if self.padding or self.is_corrected else ""
        text = f"initial accumulators: the bias{share}{addend}."
        c_type = "int32_t" if self.bias.min() >= INT32_MIN and self.bias.max() <= INT32_MAX else "int64_t"
        constants = [Constants("bias", c_type, self.bias, text)]
        if self.is_corrected:
            text = "times the sum of a window's taps: what the shifted weights leave out."
            constants.append(Constants("correction", "int16_t", self.correction, text))
        return (*constants, *self.epilogue.constants)


def pack(
    op: Conv, setting: Setting, x_shift: int, *, whole_weights: bool = False, bits: int = 0, unpacks: bool = False
) -> Packed:
    """Equation (7): sum (x - z)(w - v) = sum t*s - (z + h) sum s + (c - v)(sum t - K (z + h)), t = x + h, s = w - c.

    h is ``x_shift``, z and v are the zero points, K the number of taps; c is v where w - v fits int8, else the middle
    of the weights' type, or v always with ``whole_weights``, for kernels that can read int16. Padded taps must hold
    z + h, so that they contribute nothing. ``bits``: accumulators are wanted times 2^bits, for weights that are read
    as int16; they are so where the output step is *multiply-high* and has room for them. ``unpacks``: the kernel can
    read weights of 4 bits, two to a byte; with --optimize size it is given such, and where zero points take w - v out
    of 4 bits, c is the middle of all codes.
    """
    difference = weight_differences(op)
    is_nibbles = unpacks and setting.optimize == "size" and _fits_nibbles(op.weights.astype(np.int64))
    is_whole = whole_weights or op.weights.dtype == np.int16
    fits = (difference.min(axis=1) >= -128) & (difference.max(axis=1) <= 127) | is_whole
    zero_point = op.w_zero_point.astype(np.int64)
    center = np.where(fits, zero_point, 0 if op.weights.dtype == np.int8 else 128)
    if is_nibbles and not _fits_nibbles(difference):
        center = np.full_like(zero_point, int(op.weights.min()) + LEVELS // 2)
    stored = difference + (zero_point - center)[:, None]
    correction = center - zero_point
    padding = op.x_zero_point + x_shift
    reached = accumulator_interval(op)
    epilogue = _epilogue(_Same(op), setting.features, bits, setting.common)
    bias = op.bias.astype(np.int64) - padding * stored.sum(axis=1) - correction * padding * stored.shape[1]
    tap_high = max(abs(op.x.dtype.low + x_shift), abs(op.x.dtype.high + x_shift))
    if bits and epilogue.output.kind == "multiply-high" and epilogue.output.word == 32 - bits:
        stored, bias = stored << bits, bias << bits
    else:
        bits = 0
    bias = bias + epilogue.addend
    overflows = reached.wraps or _may_overflow(stored, bias, correction, tap_high)
    is_long = overflows and isinstance(op.epilogue, RoundOnce)
    if is_long:
        epilogue = replace(epilogue, output=replace(epilogue.output, acc_type="int64_t"))
    wraps = overflows and not is_long
    bias = (bias - INT32_MIN) % 2**32 + INT32_MIN if wraps else bias
    return Packed(
        stored, bias, correction, padding, x_shift, wraps, bool(zero_point.any()), epilogue, bits, is_nibbles, is_long
    )


class _Same:
    """An operator as the key of a cache: equal to itself alone."""

    def __init__(self, op: Conv) -> None:
        self.op = op

    def __hash__(self) -> int:
        return id(self.op)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.op is other.op


@lru_cache(maxsize=4)
def _epilogue(same: _Same, features: frozenset[str], bits: int, common: CommonOutput | None) -> OutputStep:
    """The output step: proving it takes long, and each kernel that is considered for an operator asks for the same."""
    return prepare_epilogue(same.op, accumulator_interval(same.op), features, bits, common)


def _may_overflow(stored: Int64s, bias: Int64s, correction: Int64s, tap_high: int) -> bool:
    """Whether some partial sum, in whatever order it is taken, could leave int32."""
    sums = np.abs(stored).sum(axis=1) + np.abs(correction) * stored.shape[1]
    return bool((np.abs(bias) + tap_high * sums).max() > INT32_MAX)


def signed_shift(op: Conv) -> int:
    """What brings the input's codes to int8."""
    return -128 if op.x.dtype is DType.UINT8 else 0


def unsigned_shift(op: Conv) -> int:
    """What brings the input's codes to 0..255."""
    return 128 if op.x.dtype is DType.INT8 else 0


@dataclass(frozen=True)
class IntegerConv(Context):
    """What the templates of integer convolutions have in common."""

    conv: Described
    y_type: str  # of C
    output: Output


def integer_conv(op: Conv, packed: Packed) -> IntegerConv:
    """The convolution with its output step."""
    return IntegerConv(described(op), op.y.dtype.c, packed.epilogue.output)
