"""Inputs worth trying: seeded random ones, extremes, and those that drive accumulators to their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Program, Tensor
from qcgen.ir.types import Array, DType
from qcgen.verify.ends import driving_inputs

FLOAT_REACH = 4.0
"""The extremes tried for float inputs are -4 and 4: beyond the bends of every activation."""


@dataclass(frozen=True)
class Case:
    """Inputs by name in the model's own shapes; ``expected`` are recorded outputs, None if the reference judges."""

    group: str
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array] | None = None


@dataclass(frozen=True)
class Reached:
    """How many output channels are driven to both ends of their accumulator's interval; float operators have none."""

    channels: int
    of: int


def generated_cases(program: Program, seed: int, cases: int) -> Iterator[Case]:
    """``cases`` random inputs, half of them of extremes only, then the extremes; the same for the same seed."""
    generator = np.random.default_rng(seed)
    for index in range(cases):
        pick = _random_ends if index % 2 else _random
        group = "random extremes" if index % 2 else "random"
        yield Case(group, {tensor.name: pick(tensor, generator) for tensor in program.inputs})
    for group, value in (("all low", _low), ("all high", _high), ("all zero points", _zero)):
        yield Case(group, {tensor.name: _filled(tensor, value(tensor)) for tensor in program.inputs})


def end_cases(program: Program) -> tuple[list[Case], Reached]:
    """Inputs that drive the accumulators of every operator that reads an input of the model to both ends."""
    named = {tensor.name: tensor for tensor in program.inputs}
    cases, reached, channels = [], 0, 0
    for op in program.operators:
        if op.x.name not in named:
            continue
        rest = {name: _filled(tensor, _zero(tensor)) for name, tensor in named.items()}
        driven = driving_inputs(op, _low(op.x), _zero(op.x), _high(op.x))
        cases += [Case("accumulator ends", rest | {op.x.name: x}) for x in driven.inputs]
        if op.x.dtype is not DType.FLOAT32:
            reached += driven.reached
            channels += op.geometry.out_channels
    return cases, Reached(reached, channels)


def _random(tensor: Tensor, generator: np.random.Generator) -> Array:
    if tensor.dtype is DType.FLOAT32:
        return generator.standard_normal(tensor.shape).astype(np.float32)
    return generator.integers(tensor.dtype.low, tensor.dtype.high + 1, tensor.shape).astype(tensor.dtype.numpy)


def _random_ends(tensor: Tensor, generator: np.random.Generator) -> Array:
    ends = np.array([_low(tensor), _zero(tensor), _high(tensor)]).astype(tensor.dtype.numpy)
    chosen: Array = ends[generator.integers(0, 3, tensor.shape)]
    return chosen


def _filled(tensor: Tensor, value: float) -> Array:
    return np.full(tensor.shape, value, tensor.dtype.numpy)


def _low(tensor: Tensor) -> float:
    return -FLOAT_REACH if tensor.dtype is DType.FLOAT32 else tensor.dtype.low


def _high(tensor: Tensor) -> float:
    return FLOAT_REACH if tensor.dtype is DType.FLOAT32 else tensor.dtype.high


def _zero(tensor: Tensor) -> float:
    return tensor.zero_point or 0
