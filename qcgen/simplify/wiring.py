"""Who reads which tensor, and operators with other names for their tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from qcgen.ir.program import (
    Concat,
    DynamicQuantize,
    FloatBinary,
    GatherElements,
    IntegerLstm,
    MatMul,
    Operator,
    Program,
    QuantizedBinary,
    Recurrent,
    Select,
    Tensor,
    ZeroPointCorrection,
    inputs_of,
)


def readers_of(program: Program) -> Mapping[str, tuple[Operator, ...]]:
    """The operators that read each tensor, by its name, in execution order; tensors that nobody reads are absent."""
    readers: dict[str, list[Operator]] = {}
    for op in program.operators:
        for name in {x.name for x in inputs_of(op)}:
            readers.setdefault(name, []).append(op)
    return {name: tuple(ops) for name, ops in readers.items()}


def inner_names(program: Program) -> set[str]:
    """The tensors that operators write and that are not outputs of the program: their shape is ours to choose."""
    return {op.y.name for op in program.operators} - {tensor.name for tensor in program.outputs}


def with_inputs(op: Operator, change: Callable[[Tensor], Tensor]) -> Operator:
    """The operator with other tensors to read."""
    match op:
        case Concat():
            return replace(op, xs=tuple(change(x) for x in op.xs))
        case Select():
            first, second, chosen, other = map(change, op.xs)
            return replace(op, xs=(first, second, chosen, other))
        case QuantizedBinary() | FloatBinary() | MatMul():
            return replace(op, a=change(op.a), b=change(op.b))
        case GatherElements():
            return replace(op, x=change(op.x), places=change(op.places))
        case ZeroPointCorrection():
            return replace(op, x=change(op.x), zero_point=change(op.zero_point))
        case DynamicQuantize():
            return replace(op, x=change(op.x), scale=change(op.scale), zero_point=change(op.zero_point))
        case Recurrent():
            return op.with_reads(change)
        case IntegerLstm():
            return replace(op, x=change(op.x), h=change(op.h), c=change(op.c))
        case _:
            return replace(op, x=change(op.x))


def reading(op: Operator, names: Mapping[str, str]) -> Operator:
    """The operator with some tensors to read under other names."""
    if not any(x.name in names for x in inputs_of(op)):
        return op
    return with_inputs(op, lambda x: replace(x, name=names.get(x.name, x.name)))
