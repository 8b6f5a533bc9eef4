"""What a plan does, step by step: operators with the order in memory of every tensor, copies, fused output steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np

from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    Concat,
    Conv,
    Convert,
    DynamicParameter,
    DynamicQuantize,
    Embedding,
    FloatBinary,
    FloatOutput,
    FloatUnary,
    GatherElements,
    InstanceNorm,
    Int64s,
    IntegerLstm,
    LayerNorm,
    MatMul,
    MaxPool,
    Operator,
    OrionConv,
    Program,
    QuantizedBinary,
    Recurrent,
    Reduce,
    Reshape,
    Select,
    Tensor,
    TopK,
    Transpose,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Order
from qcgen.kernels.loop_nest import step_along

AS_COMPUTED = " as computed"
"""Ends the name of an output that is copied to the order that the caller wants."""


@dataclass(frozen=True)
class Arranged:
    """An operator with the orders of its inputs and its output; a view's output is its input's memory."""

    op: Operator
    xs: tuple[Order, ...]
    y: Order
    is_view: bool = False


def steps_of(program: Program, option: str) -> tuple[Arranged, ...]:
    """What the plan does, in execution order: operators, arranged for --layout, output steps of sums as one each."""
    outputs = {tensor.name for tensor in program.outputs}
    steps = _with_functions_first(_with_numbers_first(_Arrangement(program, option).run()), outputs)
    return tuple(_with_sums_late(_fuse(steps, outputs)))


class _Arrangement:
    """The state of one walk through the operators: the order of every tensor, copies between them where orders change.

    Images are channels last inside, where kernels are fastest; inputs and outputs are as --layout says. An operator
    that can read or write the order at the boundary does, so that most networks need no copy at all.
    """

    def __init__(self, program: Program, option: str) -> None:
        self._program = program
        # What stays from call to call has one order before and after each: the model's.
        kept = {name for state in program.states for name in (state.read, state.written)}

        def held(tensor: Tensor) -> Order:
            return stored(tensor, boundary_layout(tensor, "model" if tensor.name in kept else option))

        self._orders = {tensor.name: held(tensor) for tensor in program.inputs}
        self._orders |= {name: tuple(range(values.ndim)) for name, values in program.constants.items()}
        self._wanted = {tensor.name: held(tensor) for tensor in program.outputs}
        self._readers: dict[str, list[Operator]] = {}
        for op in program.operators:
            for x in inputs_of(op):
                self._readers.setdefault(x.name, []).append(op)
        # Codes of floats; where those lie channels first, a convolution saves more than a copy of the codes takes, and
        # runs row by row only so.
        self._computed_codes = {op.y.name for op in program.operators if isinstance(op, DynamicQuantize)}
        self._steps: list[Arranged] = []
        self._copies: dict[tuple[str, Order], str] = {}
        # Matrices whose columns lie in another order than the model's: an image, flattened as it is in memory.
        self._columns: dict[str, Int64s] = {}
        # What can lend its memory to a view that is an output: everything that is neither input nor output itself.
        self._lendable: set[str] = set()

    def run(self) -> tuple[Arranged, ...]:
        """All operators, arranged."""
        for op in self._program.operators:
            self._arrange(op)
        return tuple(self._steps)

    def _arrange(self, op: Operator) -> None:
        if isinstance(op, Reshape) and self._flattens_for_products(op):
            self._columns[op.y.name] = _columns_in_memory(op.x, self._orders[op.x.name])
            self._add(Arranged(op, (self._orders[op.x.name],), _row_major(op.y), is_view=True))
            return
        op = self._with_suitable_inputs(op)
        xs = tuple(self._orders[tensor.name] for tensor in inputs_of(op))
        natural = self._product_output(op) if isinstance(op, MatMul) else _natural_output(op, xs)
        wanted = self._wanted.get(op.y.name)
        if wanted is None or _writes_any_layout(op) or same(natural, wanted, op.y.shape):
            y = natural if wanted is None else wanted
            self._add(Arranged(op, xs, y, self._is_view(op, xs, y)))
            return
        inner = replace(op.y, name=f"{op.y.name}{AS_COMPUTED}")
        self._add(Arranged(replace(op, y=inner), xs, natural, self._is_view(op, xs, natural, inner)))
        self._add(Arranged(_copy(inner, op.y), (natural,), wanted))

    def _add(self, step: Arranged) -> None:
        self._steps.append(step)
        name = step.op.y.name
        self._orders[name] = step.y
        source = inputs_of(step.op)[0].name
        if step.is_view:
            # The source's memory now belongs to the view as well; only one output can live in it.
            lends = source in self._lendable
            self._lendable.discard(source)
            if lends and name not in self._wanted:
                self._lendable.add(name)
        elif name not in self._wanted:
            self._lendable.add(name)

    def _is_view(self, op: Operator, xs: Sequence[Order], y: Order, target: Tensor | None = None) -> bool:
        """Whether an operator only reads its input's memory in another way."""
        match op:
            case Reshape():
                in_place = same(y, _row_major(op.y), op.y.shape)
            case Transpose():
                in_place = same(y, _transposed(xs[0], op.perm), op.y.shape)
            case _:
                return False
        name = (target or op.y).name
        return in_place and (name not in self._wanted or op.x.name in self._lendable)

    def _flattens_for_products(self, op: Reshape) -> bool:
        """Whether a flattened image need not be copied, because weights can be reordered instead.

        True if it does not lie row-major and only products of matrices read it, row by row.
        """
        order = self._orders[op.x.name]
        readers = self._readers.get(op.y.name, [])
        return (
            not same(order, _row_major(op.x), op.x.shape)
            and op.y.name not in self._wanted
            and len(op.y.shape) == 2
            and order[0] == 0
            and op.y.shape[0] == op.x.shape[0]
            and all(isinstance(reader, Conv) and reader.x.layout is None for reader in readers)
        )

    def _product_output(self, op: MatMul) -> Order:
        """Row-major; or so that a Transpose, if that alone reads the product, leaves it row-major and takes no code."""
        readers = self._readers.get(op.y.name, [])
        if len(readers) == 1 and isinstance(readers[0], Transpose) and op.y.name not in self._wanted:
            return readers[0].perm
        return _row_major(op.y)

    def _with_suitable_inputs(self, op: Operator) -> Operator:
        """The operator on inputs in orders that it can read, copied where they are not."""
        match op:
            case Conv() if op.x.name in self._columns:
                return replace(op, weights=op.weights[:, self._columns[op.x.name]])
            case Conv() if op.x.layout is None:
                return replace(op, x=self._copied(op.x, _row_major(op.x)))
            case Conv() if op.x.name in self._computed_codes:
                return replace(op, x=self._copied(op.x, stored(op.x, Layout.CHANNELS_LAST)))
            case Conv() | OrionConv() | MaxPool() | AveragePool():
                if layout_of(op.x, self._orders[op.x.name]) is not None:
                    return op
                return replace(op, x=self._copied(op.x, stored(op.x, Layout.CHANNELS_LAST)))
            case InstanceNorm() if layout_of(op.x, self._orders[op.x.name]) is None:
                return replace(op, x=self._copied(op.x, _row_major(op.x)))
            case Reduce() if op.row is not None:
                rest = [axis for axis in op.axes if axis not in op.row[1]]
                order = self._orders[op.x.name]
                is_even = None not in (step_along(op.x.shape, order, axes) for axes in (op.row[1], rest))
                return op if is_even else replace(op, x=self._copied(op.x, _row_major(op.x)))
            case Reshape() | Embedding():
                return replace(op, x=self._copied(op.x, _row_major(op.x)))
            case Recurrent():
                return op.with_reads(lambda x: self._copied(x, _row_major(x)))
            case IntegerLstm():
                x, h, c = (self._copied(t, _row_major(t)) for t in (op.x, op.h, op.c))
                return replace(op, x=x, h=h, c=c)
            case Concat():
                computed = [x for x in op.xs if x.name not in self._program.constants]
                order = self._orders[computed[0].name] if computed else _row_major(op.y)
                return replace(op, xs=tuple(self._copied(x, order) if x in computed else x for x in op.xs))
            case QuantizedBinary() | FloatBinary():
                return self._with_equal_operands(op)
            case Select():
                a, b, c, d = self._in_one_order(op.xs, op.y)
                return replace(op, xs=(a, b, c, d))
            case _:
                return op

    def _with_equal_operands(self, op: QuantizedBinary | FloatBinary) -> Operator:
        """Both operands in one order, where neither is a constant and both have the output's shape."""
        if op.a.name in self._program.constants or op.b.name in self._program.constants:
            return op
        if 1 in (op.a.size, op.b.size) and op.y.shape in (op.a.shape, op.b.shape):
            return op
        if op.a.shape == op.b.shape:
            return replace(op, b=self._copied(op.b, self._orders[op.a.name]))
        return replace(op, a=self._copied(op.a, _row_major(op.a)), b=self._copied(op.b, _row_major(op.b)))

    def _in_one_order(self, xs: Sequence[Tensor], y: Tensor) -> list[Tensor]:
        """Operands in the order of the first one that has the output's shape, row-major if one is broadcast."""
        computed = [x for x in xs if x.name not in self._program.constants]
        if all(x.shape == y.shape for x in computed):
            order = self._orders[computed[0].name]
            return [self._copied(x, order) if x in computed else x for x in xs]
        return [self._copied(x, _row_major(x)) if x in computed else x for x in xs]

    def _copied(self, x: Tensor, order: Order) -> Tensor:
        """The tensor itself if it lies in ``order``, else a copy that does, made once.

        Each reader gets it as it takes the tensor: for one of them it may be an image, for another a matrix.
        """
        if same(self._orders[x.name], order, x.shape):
            return x
        if (x.name, order) not in self._copies:
            name = f"{x.name} reordered {len(self._copies) + 1}"
            self._copies[x.name, order] = name
            self._add(Arranged(_copy(x, replace(x, name=name)), (self._orders[x.name],), order))
        return replace(x, name=self._copies[x.name, order])


def _copy(x: Tensor, y: Tensor) -> Transpose:
    """The same tensor, axis by axis; only the order in memory changes."""
    return Transpose(f"{x.name} to memory order", "Transpose", x, y, _row_major(x))


def _columns_in_memory(image: Tensor, order: Order) -> Int64s:
    """For each column of the flattened image, in the order in memory, its number in the model's order."""
    numbers = np.arange(prod(image.shape[1:])).reshape(1, *image.shape[1:])
    return numbers.transpose(order).reshape(-1)


def _writes_any_layout(op: Operator) -> bool:
    """Whether the operator's kernels write channels first as well as channels last, or any order."""
    return isinstance(
        op, Conv | OrionConv | MaxPool | AveragePool | MatMul | Reduce | ArgMax | TopK | GatherElements | Convert
    )


def _natural_output(op: Operator, xs: Sequence[Order]) -> Order:
    """The order that the output has by itself."""
    match op:
        case Conv() | OrionConv() | MaxPool() | AveragePool():
            return stored(op.y, Layout.CHANNELS_LAST)
        case Transpose():
            return _transposed(xs[0], op.perm)
        case Embedding() | LayerNorm() | Recurrent() | IntegerLstm():
            return _row_major(op.y)
        case Reduce() if op.row is not None and op.row[0] == "eights":
            return _row_major(op.y)  # so that where a row begins can be computed
        case Reduce() if len(xs[0]) != len(op.y.shape):
            return _of_those_that_stay(xs[0], op.axes)
        case ArgMax() if len(xs[0]) != len(op.y.shape):
            return _of_those_that_stay(xs[0], (op.axis,))
        case QuantizedBinary() | FloatBinary() | Select():
            return _of_operands(op, xs)
        case _ if len(xs[0]) == len(op.y.shape) and not isinstance(op, Reshape):
            return xs[0]
        case _:
            return _row_major(op.y)


def _of_those_that_stay(order: Order, gone: tuple[int, ...]) -> Order:
    """An order without some of its axes; the others are numbered anew."""
    kept = [axis for axis in order if axis not in gone]
    return tuple(sorted(kept).index(axis) for axis in kept)


def _of_operands(op: QuantizedBinary | FloatBinary | Select, xs: Sequence[Order]) -> Order:
    """The order of an operand that has the output's shape; row-major if the operands are broadcast to each other."""
    for operand, order in zip(inputs_of(op), xs, strict=True):
        if operand.shape == op.y.shape:
            return order
    return _row_major(op.y)


# Orders of axes in memory.


def _row_major(tensor: Tensor) -> Order:
    """The order in which the model numbers the axes."""
    return tuple(range(len(tensor.shape)))


def stored(tensor: Tensor, layout: Layout | None) -> Order:
    """The order that an image has in memory when its channels are where ``layout`` says; others are row-major."""
    axes = _row_major(tensor)
    if layout is None or tensor.layout is None or layout is tensor.layout:
        return axes
    if layout is Layout.CHANNELS_LAST:
        return (axes[0], *axes[2:], axes[1])
    return (axes[0], axes[-1], *axes[1:-1])


def same(one: Order, other: Order, shape: tuple[int, ...]) -> bool:
    """Whether two orders put the elements of a tensor in the same places: axes of size 1 do not matter."""
    return _moving(one, shape) == _moving(other, shape)


def layout_of(tensor: Tensor, order: Order) -> Layout | None:
    """Where the channels of an image are in memory; None if it is neither of the two layouts."""
    for layout in (Layout.CHANNELS_LAST, Layout.CHANNELS_FIRST):
        if same(order, stored(tensor, layout), tensor.shape):
            return layout
    return None


def _transposed(order: Order, perm: tuple[int, ...]) -> Order:
    """The order of y in the memory of x, where axis i of y is axis ``perm[i]`` of x."""
    return tuple(perm.index(axis) for axis in order)


def _moving(order: Order, shape: tuple[int, ...]) -> Order:
    return tuple(axis for axis in order if shape[axis] != 1)


# Layouts of inputs and outputs.


def boundary_layout(tensor: Tensor, option: str) -> Layout | None:
    """The layout of an input or output: the model's own, or the one that --layout asks for; None: not an image."""
    if tensor.layout is None or option == "model":
        return tensor.layout
    return Layout(option)


def boundary_shape(tensor: Tensor, layout: Layout | None) -> tuple[int, ...]:
    """The tensor's shape in the order in which the caller holds it in memory."""
    if layout is tensor.layout:
        return tensor.shape
    n, *rest = tensor.shape
    return (n, *rest[1:], rest[0]) if layout is Layout.CHANNELS_LAST else (n, rest[-1], *rest[:-1])


def layout_text(layout: Layout | None) -> str:
    """How a layout is called in comments."""
    return {None: "", Layout.CHANNELS_FIRST: "channels first", Layout.CHANNELS_LAST: "channels last"}[layout]


# Operators in a row that make floats of integer sums become one loop: no tensor is written between them.


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
