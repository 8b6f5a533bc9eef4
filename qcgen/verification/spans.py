"""What numbers are worth giving to an input: the range of its type, or what the first Quantize behind it covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import (
    Convert,
    Embedding,
    FloatUnary,
    Program,
    Quantize,
    Reshape,
    Slice,
    Tensor,
    Transpose,
    inputs_of,
)

FLOAT_REACH = 4.0
"""The extremes tried for float inputs that nothing quantizes are -4 and 4: beyond the bends of every activation."""

BEYOND = 0.25
"""How far beyond what is covered quantized float inputs go at either end, as a part of the range."""


@dataclass(frozen=True)
class Span:
    """``low`` and ``high`` are the extremes to try, ``zero`` is 0; ``quantized`` is what a float input becomes."""

    low: float
    zero: float
    high: float
    quantized: Tensor | None = None


def span_of(program: Program, tensor: Tensor) -> Span:
    """The span of an input, or of a tensor that is quantized."""
    rows = _rows_of(program, tensor)
    if rows:
        return Span(-rows - 1, 0, rows)
    if not tensor.dtype.is_float:
        return Span(tensor.dtype.low, tensor.zero_point or 0, tensor.dtype.high)
    quantized = _first_quantized(program, tensor)
    if quantized is None:
        return Span(-FLOAT_REACH, 0.0, FLOAT_REACH)
    scale, zero_point = float(quantized.scale or 1), quantized.zero_point or 0
    low, high = ((end - zero_point) * scale for end in (quantized.dtype.low, quantized.dtype.high))
    beyond = BEYOND * (high - low)
    limit = float(np.finfo(np.float32).max)
    return Span(max(low - beyond, -limit), 0.0, min(high + beyond, limit), quantized)


def _rows_of(program: Program, tensor: Tensor) -> int:
    """The rows of the largest table of which the elements of a tensor are numbers, 0 if there is none."""
    tables = [op.table for op in program.operators if isinstance(op, Embedding) and op.x.name == tensor.name]
    return max(map(len, tables), default=0)


def _first_quantized(program: Program, tensor: Tensor) -> Tensor | None:
    """What the first Quantize behind a float tensor makes of it; what only moves or clamps elements is passed by."""
    names = {tensor.name}
    for op in program.operators:
        if names.isdisjoint(x.name for x in inputs_of(op)):
            continue
        if isinstance(op, Quantize):
            return op.y
        if isinstance(op, Transpose | Reshape | Slice | FloatUnary | Convert):
            names.add(op.y.name)
    return None
