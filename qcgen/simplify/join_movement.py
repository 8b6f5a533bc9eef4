"""A Reshape behind a Reshape, and a Transpose behind a Transpose, become one."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Operator, Program, Reshape, Transpose


def join_movement(program: Program) -> Program:
    """The program in which the second of two such operators reads what the first one reads."""
    joined: dict[str, Operator] = {}
    for op in program.operators:
        joined[op.y.name] = _joined(op, joined)
    if all(op is joined[op.y.name] for op in program.operators):
        return program
    return replace(program, operators=tuple(joined.values()))


def _joined(op: Operator, before: dict[str, Operator]) -> Operator:
    match op:
        case Reshape():
            first = before.get(op.x.name)
            return replace(op, x=first.x) if isinstance(first, Reshape) else op
        case Transpose():
            first = before.get(op.x.name)
            if not isinstance(first, Transpose):
                return op
            return replace(op, x=first.x, perm=tuple(first.perm[axis] for axis in op.perm))
        case _:
            return op
