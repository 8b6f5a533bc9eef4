"""Who reads which tensor, and operators with other names for their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qcgen.ir.program import Operator, Program, inputs_of, with_inputs


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


def reading(op: Operator, names: Mapping[str, str]) -> Operator:
    """The operator with some tensors to read under other names."""
    if not any(x.name in names for x in inputs_of(op)):
        return op
    return with_inputs(op, lambda x: replace(x, name=names.get(x.name, x.name)))
