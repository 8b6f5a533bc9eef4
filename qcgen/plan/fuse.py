"""Operators in a row that make floats of integer sums become one loop: no tensor is written between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from qcgen.ir.program import (
    Conv,
    Convert,
    DynamicParameter,
    DynamicQuantize,
    FloatBinary,
    FloatOutput,
    FloatUnary,
    Operator,
    Program,
    Reshape,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import DType
from qcgen.plan.arrange import Arranged, arrange, same


def steps_of(program: Program, option: str) -> tuple[Arranged, ...]:
    """What the plan does, in execution order: operators, arranged for --layout, output steps of sums as one each."""
    outputs = {tensor.name for tensor in program.outputs}
    steps = _with_functions_first(_with_numbers_first(arrange(program, option)), outputs)
    return tuple(_with_sums_late(_fuse(steps, outputs)))


def _with_numbers_first(steps: Sequence[Arranged]) -> list[Arranged]:
    """The steps, products of single numbers as soon as these are there, so that those of a layer stand together."""
    found: list[Arranged] = []
    for step in steps:
        read = {x.name for x in inputs_of(step.op)}
        at = len(found)
        if isinstance(step.op, FloatBinary) and step.op.y.size == 1:
            at = next((i + 1 for i in range(len(found) - 1, -1, -1) if found[i].op.y.name in read), 0)
            while at < len(found) and isinstance(found[at].op, DynamicParameter | DynamicQuantize):
                at += 1
        found.insert(at, step)
    return found


def _with_sums_late(steps: Sequence[Arranged]) -> list[Arranged]:
    """The steps, sums and their floats right before what first reads them, where they are larger than what gives them.

    Exporters write the layers of branches side by side: the floats of all of them would be there at once.
    """
    found = list(steps)
    read = {step.op.y.name: inputs_of(step.op)[0] for step in steps if _is_sum(step.op)}
    for step in reversed(steps):
        y = step.op.y
        x = read.get(inputs_of(step.op)[0].name if isinstance(step.op, FloatOutput) else y.name)
        if x is None or y.dtype.bytes * y.size <= x.dtype.bytes * x.size:
            continue
        at = next(i for i, each in enumerate(found) if each is step)
        readers = (i for i in range(at, len(found)) if y.name in {each.name for each in inputs_of(found[i].op)})
        found.insert(next(readers, at + 1) - 1, found.pop(at))
    return found


def _with_functions_first(steps: Sequence[Arranged], outputs: set[str]) -> list[Arranged]:
    """The steps, a function of floats in front of a Reshape that only views them, so that it joins their output step.

    onnxruntime's optimizer writes products of sequences as products of matrices, between two Reshapes.
    """
    readers = Counter(x.name for step in steps for x in inputs_of(step.op))
    found = list(steps)
    for index, (view, step) in enumerate(pairwise(steps)):
        op, reshape = step.op, view.op
        if not isinstance(op, FloatUnary) or not isinstance(reshape, Reshape) or not view.is_view:
            continue
        names = {reshape.y.name, op.y.name}
        if op.x.name != reshape.y.name or readers[op.x.name] > 1 or names & outputs or view.y != step.y:
            continue
        inner = replace(reshape.x, name=f"{op.y.name} in rows")
        found[index] = Arranged(replace(op, x=reshape.x, y=inner), view.xs, view.xs[0])
        found[index + 1] = replace(view, op=replace(reshape, x=inner, y=op.y))
    return found


def _is_sum(op: Operator) -> bool:
    return isinstance(op, Conv) and op.y.dtype is DType.INT32


def _fuse(steps: Sequence[Arranged], outputs: set[str]) -> tuple[Arranged, ...]:
    """The steps, each output step where the last of its operators stands."""
    readers = Counter(x.name for step in steps for x in inputs_of(step.op))
    inner = {name for name, count in readers.items() if count == 1} - outputs
    reader = {x.name: step for step in steps for x in inputs_of(step.op) if x.name in inner}
    rows: dict[str, list[Arranged]] = {}  # operators that wait for the one that reads this tensor
    awaited: set[str] = set()  # what those write: only one row waits for each
    found: list[Arranged] = []
    for step in steps:
        before = next((x.name for x in inputs_of(step.op) if x.name in rows), None)
        row = [step] if before is None else [*rows.pop(before), step]
        y = step.op.y.name
        goes_on = (before is not None or _begins(step)) and not isinstance(step.op, FloatUnary)
        if goes_on and y in reader and _continues(reader[y], y) and reader[y].op.y.name not in awaited:
            rows[y] = row
            awaited.add(reader[y].op.y.name)
        else:
            found.append(_fused(row))
    return tuple(found)


def _begins(step: Arranged) -> bool:
    """Whether an operator is the first on sums."""
    return isinstance(step.op, ZeroPointCorrection) or _casts_sums(step)


def _casts_sums(step: Arranged) -> bool:
    op = step.op
    return isinstance(op, Convert) and (op.x.dtype, op.y.dtype) == (DType.INT32, DType.FLOAT32)


def _continues(step: Arranged, name: str) -> bool:
    """Whether an operator goes through the tensor ``name`` element by element, in the order in which it lies."""
    op = step.op
    if isinstance(op, FloatBinary):
        goes_on = op.kind in ("add", "sub", "mul", "div")
    else:
        goes_on = _casts_sums(step) or (isinstance(op, FloatUnary) and op.y.dtype is DType.FLOAT32)
    placed = zip(inputs_of(op), step.xs, strict=True)
    return goes_on and any(
        x.name == name and x.shape == op.y.shape and same(order, step.y, x.shape) for x, order in placed
    )


def _fused(row: Sequence[Arranged]) -> Arranged:
    first, last = row[0], row[-1]
    if len(row) == 1:
        return last
    steps = tuple(
        step.op for step in row if isinstance(step.op, ZeroPointCorrection | Convert | FloatBinary | FloatUnary)
    )
    op = FloatOutput(last.op.name, last.op.op_type, inputs_of(first.op)[0], last.op.y, steps)
    orders = {x.name: order for step in row for x, order in zip(inputs_of(step.op), step.xs, strict=True)}
    return Arranged(op, tuple(orders[x.name] for x in inputs_of(op)), last.y)
