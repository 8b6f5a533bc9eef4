"""Networks made smaller without a change of any output: a Graph by its constants, a Program by what intervals prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TypeVar

import numpy as np

from qcgen import arithmetic
from qcgen.check import RULES, check
from qcgen.errors import ModelRejected
from qcgen.infer import infer
from qcgen.intervals import accumulator_interval, all_meet_image, channel_ranges, image_channel_axis
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.program import (
    Conv,
    Convert,
    ConvGeometry,
    FloatBinary,
    GlobalAveragePool,
    Lookup,
    MatMul,
    MaxPool,
    Operator,
    Pad,
    Program,
    Quantize,
    RawAccumulator,
    Reduce,
    Requantize,
    RoundedStep,
    RoundInSteps,
    RoundOnce,
    Tensor,
)
from qcgen.ir.types import Array, DType
from qcgen.lower import lower
from qcgen.parts import select_node
from qcgen.reference import evaluate
from qcgen.requantize import line_in_64_bits
from qcgen.requantize.lines import staircase
from qcgen.rewrite import rewrite
from qcgen.rewrite.fold_constants import Budget
from qcgen.simplify.channels import remove_channels
from qcgen.simplify.join_tables import join_tables
from qcgen.simplify.wiring import inner_names, join_movement, readers_of, remove_dead, remove_identities

# Operators of constants alone, of which no rewriting knows how, become the results that the reference computes.

MOST_PRODUCTS = 2**32
"""A node with more elements of its result times elements of its constants is left to whoever made the model."""


def fold_operators(graph: Graph) -> Graph:
    """The graph without supported nodes whose inputs are all constant; ``graph`` is inferred and rewritten, so is this.

    onnxruntime folds them when it loads a model. What cannot be computed stays where it is, and ``check`` reports it.
    """
    while True:
        folded = _folded(graph)
        if folded is graph:
            return graph
        graph = infer(rewrite(infer(folded)))


def _folded(graph: Graph) -> Graph:
    budget = Budget.of(graph.constants)
    for node in graph.nodes:
        result = _result(graph, node, budget)
        if result is not None:
            name = node.outputs[0]
            graph = replace(
                graph,
                nodes=tuple(other for other in graph.nodes if other is not node),
                constants={**graph.constants, name: result},
                values={**graph.values, name: Value.of(name, result)},
            )
    return graph


def _result(graph: Graph, node: Node, budget: Budget) -> Array | None:
    """The output of a node whose inputs are all constant; None if it has several, or cannot or must not be computed."""
    inputs = [name for name in node.inputs if name]
    names = {name for name in node.outputs if name}
    if (node.domain, node.op_type) not in RULES or not inputs or len(names) != 1 or names & set(graph.outputs):
        return None
    if not graph.constants.keys() >= set(inputs) or not _is_affordable(graph, node, budget):
        return None
    [name], x = names, node.inputs[0]
    others = {each: array for each, array in graph.constants.items() if each != x}
    try:
        alone = check(select_node(replace(graph, constants=others), node.name))
        result: Array = evaluate(lower(alone), {x: graph.constants[x]})[name]
    except ModelRejected:
        return None
    return result


def _is_affordable(graph: Graph, node: Node, budget: Budget) -> bool:
    """Whether the result fits the budget of constants, to which it is added, and takes a bearable time."""
    value = graph.value(node.outputs[0])
    if value.fixed_shape is None or value.dtype in (None, DType.OTHER):
        return False
    elements = prod(value.fixed_shape)
    budget.used += 4 * elements
    return (
        budget.used <= budget.most
        and elements * sum(graph.constants[n].size for n in node.inputs if n) <= MOST_PRODUCTS
    )


# Pads, clamps, and the floats between sums and codes become part of the operators beside them.

# A Pad in front of convolutions or poolings becomes padding of their own.


def fold_pads(program: Program) -> Program:
    """The program without the Pads all of whose readers can do the padding themselves."""
    pads = [op for op in program.operators if isinstance(op, Pad)]
    if not pads:
        return program
    readers, inner, ranges = readers_of(program), inner_names(program), channel_ranges(program)
    for pad in pads:
        if pad.y.name not in inner or pad.x.name not in ranges:
            continue
        lowest = int(ranges[pad.x.name].lo.min())
        padded = {op.y.name: _padding(op, pad, lowest) for op in readers.get(pad.y.name, ())}
        folded = {name: op for name, op in padded.items() if op is not None}
        if len(folded) == len(padded):
            kept = (folded.get(op.y.name, op) for op in program.operators if op is not pad)
            # Readers of this Pad may be followed by others: what is known of them must not grow old.
            return fold_pads(replace(program, operators=tuple(kept)))
    return program


def _padding(op: Operator, pad: Pad, lowest: int) -> Operator | None:
    """The operator on the image without the Pad, None if the two would differ.

    A tap that holds the zero point adds as little as padding does. A pooling passes over what is nowhere above
    ``lowest``, the smallest code of the image, as it does over padding, if every window sees a part of the image.
    """
    match op:
        case Conv() if op.x.dtype.is_code and pad.value == op.x_zero_point:
            g = _padded(op.geometry, pad, image_channel_axis(op.x))
            return None if g is None else replace(op, x=replace(pad.x, layout=op.x.layout), geometry=g)
        case MaxPool() if pad.value <= lowest:
            g = _padded(op.geometry, pad, image_channel_axis(op.x))
            if g is None or not all_meet_image(g):
                return None
            return replace(op, x=replace(pad.x, layout=op.x.layout), geometry=g)
        case _:
            return None


def _padded(g: ConvGeometry, pad: Pad, channel_axis: int) -> ConvGeometry | None:
    """The geometry on the image without the Pad; None if it pads the batch or the channels."""
    shapes = zip(pad.before, pad.x.shape, pad.y.shape, strict=True)
    sides = [(before, after - before - size) for before, size, after in shapes]
    spatial = [axis for axis in range(1, len(sides)) if axis != channel_axis]
    if len(spatial) != g.rank or any(sides[0]) or any(sides[channel_axis]):
        return None
    return replace(
        g,
        input=tuple(pad.x.shape[axis] for axis in spatial),
        pads_begin=tuple(own + sides[axis][0] for own, axis in zip(g.pads_begin, spatial, strict=True)),
        pads_end=tuple(own + sides[axis][1] for own, axis in zip(g.pads_end, spatial, strict=True)),
    )


# A clamp of codes behind a requantization becomes tighter bounds of the requantization.

By = TypeVar("By", Requantize, RoundOnce)


def fold_clamps(program: Program) -> Program:
    """The program without tables that only clamp what a single convolution or pooling writes for them.

    Exact, because clamps of whole numbers between whole numbers can be done one after the other or at once.
    """
    readers, inner = readers_of(program), inner_names(program)
    folded: dict[str, Operator] = {}
    for op in program.operators:
        before = folded.get(op.x.name) if isinstance(op, Lookup) else None
        if isinstance(op, Lookup) and before is not None and op.x.name in inner and len(readers[op.x.name]) == 1:
            clamped = _clamped(before, op)
            if clamped is not None:
                del folded[op.x.name]
                folded[op.y.name] = clamped
                continue
        folded[op.y.name] = op
    if len(folded) == len(program.operators):
        return program
    return replace(program, operators=tuple(folded.values()))


def _clamped(op: Operator, lookup: Lookup) -> Operator | None:
    """The operator that writes what the table makes of its codes, None if the table does more than clamp them.

    None for joined tables, too, whose operators keep their names.
    """
    meaning = (lookup.x.dtype, lookup.x.scale, lookup.x.zero_point)
    if lookup.joined or meaning != (lookup.y.dtype, lookup.y.scale, lookup.y.zero_point):
        return None
    match op:
        case Conv(epilogue=RoundOnce() as once):
            exact = _bounds(once, lookup)
            return None if exact is None else replace(op, y=lookup.y, epilogue=exact, accumulator_range=None)
        case Conv(epilogue=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, epilogue=bounds, accumulator_range=None)
        case MatMul(epilogue=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, epilogue=bounds)
        case GlobalAveragePool(requantize=Requantize() as requantize) | Reduce(requantize=Requantize() as requantize):
            bounds = _bounds(requantize, lookup)
            return None if bounds is None else replace(op, y=lookup.y, requantize=bounds)
        case _:
            return None


def _bounds(requantize: By, lookup: Lookup) -> By | None:
    """The bounds that a clamp leaves, None if the table is none for the codes that reach it."""
    codes = np.arange(requantize.low, requantize.high + 1)
    found = lookup.table[codes - lookup.x.dtype.low]
    if not np.array_equal(found, np.clip(codes, found[0], found[-1])):
        return None
    return replace(requantize, low=int(found[0]), high=int(found[-1]))


# Sums that become floats and then codes, by constants alone: one requantization, where a line in integers serves.


def join_steps(program: Program) -> Program:
    """The program whose sums of convolutions and products become codes at once, not by way of floats.

    Behind the sums are a Cast to float32, operations with constants and a QuantizeLinear to 8 bits; nothing else reads
    what is between. Codes are a staircase over the sums: where no line in 64 bits equals it in every channel, the
    floats stay.
    """
    sums = [op for op in program.operators if isinstance(op, Conv) and isinstance(op.epilogue, RawAccumulator)]
    if not sums:
        return program
    readers, inner = readers_of(program), inner_names(program)
    joined: dict[str, Operator] = {}
    gone: set[str] = set()
    for op in sums:
        chain = [*_chain(op.y, readers, inner)]
        found = _joined(op, chain, program.constants)
        if found is not None:
            joined[op.y.name] = found
            gone |= {each.y.name for each in chain}
    if not joined:
        return program
    kept = (joined.get(op.y.name, op) for op in program.operators if op.y.name not in gone)
    return replace(program, operators=tuple(kept))


def _chain(y: Tensor, readers: Mapping[str, Sequence[Operator]], inner: set[str]) -> Iterator[Operator]:
    """What reads a tensor, alone, what reads that, and so on, up to the first QuantizeLinear."""
    while y.name in inner and len(readers.get(y.name, ())) == 1:
        [op] = readers[y.name]
        yield op
        if isinstance(op, Quantize):
            return
        y = op.y


def _joined(conv: Conv, chain: Sequence[Operator], constants: Mapping[str, Array]) -> Conv | None:
    """The convolution with the whole chain as its output step, None if it has none or no line equals it."""
    if len(chain) < 2 or not isinstance(chain[0], Convert) or not isinstance(chain[-1], Quantize):
        return None
    y, interval = chain[-1].y, accumulator_interval(conv)
    if chain[0].y.dtype is not DType.FLOAT32 or y.dtype.bytes > 1 or y.scale is None or interval.wraps:
        return None
    steps = [_step(conv, before.y, op, constants) for before, op in pairwise(chain[:-1])]
    requantize = _requantization(conv.geometry.out_channels, [step for step in steps if step is not None], y)
    if None in steps or line_in_64_bits(staircase(requantize, interval.lo, interval.hi)) is None:
        return None
    return replace(conv, y=replace(y, layout=conv.y.layout), epilogue=requantize, accumulator_range=None)


def _step(conv: Conv, x: Tensor, op: Operator, constants: Mapping[str, Array]) -> RoundedStep | None:
    """What an operator does to x with a number for each channel, factors being positive; None if it does more."""
    if not isinstance(op, FloatBinary) or op.kind not in ("add", "sub", "mul", "div"):
        return None
    is_first = op.a.name == x.name
    values = constants.get(op.b.name if is_first else op.a.name)
    if values is None or op.y.shape != x.shape or not (is_first or op.kind in ("add", "mul")):
        return None
    axis = len(x.shape) - 1 if conv.y.layout is None else image_channel_axis(conv.y)
    shape = (1,) * (len(x.shape) - values.ndim) + values.shape
    if any(size > 1 for place, size in enumerate(shape) if place != axis) or not np.isfinite(values).all():
        return None
    operand = np.broadcast_to(values.reshape(-1), conv.geometry.out_channels)
    return None if op.kind in ("mul", "div") and operand.min() <= 0 else RoundedStep(op.kind, operand)


def _requantization(channels: int, steps: Sequence[RoundedStep], y: Tensor) -> RoundInSteps:
    """The steps, and the quantization of what they give."""
    assert y.scale is not None, "codes have a scale"
    assert y.zero_point is not None, "and a zero point"
    y_scale, scale = np.float32(y.scale), np.full(channels, 1 / np.float64(y.scale))
    for step in steps:
        scale = scale * step.operand if step.kind == "mul" else scale / step.operand if step.kind == "div" else scale
    about = np.clip(scale, arithmetic.LEAST_SCALE, np.finfo(np.float32).max).astype(np.float32)
    return RoundInSteps(about, y.zero_point, y.dtype.low, y.dtype.high, tuple(steps), y_scale)


# All passes.

__all__ = ["PASSES", "fold_operators", "simplify"]

PASSES: tuple[Callable[[Program], Program], ...] = (
    remove_dead,
    join_movement,
    remove_identities,
    join_steps,
    fold_clamps,
    fold_pads,
    join_tables,
    remove_channels,
)
"""The passes in the order in which they take turns; each returns the very program that it cannot improve."""


def simplify(program: Program) -> Program:
    """The program that no pass can improve any more; its inputs and outputs are the same, bit for bit.

    What intervals have proved of single operators (``annotate``) must be proved anew.
    """
    while True:
        before = program
        for improve in PASSES:
            program = improve(program)
        if program is before:
            return program
