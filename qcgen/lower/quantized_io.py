"""``--io quantized``: a network without the conversions at its boundary."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Dequantize, Operator, Program, Quantize, inputs_of


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
