"""Operators and constants that no output depends on."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Operator, Program, inputs_of


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
