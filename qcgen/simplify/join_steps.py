"""Sums that become floats and then codes, by constants alone: one requantization, where a line in integers serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from qcgen import arithmetic
from qcgen.intervals import accumulator_interval, image_channel_axis
from qcgen.ir.program import (
    Conv,
    Convert,
    FloatBinary,
    Operator,
    Program,
    Quantize,
    RawAccumulator,
    RoundedStep,
    RoundInSteps,
    Tensor,
)
from qcgen.ir.types import Array, DType
from qcgen.requantize import line_in_64_bits
from qcgen.requantize.staircase import staircase
from qcgen.simplify.wiring import inner_names, readers_of


def join_steps(program: Program) -> Program:
    """The program whose sums of convolutions and products become codes at once, not by way of floats.

    Behind the sums are a Cast to float32, operations with constants and a QuantizeLinear to 8 bits; nothing else reads
    what is between. Codes are a staircase over the sums: where no line in 64 bits equals it in every channel, the
    floats stay.
    """
    sums = [op for op in program.operators if isinstance(op, Conv) and isinstance(op.epilogue, RawAccumulator)]
    if not sums:
        return program
    readers, inner = readers_of(program), inner_names(program)
    joined: dict[str, Operator] = {}
    gone: set[str] = set()
    for op in sums:
        chain = [*_chain(op.y, readers, inner)]
        found = _joined(op, chain, program.constants)
        if found is not None:
            joined[op.y.name] = found
            gone |= {each.y.name for each in chain}
    if not joined:
        return program
    kept = (joined.get(op.y.name, op) for op in program.operators if op.y.name not in gone)
    return replace(program, operators=tuple(kept))


def _chain(y: Tensor, readers: Mapping[str, Sequence[Operator]], inner: set[str]) -> Iterator[Operator]:
    """What reads a tensor, alone, what reads that, and so on, up to the first QuantizeLinear."""
    while y.name in inner and len(readers.get(y.name, ())) == 1:
        [op] = readers[y.name]
        yield op
        if isinstance(op, Quantize):
            return
        y = op.y


def _joined(conv: Conv, chain: Sequence[Operator], constants: Mapping[str, Array]) -> Conv | None:
    """The convolution with the whole chain as its output step, None if it has none or no line equals it."""
    if len(chain) < 2 or not isinstance(chain[0], Convert) or not isinstance(chain[-1], Quantize):
        return None
    y, interval = chain[-1].y, accumulator_interval(conv)
    if chain[0].y.dtype is not DType.FLOAT32 or y.dtype.bytes > 1 or y.scale is None or interval.wraps:
        return None
    steps = [_step(conv, before.y, op, constants) for before, op in pairwise(chain[:-1])]
    requantize = _requantization(conv.geometry.out_channels, [step for step in steps if step is not None], y)
    if None in steps or line_in_64_bits(staircase(requantize, interval.lo, interval.hi)) is None:
        return None
    return replace(conv, y=replace(y, layout=conv.y.layout), epilogue=requantize, accumulator_range=None)


def _step(conv: Conv, x: Tensor, op: Operator, constants: Mapping[str, Array]) -> RoundedStep | None:
    """What an operator does to x with a number for each channel, factors being positive; None if it does more."""
    if not isinstance(op, FloatBinary) or op.kind not in ("add", "sub", "mul", "div"):
        return None
    is_first = op.a.name == x.name
    values = constants.get(op.b.name if is_first else op.a.name)
    if values is None or op.y.shape != x.shape or not (is_first or op.kind in ("add", "mul")):
        return None
    axis = len(x.shape) - 1 if conv.y.layout is None else image_channel_axis(conv.y)
    shape = (1,) * (len(x.shape) - values.ndim) + values.shape
    if any(size > 1 for place, size in enumerate(shape) if place != axis) or not np.isfinite(values).all():
        return None
    operand = np.broadcast_to(values.reshape(-1), conv.geometry.out_channels)
    return None if op.kind in ("mul", "div") and operand.min() <= 0 else RoundedStep(op.kind, operand)


def _requantization(channels: int, steps: Sequence[RoundedStep], y: Tensor) -> RoundInSteps:
    """The steps, and the quantization of what they give."""
    assert y.scale is not None, "codes have a scale"
    assert y.zero_point is not None, "and a zero point"
    y_scale, scale = np.float32(y.scale), np.full(channels, 1 / np.float64(y.scale))
    for step in steps:
        scale = scale * step.operand if step.kind == "mul" else scale / step.operand if step.kind == "div" else scale
    about = np.clip(scale, arithmetic.LEAST_SCALE, np.finfo(np.float32).max).astype(np.float32)
    return RoundInSteps(about, y.zero_point, y.dtype.low, y.dtype.high, tuple(steps), y_scale)
