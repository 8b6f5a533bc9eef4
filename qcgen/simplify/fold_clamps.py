"""A clamp of codes behind a requantization becomes tighter bounds of the requantization."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from qcgen.ir.program import Conv, GlobalAveragePool, Lookup, MatMul, Operator, Program, Reduce, Requantize, RoundOnce
from qcgen.simplify.wiring import inner_names, readers_of

By = TypeVar("By", Requantize, RoundOnce)


def fold_clamps(program: Program) -> Program:
    """The program without tables that only clamp what a single convolution or pooling writes for them.

    Exact, because clamps of whole numbers between whole numbers can be done one after the other or at once.
    """
    readers, inner = readers_of(program), inner_names(program)
    folded: dict[str, Operator] = {}
    for op in program.operators:
        before = folded.get(op.x.name) if isinstance(op, Lookup) else None
        if isinstance(op, Lookup) and before is not None and op.x.name in inner and len(readers[op.x.name]) == 1:
            clamped = _clamped(before, op)
            if clamped is not None:
                del folded[op.x.name]
                folded[op.y.name] = clamped
                continue
        folded[op.y.name] = op
    if len(folded) == len(program.operators):
        return program
    return replace(program, operators=tuple(folded.values()))


def _clamped(op: Operator, lookup: Lookup) -> Operator | None:
    """The operator that writes what the table makes of its codes, None if the table does more than clamp them.

    None for joined tables, too, whose operators keep their names.
    """
    meaning = (lookup.x.dtype, lookup.x.scale, lookup.x.zero_point)
    if lookup.joined or meaning != (lookup.y.dtype, lookup.y.scale, lookup.y.zero_point):
        return None
    match op:
        case Conv(epilogue=RoundOnce() as once):
            exact = _bounds(once, lookup)
            return None if exact is None else replace(op, y=lookup.y, epilogue=exact, accumulator_range=None)
        case Conv(epilogue=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, epilogue=bounds, accumulator_range=None)
        case MatMul(epilogue=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, epilogue=bounds)
        case GlobalAveragePool(requantize=Requantize() as requantize) | Reduce(requantize=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, requantize=bounds)
        case _:
            return None


def _bounds(requantize: By, lookup: Lookup) -> By | None:
    """The bounds that a clamp leaves, None if the table is none for the codes that reach it."""
    codes = np.arange(requantize.low, requantize.high + 1)
    found = lookup.table[codes - lookup.x.dtype.low]
    if not np.array_equal(found, np.clip(codes, found[0], found[-1])):
        return None
    return replace(requantize, low=int(found[0]), high=int(found[-1]))
