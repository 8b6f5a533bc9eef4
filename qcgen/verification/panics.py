"""Inputs on both sides of Orion's panics: on one it panics, on the other, which differs in one code, it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from qcgen.errors import OrionPanic
from qcgen.ir.program import Program
from qcgen.ir.types import Array
from qcgen.reference import evaluate
from qcgen.verification.inputs import Case

MOST_PAIRS = 8
"""The inputs that panic from which such pairs are made."""


def panics(program: Program, feeds: Mapping[str, Array]) -> bool:
    """Whether Orion panics on inputs by name."""
    try:
        evaluate(program, feeds)
    except OrionPanic:
        return True
    return False


def border_cases(program: Program, cases: Sequence[Case]) -> Iterator[Case]:
    """Pairs of inputs, made from cases on which Orion panics and from one on which it does not; none without either."""
    fine = next((case.feeds for case in cases if not panics(program, case.feeds)), None)
    if fine is None:
        return
    beyond = [case.feeds for case in cases if panics(program, case.feeds)]
    for feeds in beyond[:MOST_PAIRS]:
        for side in _pair(program, fine, feeds):
            yield Case("next to a panic", side)


def _pair(program: Program, fine: Mapping[str, Array], beyond: Mapping[str, Array]) -> tuple[Mapping[str, Array], ...]:
    """Inputs between ``fine`` and ``beyond`` that differ in one code by 1: Orion panics on the second alone."""
    low, high = _flat(fine), _flat(beyond)

    def with_first(count: int) -> Array:
        return np.concatenate([high[:count], low[count:]])

    def panics_at(codes: Array) -> bool:
        return panics(program, _shaped(codes, fine))

    count = _last(high.size, lambda n: not panics_at(with_first(n)))
    step = int(np.sign(high[count].astype(int) - low[count].astype(int)))

    def moved(steps: int) -> Array:
        codes = with_first(count)
        codes[count] += step * steps
        return codes

    steps = _last(abs(int(high[count]) - int(low[count])), lambda n: not panics_at(moved(n)))
    return tuple(_shaped(moved(n), fine) for n in (steps, steps + 1))


def _last(end: int, holds: Callable[[int], bool]) -> int:
    """A number below ``end`` at which something holds that does not one further on; it holds at 0, not at ``end``."""
    first, last = 0, end
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if holds(middle) else (first, middle)
    return first


def _flat(feeds: Mapping[str, Array]) -> Array:
    """All codes of all inputs, which are int8 in Orion's arithmetic."""
    return np.concatenate([array.reshape(-1) for array in feeds.values()]).astype(np.int16)


def _shaped(codes: Array, like: Mapping[str, Array]) -> dict[str, Array]:
    found, start = {}, 0
    for name, array in like.items():
        found[name] = codes[start : start + array.size].reshape(array.shape).astype(array.dtype)
        start += array.size
    return found
