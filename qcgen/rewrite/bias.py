"""The bias of a fused operator, as int32 in units of its accumulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import Dequantized, dequantized
from qcgen.rewrite.wiring import Wiring

SHIFT = 1 / 128
"""How far, in output codes, rounding may move a bias that was quantized with a scale of its own.

onnxruntime computes such a model in float; a smaller shift changes an output only where it lay this close to a tie.
"""


@dataclass(frozen=True)
class Accumulator:
    """``scale`` (M,) or () float32: the value of one unit; ``output_scale``: that of one output code.

    ``strict``: codes are taken as they are only if their scale is the accumulator's. onnxruntime compares the scales
    for Conv (within SLACK) and never for Gemm.
    """

    scale: Array
    output_scale: Array
    strict: bool


RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-2, 1e-6
"""onnxruntime takes scales for equal that differ by no more than this (measured on its default session)."""


def integer_bias(wiring: Wiring, tensor: str, channels: int, accumulator: Accumulator) -> Array | None:
    """The bias (M,) int32, None if it is not constant or has no good int32 form.

    int32 codes behind DequantizeLinear with the accumulator's scale are taken as they are; floats are divided by the
    scale in float32 and rounded half to even, as onnxruntime does; codes with another scale are rescaled.
    """
    found = dequantized(wiring, tensor)
    if found is None:
        values = wiring.constant(tensor)
        if values is None or values.dtype != np.float32:
            return None
        return _vector(_quantized(values, accumulator), channels)
    codes = wiring.constant(found.codes)
    if codes is None:
        return None
    if _is_taken(codes, found, accumulator):
        return _vector(codes, channels)
    return _vector(_rescaled(codes, found, accumulator), channels)


def _is_taken(codes: Array, bias: Dequantized, accumulator: Accumulator) -> bool:
    if accumulator.strict:
        return is_in_units(codes, bias, accumulator.scale)
    return DType.of(codes) is DType.INT32 and not bias.quantization.zero_point.any()


def is_in_units(codes: Array, bias: Dequantized, scale: Array) -> bool:
    """Whether codes of a bias are int32 in units of the accumulator, whose ``scale`` is (M,) or ()."""
    if DType.of(codes) is not DType.INT32 or bias.quantization.zero_point.any():
        return False
    given, wanted = bias.quantization.scale.astype(np.float64), scale.astype(np.float64)
    if given.size not in (1, wanted.size) and wanted.size != 1:
        return False
    return bool(np.all(np.abs(given - wanted) <= ABSOLUTE_SLACK + RELATIVE_SLACK * wanted))


def _quantized(values: Array, accumulator: Accumulator) -> Array | None:
    with np.errstate(all="ignore"):
        return _int32(np.rint(values / accumulator.scale))


def _rescaled(codes: Array, bias: Dequantized, accumulator: Accumulator) -> Array | None:
    """Codes in units of the accumulator, None if rounding them can be seen in the output."""
    difference = codes.astype(np.float64) - bias.quantization.zero_point
    exact = difference * bias.quantization.scale.astype(np.float64) / accumulator.scale.astype(np.float64)
    rounded = np.rint(exact)
    shift = np.abs(rounded - exact) * accumulator.scale / accumulator.output_scale
    return _int32(rounded) if np.all(shift <= SHIFT) else None


def _int32(values: Array) -> Array | None:
    """The values as int32, None if they are too large."""
    if not np.all(np.abs(values) < 2.0**31):
        return None
    return np.asarray(values.astype(np.int32))


def _vector(values: Array | None, channels: int) -> Array | None:
    """One value a channel from (), (1,), (M,) or (1, M); None for another shape."""
    if values is None or values.size not in (1, channels) or values.shape[-1:] not in ((), (1,), (channels,)):
        return None
    return np.ascontiguousarray(np.broadcast_to(values.reshape(-1), (channels,)))
