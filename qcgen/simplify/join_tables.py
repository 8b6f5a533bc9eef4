"""What several operators make of the codes of one tensor, element by element, becomes one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.program import (
    Dequantize,
    FloatBinary,
    Lookup,
    Operator,
    Program,
    Quantize,
    QuantizedBinary,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Array, DType
from qcgen.reference import evaluate_operator
from qcgen.simplify.wiring import readers_of

ROUNDED_ONCE = ("add", "sub", "mul", "div", "max", "min")
"""The operations on floats that every processor rounds alike."""


def join_tables(program: Program) -> Program:
    """The program in which sums, products and the like of functions of one tensor are one table of its codes.

    x * sigmoid(x) needs no multiplication then, whatever is quantized between the two. A table whose only reader is
    another table is joined to that. Exact: the reference sends each code through all operators that a table replaces.
    """
    search = _Search(program)
    operators = tuple(search.joined(op) for op in program.operators)
    if all(new is op for new, op in zip(operators, program.operators, strict=True)):
        return program
    in_float = {op.name for op in operators if isinstance(op, Lookup) and program.in_float.intersection(op.joined)}
    return replace(program, operators=operators, in_float=program.in_float | in_float)


class _Search:
    """Looks at operators in execution order, for what can be joined to those before."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers = readers_of(program)
        self.outputs = {tensor.name for tensor in program.outputs}
        self.places = {op.y.name: place for place, op in enumerate(program.operators)}
        self.makers: dict[str, Operator] = {}

    def joined(self, op: Operator) -> Operator:
        """The operator, or the table that takes its place."""
        found = self._root(op) if _makes_codes(op) else None
        new = op if found is None else self._table(op, *found)
        self.makers[op.y.name] = new
        return new

    def _root(self, op: Operator) -> tuple[Tensor, tuple[Operator, ...]] | None:
        """The tensor of codes of which ``op`` is a function, by way of these operators, ``op`` the last of them.

        The nearest one, unless nothing else reads it: then the one before. None if no operator would be joined.
        """
        found: tuple[Tensor, tuple[Operator, ...]] | None = None
        operators, opened = {op.y.name: op}, self._operands(op)
        while opened:
            last = opened[max(opened, key=lambda name: self.places.get(name, -1))]
            if len(opened) == 1 and last.dtype.is_quantized:
                if last.shape != op.y.shape:
                    return found
                if len(operators) > 1:
                    found = last, tuple(sorted(operators.values(), key=lambda each: self.places[each.y.name]))
                if self._is_read_by_others(last, operators):
                    return found
            maker = self.makers.get(last.name)
            if maker is None or not _is_elementwise(maker) or maker.y.shape != op.y.shape:
                return found
            operators[last.name] = maker
            operands = self._operands(maker)
            opened = {**{name: x for name, x in opened.items() if x is not last}, **operands} if operands else {}
        return found

    def _is_read_by_others(self, tensor: Tensor, operators: Mapping[str, Operator]) -> bool:
        readers = self.readers[tensor.name]
        return tensor.name in self.outputs or any(reader.y.name not in operators for reader in readers)

    def _operands(self, op: Operator) -> dict[str, Tensor]:
        """What is not constant of an operator's inputs, by name; nothing if a constant is more than one number."""
        constants = self.program.constants
        if any(x.name in constants and x.size != 1 for x in inputs_of(op)):
            return {}
        return {x.name: x for x in inputs_of(op) if x.name not in constants}

    def _table(self, op: Operator, root: Tensor, operators: tuple[Operator, ...]) -> Lookup:
        codes = np.arange(root.dtype.low, root.dtype.high + 1).astype(root.dtype.numpy)
        values: dict[str, Array] = {**self.program.constants, root.name: codes}
        for each in operators:
            values[each.y.name] = evaluate_operator(each, *(values[x.name] for x in inputs_of(each)))
        parts = [each for each in operators if not isinstance(each, Dequantize)]
        names = [name for each in parts for name in (*(each.joined if isinstance(each, Lookup) else ()), each.name)]
        joined = tuple(dict.fromkeys(name for name in names if name != op.name))
        return Lookup(op.name, op.op_type, root, op.y, values[op.y.name].reshape(-1).astype(np.int64), joined)


def _makes_codes(op: Operator) -> bool:
    """Whether the operator can be a table of codes of 8 bits."""
    is_narrow = op.y.dtype.is_quantized and not any(x.dtype.is_16_bit for x in inputs_of(op))
    return is_narrow and isinstance(op, Lookup | QuantizedBinary | Quantize)


def _is_elementwise(op: Operator) -> bool:
    """Whether the operator makes each number of one number, exactly as onnxruntime does."""
    if isinstance(op, FloatBinary):
        return op.kind in ROUNDED_ONCE and op.y.dtype is DType.FLOAT32
    return isinstance(op, Dequantize) or _makes_codes(op)
