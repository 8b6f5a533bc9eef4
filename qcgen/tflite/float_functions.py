"""Functions of float32 numbers between DEQUANTIZE and QUANTIZE: tables of codes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from qcgen.errors import Problem
from qcgen.ir.program import Dequantize, FloatUnary, Lookup, Operator, Quantize, inputs_of
from qcgen.reference import evaluate_operator
from qcgen.tflite.operands import CONVERT_INT8


def in_tables(operators: Sequence[Operator], outputs: Collection[str]) -> tuple[list[Operator], list[Problem]]:
    """The operators with each DEQUANTIZE, function, QUANTIZE as one table; which functions are not between these."""
    makers = {op.y.name: op for op in operators}
    read_by_others = {x.name for op in operators if not isinstance(op, Quantize) for x in inputs_of(op)} | {*outputs}
    tables = {op.y.name: table for op in operators if (table := _table(op, makers)) is not None}
    joined = [tables.get(op.y.name, op) for op in operators]
    functions = [op for op in operators if isinstance(op, FloatUnary)]
    problems = [
        Problem(f"node {op.name!r}", "it computes in float32, not between DEQUANTIZE and QUANTIZE", CONVERT_INT8)
        for op in functions
        if op.y.name in read_by_others or not isinstance(makers.get(op.x.name), Dequantize)
    ]
    kept = [op for op in joined if not isinstance(op, FloatUnary)]
    read = {x.name for op in kept for x in inputs_of(op)} | {*outputs}
    unread = {op.x.name for op in functions} - read
    return [op for op in kept if op.y.name not in unread], problems


def _table(op: Operator, makers: dict[str, Operator]) -> Lookup | None:
    """The codes of a Quantize as a table of those that its function's numbers come from."""
    function = makers.get(op.x.name) if isinstance(op, Quantize) else None
    first = makers.get(function.x.name) if isinstance(function, FloatUnary) else None
    if function is None or not isinstance(first, Dequantize):
        return None
    codes = np.arange(first.x.dtype.low, first.x.dtype.high + 1).astype(first.x.dtype.numpy)
    for step in (first, function, op):
        codes = evaluate_operator(step, codes)
    return Lookup(op.name, op.op_type, first.x, op.y, codes.astype(np.int64), (function.name,))
