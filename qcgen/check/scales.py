"""Rules for the scales of quantized convolutions, and for the multiplier that they give together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qcgen.arithmetic import requantization_scale
from qcgen.check.operands import ConvOperands
from qcgen.errors import Problem
from qcgen.ir.program import Float32s

SCALES = ("x_scale", "w_scale", "y_scale")


def scale_problems(it: ConvOperands) -> Iterator[Problem]:
    """Scales that are not positive and finite; if all are, multipliers that overflow."""
    problems = [problem for role in SCALES for problem in _values(it, role)]
    yield from problems
    if not problems:
        yield from _multiplier(it)


def _scale(it: ConvOperands, role: str) -> Float32s | None:
    """The elements of a scale, None if it cannot be judged."""
    array = it.array(role)
    return None if array is None or array.dtype != np.float32 else array.reshape(-1)


def _values(it: ConvOperands, role: str) -> Iterator[Problem]:
    scale = _scale(it, role)
    if scale is None or not scale.size:
        return
    wrong = _wrong(scale)
    if wrong.size:
        what = f"{_subject(role, scale, wrong)} is {scale[wrong[0]]}; a scale must be positive and finite"
        yield it.problem(what, "quantize the model again, with data that makes every channel differ from zero")


def _multiplier(it: ConvOperands) -> Iterator[Problem]:
    x, w, y = (_scale(it, role) for role in SCALES)
    if x is None or w is None or y is None or x.size != 1 or y.size != 1 or not w.size:
        return
    scale = requantization_scale(x, w, y)
    wrong = _wrong(scale)
    if wrong.size:
        what = f"{_subject('x_scale * w_scale / y_scale', scale, wrong)} is {scale[wrong[0]]} in float32"
        yield it.problem(what, "the scales are too far apart: quantize the model again")


def _wrong(scale: Float32s) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The indices of the elements that are not positive and finite."""
    return np.flatnonzero(~(np.isfinite(scale) & (scale > 0)))


def _subject(name: str, scale: Float32s, wrong: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    """The first wrong element, and how many there are besides."""
    if scale.size == 1:
        return name
    more = f" (as of {wrong.size - 1} more)" if wrong.size > 1 else ""
    return f"{name} of output channel {wrong[0]}{more}"
