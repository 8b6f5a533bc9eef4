"""Operators whose output is their input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.program import Lookup, Operator, Pad, Program, Reshape, Resize, Slice, Tensor, Transpose
from qcgen.simplify.wiring import inner_names, reading


def remove_identities(program: Program) -> Program:
    """The program without them, one after the other.

    Who read the output reads the input. Where the output is the program's, the input's producer writes it; only if
    that is not possible either, because both are the caller's tensors, the operator stays.
    """
    inner = inner_names(program)
    for op in program.operators:
        x = identical_input(op)
        if x is None:
            continue
        if op.y.name in inner:
            return remove_identities(_without(program, op, op.y.name, x.name))
        if x.name in inner and x.layout is op.y.layout:
            return remove_identities(_without(program, op, x.name, op.y.name))
    return program


def identical_input(op: Operator) -> Tensor | None:
    """The input that an operator passes on unchanged, None if there is none."""
    match op:
        case Lookup():
            codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
            same = _means_the_same(op.x, op.y) and np.array_equal(op.table, codes)
        case Reshape():
            same = op.x.shape == op.y.shape
        case Transpose():
            moving = [axis for axis in op.perm if op.x.shape[axis] != 1]
            same = op.x.shape == op.y.shape and moving == sorted(moving)
        case Slice():
            same = op.x.shape == op.y.shape and not any(op.starts) and all(step == 1 for step in op.steps)
        case Pad():
            same = op.x.shape == op.y.shape
        case Resize():
            same = op.places == tuple(tuple(range(size)) for size in op.x.shape)
        case _:
            return None
    return op.x if same else None


def _means_the_same(x: Tensor, y: Tensor) -> bool:
    return (x.dtype, x.scale, x.zero_point) == (y.dtype, y.scale, y.zero_point)


def _without(program: Program, identity: Operator, old: str, new: str) -> Program:
    """The program without an operator, the tensor ``old`` called ``new`` wherever it is read or written."""
    operators: list[Operator] = []
    for op in program.operators:
        if op is not identity:
            kept = reading(op, {old: new})
            operators.append(replace(kept, y=replace(kept.y, name=new)) if kept.y.name == old else kept)
    return replace(program, operators=tuple(operators))
