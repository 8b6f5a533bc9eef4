"""Who reads which tensor; operators without effect, movements in a row, conversions at the boundary are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.program import (
    Dequantize,
    Lookup,
    Operator,
    Pad,
    Program,
    Quantize,
    Reshape,
    Resize,
    Slice,
    Tensor,
    Transpose,
    inputs_of,
    with_inputs,
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


def _reading(op: Operator, names: Mapping[str, str]) -> Operator:
    """The operator with some tensors to read under other names."""
    if not any(x.name in names for x in inputs_of(op)):
        return op
    return with_inputs(op, lambda x: replace(x, name=names.get(x.name, x.name)))


# Operators and constants that no output depends on.


def remove_dead(program: Program) -> Program:
    """The program without what nobody reads."""
    wanted = {tensor.name for tensor in program.outputs}
    live: list[Operator] = []
    for op in reversed(program.operators):
        if op.y.name in wanted:
            live.append(op)
            wanted |= {x.name for x in inputs_of(op)}
    constants = {name: values for name, values in program.constants.items() if name in wanted}
    if len(live) == len(program.operators) and len(constants) == len(program.constants):
        return program
    return replace(program, operators=tuple(reversed(live)), constants=constants)


# Operators whose output is their input.


def remove_identities(program: Program) -> Program:
    """The program without them.

    Who read the output reads the input. Where the output is the program's, the input's producer writes it; only if
    that is not possible either, because both are the caller's tensors, the operator stays.
    """
    inner, names = inner_names(program), dict[str, str]()
    operators: list[Operator] = []
    for op in program.operators:
        op = _reading(op, names)
        x = identical_input(op)
        if x is not None and op.y.name in inner:
            names[op.y.name] = x.name
        elif x is not None and x.name in inner and x.layout is op.y.layout:
            # Its producer and its other readers learn the name when all operators are seen.
            names[x.name] = op.y.name
            inner.discard(x.name)
        else:
            operators.append(op)
    if not names:
        return program
    return replace(program, operators=tuple(_renamed(op, names) for op in operators))


def _renamed(op: Operator, names: Mapping[str, str]) -> Operator:
    """The operator with every tensor called as in the end."""
    op = _reading(op, names)
    return replace(op, y=replace(op.y, name=names[op.y.name])) if op.y.name in names else op


def identical_input(op: Operator) -> Tensor | None:
    """The input that an operator passes on unchanged, None if there is none."""
    match op:
        case Lookup():
            codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
            same = not op.joined and _means_the_same(op.x, op.y) and np.array_equal(op.table, codes)
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


# A Reshape behind a Reshape, and a Transpose behind a Transpose, become one.


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


# Of a network with ``--io quantized`` the conversions at its boundary.


def quantized_io(program: Program) -> Program:
    """The program whose inputs and outputs are the integer tensors behind the first Quantize and before the last
    Dequantize; where an input or output has none, or is used otherwise too, it stays as it is, as do states.
    """
    for tensor in program.of_caller[0]:
        readers = [op for op in program.operators if tensor in inputs_of(op)]
        only = readers[0] if len(readers) == 1 else None
        if isinstance(only, Quantize) and only.y not in program.outputs:
            inputs = tuple(only.y if x == tensor else x for x in program.inputs)
            program = replace(program, inputs=inputs, operators=_without(program, only))
    for tensor in program.of_caller[1]:
        maker = next((op for op in program.operators if op.y == tensor), None)
        is_read = any(tensor in inputs_of(op) for op in program.operators)
        if isinstance(maker, Dequantize) and not is_read and maker.x not in (*program.inputs, *program.outputs):
            outputs = tuple(maker.x if y == tensor else y for y in program.outputs)
            program = replace(program, outputs=outputs, operators=_without(program, maker))
    return program


def _without(program: Program, dropped: Operator) -> tuple[Operator, ...]:
    return tuple(op for op in program.operators if op is not dropped)
