"""What operators make of the codes of one tensor, element by element, becomes one table, or one for each channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.functions import UNSTEADY
from qcgen.ir.program import (
    ChannelLookup,
    Dequantize,
    FloatBinary,
    FloatUnary,
    Int64s,
    Lookup,
    Operator,
    Program,
    Quantize,
    QuantizedBinary,
    Select,
    Tensor,
    inputs_of,
    joined_of,
)
from qcgen.ir.types import Array, DType
from qcgen.reference import evaluate_operator
from qcgen.reference.elementwise import evaluate_for_table
from qcgen.simplify.wiring import readers_of, remove_dead


def join_tables(program: Program) -> Program:
    """The program in which functions of one tensor of codes, and sums, products and the like of them, are one table.

    What is between DequantizeLinear and QuantizeLinear is no float then, x * sigmoid(x) needs no multiplication, and a
    table whose only reader is another table is joined to that. Where numbers differ from channel to channel, there is a
    table for each. Exact: each code goes through all operators that a table replaces, in onnxruntime's arithmetic.
    """
    program = remove_dead(program)
    search = _Search(program)
    operators = tuple(search.joined(op) for op in program.operators)
    if all(new is op for new, op in zip(operators, program.operators, strict=True)):
        return program
    known = program.in_float | search.near_steps
    in_float = {op.name for op in operators if isinstance(op, Lookup) and known.intersection(op.joined)}
    return remove_dead(replace(program, operators=operators, in_float=known | in_float))


CodeTable = Lookup | ChannelLookup


@dataclass(frozen=True)
class Function:
    """What ``operators``, in execution order, make of the codes of ``root``: others along ``axis``, if it is there."""

    root: Tensor
    operators: tuple[Operator, ...]
    axis: int | None


class _Search:
    """Looks at operators in execution order, for what can be joined to those before."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers = readers_of(program)
        self.outputs = {tensor.name for tensor in program.outputs}
        self.places = {op.y.name: place for place, op in enumerate(program.operators)}
        self.makers: dict[str, Operator] = {}
        self.near_steps: set[str] = set()

    def joined(self, op: Operator) -> Operator:
        """The operator, or the table that takes its place."""
        found = self._root(op) if _makes_codes(op) else None
        new = op if found is None else self._table(op, found)
        self.makers[op.y.name] = new
        return new

    def _root(self, op: Operator) -> Function | None:
        """The function of a tensor of codes that ``op`` is, by way of the operators in front of it.

        Of the nearest one, unless nothing else reads it: then of the one before, if channels do not differ. None if no
        operator would be joined.
        """
        found: Function | None = None
        operators, opened, axes = {op.y.name: op}, *self._operands(op)
        while opened and len(axes) < 2:
            last = opened[max(opened, key=lambda name: self.places.get(name, -1))]
            if len(opened) == 1 and last.dtype.is_quantized:
                if last.shape != op.y.shape:
                    return found
                if len(operators) > 1:
                    made = sorted(operators.values(), key=lambda each: self.places[each.y.name])
                    found = Function(last, tuple(made), next(iter(axes), None))
                if axes or self._is_read_by_others(last, operators):
                    return found
            maker = self.makers.get(last.name)
            if maker is None or maker.y.shape != op.y.shape or not (_is_elementwise(maker) or _clamps(op, maker)):
                return found
            operators[last.name] = maker
            operands, more = self._operands(maker)
            axes |= more
            opened = {**{name: x for name, x in opened.items() if x is not last}, **operands} if operands else {}
        return found

    def _is_read_by_others(self, tensor: Tensor, operators: Mapping[str, Operator]) -> bool:
        readers = self.readers[tensor.name]
        return tensor.name in self.outputs or any(reader.y.name not in operators for reader in readers)

    def _operands(self, op: Operator) -> tuple[dict[str, Tensor], set[int]]:
        """What is not constant of an operator's inputs, by name, and the axis along which constants differ.

        No inputs if constants differ along several axes, or are codes that differ.
        """
        constants, axes = self.program.constants, {op.axis} if isinstance(op, ChannelLookup) else set()
        for x in inputs_of(op):
            if x.name in constants and x.size > 1:
                rank = len(op.y.shape)
                long = {rank - len(x.shape) + axis for axis, size in enumerate(x.shape) if size > 1}
                if len(long) > 1 or not x.dtype.is_float:
                    return {}, set()
                axes |= long
        return {x.name: x for x in inputs_of(op) if x.name not in constants}, axes

    def _table(self, op: Operator, function: Function) -> CodeTable:
        """The table takes the name of the function that is quantized, unless its numbers are needed elsewhere, too."""
        own = {each.y.name: each for each in function.operators}
        maker = own.get(inputs_of(op)[0].name) if isinstance(op, Quantize) else None
        if maker is None or isinstance(maker, Dequantize) or self._is_read_by_others(maker.y, own):
            maker = op
        parts = [each for each in function.operators if each is not op and _makes_codes(each)]
        names = [*(name for each in parts for name in (*joined_of(each), each.name)), *joined_of(op)]
        joined = tuple(dict.fromkeys(name for name in names if name != maker.name))
        called, table = (maker.name, maker.op_type), self._codes(function)
        if any(_is_unsteady(each) and self._is_near_a_step(function, table) for each in function.operators):
            self.near_steps.add(maker.name)
        if function.axis is None or (table == table[0]).all():
            return Lookup(*called, function.root, op.y, table[0], joined)
        return ChannelLookup(*called, function.root, op.y, function.axis, table)

    def _is_near_a_step(self, function: Function, table: Int64s) -> bool:
        """Whether a code becomes another one where functions are off by a few last places."""
        return any((self._codes(function, by) != table).any() for by in (-LAST_PLACES, LAST_PLACES))

    def _codes(self, function: Function, moved: float = 0.0) -> Int64s:
        """What becomes of each code, (channels or 1, 256), where unsteady functions are ``moved``."""
        dtype, constants = function.root.dtype, self.program.constants
        values: dict[str, Array] = {function.root.name: np.arange(dtype.low, dtype.high + 1, dtype=dtype.numpy)[None]}
        for op in function.operators:
            xs = [values[x.name] if x.name in values else constants[x.name].reshape(-1, 1) for x in inputs_of(op)]
            match op:
                case FloatUnary() | FloatBinary():
                    y = evaluate_for_table(op, *xs)
                    if moved and _is_unsteady(op):
                        is_moved = np.isfinite(y) & (y != xs[0])
                        y = (y + np.where(is_moved, moved * np.maximum(1, np.abs(y)), 0)).astype(np.float32)
                    values[op.y.name] = y
                case ChannelLookup():
                    values[op.y.name] = evaluate_operator(replace(op, axis=0), np.broadcast_to(xs[0], op.tables.shape))
                case _:
                    values[op.y.name] = evaluate_operator(op, *xs)
        return values[function.operators[-1].y.name].astype(np.int64)


def _makes_codes(op: Operator) -> bool:
    """Whether the operator can be a table of codes of 8 bits."""
    is_narrow = op.y.dtype.is_quantized and not any(x.dtype.is_16_bit for x in inputs_of(op))
    return is_narrow and isinstance(op, Lookup | QuantizedBinary | Quantize)


LAST_PLACES = 2.0**-22
"""How far functions of several C libraries may lie from each other, of 1 or of their own magnitude."""


def _is_unsteady(op: Operator) -> bool:
    """Whether a function depends on the place of a number in onnxruntime, or on its C library."""
    kind = op.activation.kind if isinstance(op, FloatUnary) else "Pow" if getattr(op, "kind", "") == "pow" else ""
    return kind in UNSTEADY


def _is_elementwise(op: Operator) -> bool:
    """Whether the operator makes each number of one number, as onnxruntime does."""
    is_float = isinstance(op, FloatUnary | FloatBinary | Select) and op.y.dtype is DType.FLOAT32
    return is_float or isinstance(op, Dequantize) or _makes_codes(op)


def _clamps(op: Operator, maker: Operator) -> bool:
    """Whether the operator clamps codes that have a table for each channel: lines in their place have bounds anyway."""
    if not isinstance(op, Lookup) or not isinstance(maker, ChannelLookup) or op.x.dtype is not op.y.dtype:
        return False
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
    return np.array_equal(np.clip(codes, op.table.min(), op.table.max()), op.table)
