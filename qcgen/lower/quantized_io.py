"""``--io quantized``: a network without the conversions at its boundary."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import Dequantize, Operator, Program, Quantize, Tensor, inputs_of


def quantized_io(program: Program) -> Program:
    """The program whose inputs and outputs are the integer tensors behind the first Quantize and before the last
    Dequantize; where an input or output has none, or is used otherwise too, it stays as it is, as do states.
    """
    return _quantized_outputs(_quantized_inputs(program))


def _quantized_inputs(program: Program) -> Program:
    inputs: list[Tensor] = []
    dropped: list[Operator] = []
    for tensor in program.inputs:
        readers = [op for op in program.operators if tensor in inputs_of(op)]
        only = readers[0] if len(readers) == 1 else None
        is_callers = tensor in program.of_caller[0]
        if is_callers and isinstance(only, Quantize) and only.y not in program.outputs:
            inputs.append(only.y)
            dropped.append(only)
        else:
            inputs.append(tensor)
    return replace(program, inputs=tuple(inputs), operators=_without(program, dropped))


def _quantized_outputs(program: Program) -> Program:
    outputs: list[Tensor] = []
    dropped: list[Operator] = []
    for tensor in program.outputs:
        maker = next((op for op in program.operators if op.y == tensor), None)
        is_read = any(tensor in inputs_of(op) for op in program.operators)
        inner = isinstance(maker, Dequantize) and maker.x not in (*program.inputs, *program.outputs, *outputs)
        if isinstance(maker, Dequantize) and inner and not is_read and tensor in program.of_caller[1]:
            outputs.append(maker.x)
            dropped.append(maker)
        else:
            outputs.append(tensor)
    return replace(program, outputs=tuple(outputs), operators=_without(program, dropped))


def _without(program: Program, dropped: list[Operator]) -> tuple[Operator, ...]:
    return tuple(op for op in program.operators if not any(op is other for other in dropped))
