"""Every kind of output step, driven in the C itself from both sides of the steps of its codes, at ties and near them.

The sums of layers are driven by verification/sums.py; here is everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import (
    AveragePool,
    ChannelLookup,
    Convert,
    Dequantize,
    InstanceNorm,
    IntegerUnary,
    LayerNorm,
    Lookup,
    MatMul,
    Operator,
    Quantize,
    QuantizedBinary,
    Reduce,
    Requantize,
    Softmax,
    inputs_of,
)
from qcgen.ir.types import Array
from qcgen.plan.arrange import steps_of
from qcgen.progress import report_progress
from qcgen.reference import evaluate_operator
from qcgen.verification.layers import Bounds, layers_of
from qcgen.verification.nodes import CalledNode, Nodes, WrongValue
from qcgen.verification.steps.codes import (
    of_channel_lookup,
    of_conversion,
    of_every_code,
    of_lookup,
    of_pairs,
    of_quantize,
    of_wide_pairs,
)
from qcgen.verification.steps.driven import Driven
from qcgen.verification.steps.groups import (
    Ends,
    of_average_pool,
    of_normalization,
    of_product,
    of_reduce,
    of_rounded_once,
    of_softmax,
)

__all__ = ["DrivenSteps", "NodeSteps", "drive_steps"]


@dataclass(frozen=True)
class NodeSteps:
    """What was found of a node, called on so many ``inputs``: ``wrong`` is the first output that is not as it must be.

    ``sides`` of the steps between its output codes were reached, of ``sides_of``. A side is the number or the sum next
    to a step, or the least or greatest sum; where none can be computed, what is within near.NEAR of a code, of the
    sides that any output came to.
    """

    node: str
    inputs: int
    sides: int
    sides_of: int
    wrong: WrongValue | None


@dataclass(frozen=True)
class DrivenSteps:
    """The nodes that have output steps, but for layers whose sums are measured."""

    nodes: tuple[NodeSteps, ...]

    @property
    def wrong(self) -> WrongValue | None:
        """The first wrong output of all."""
        return next((node.wrong for node in self.nodes if node.wrong), None)

    def total(self, what: str) -> int:
        """The sum of a number over all nodes."""
        return sum(int(getattr(node, what)) for node in self.nodes)


def drive_steps(nodes: Nodes, seed: int) -> DrivenSteps:
    """Calls every node by itself on inputs beside its steps; the reference of its operator says what must come."""
    found = (_steps(nodes, node, each) for node, each in _driven(nodes, seed))
    return DrivenSteps(tuple(steps for steps in found if steps.inputs))


def _driven(nodes: Nodes, seed: int) -> Iterator[tuple[CalledNode, Iterator[Driven]]]:
    """Each node with inputs beside its steps."""
    artifact = nodes.artifact
    constants = artifact.planned.constants
    ends = Bounds(artifact.planned, steps_of(artifact.planned, artifact.plan.options.layout)).of
    layers = {layer.node.index: layer for layer in layers_of(artifact, nodes.nodes)}
    for node in nodes.nodes:
        if node.call.certificate.word is not None or not _has_constants(node.op, constants):
            continue
        report_progress(f"driving the steps of {node.op.name}")
        generator = np.random.default_rng(seed)
        layer = layers.get(node.index)
        yield (
            node,
            _beside_steps(node.op, constants, ends, generator) if layer is None else of_rounded_once(layer, generator),
        )


def _has_constants(op: Operator, constants: Mapping[str, Array]) -> bool:
    """Whether the constants that an operator reads are there in its shapes: of a few rows they are not."""
    return all(constants[x.name].shape == x.shape for x in inputs_of(op) if x.name in constants)


def _beside_steps(
    op: Operator, constants: Mapping[str, Array], ends: Ends, generator: np.random.Generator
) -> Iterator[Driven]:
    """Inputs beside the steps of an operator; none for those that have none."""
    match op:
        case Quantize():
            yield from of_quantize(op, generator)
        case Dequantize() | Convert():
            yield from of_conversion(op, generator)
        case IntegerUnary():
            yield from of_every_code(op)
        case Lookup():
            yield from of_lookup(op, generator)
        case ChannelLookup():
            yield from of_channel_lookup(op)
        case QuantizedBinary():
            yield from of_wide_pairs(op, constants, generator) if op.is_wide else of_pairs(op, constants)
        case Reduce(requantize=Requantize()):
            yield from of_reduce(op, generator)
        case AveragePool() if op.x.dtype.is_quantized:
            yield from of_average_pool(op, generator)
        case MatMul(epilogue=Requantize()):
            yield from of_product(op, constants, ends, generator)
        case Softmax():
            yield from of_softmax(op, generator)
        case LayerNorm() | InstanceNorm() if op.x.dtype.is_quantized:
            yield from of_normalization(op, generator)
        case _:
            return


def _steps(nodes: Nodes, node: CalledNode, every: Iterator[Driven]) -> NodeSteps:
    inputs = sides = sides_of = 0
    wrong: WrongValue | None = None
    for each in every:
        [got] = nodes.call(node, each.xs)
        inputs, sides, sides_of = inputs + len(got), sides + each.sides, sides_of + each.sides_of
        wrong = wrong or _first_wrong(node, each, _expected(nodes, node, each), got)
    return NodeSteps(node.op.name, inputs, sides, sides_of, wrong)


def _expected(nodes: Nodes, node: CalledNode, driven: Driven) -> Array:
    """The outputs (count, ...) that must come."""
    if driven.expected is not None:
        return driven.expected
    count, constants, given = len(driven.xs[0]), nodes.artifact.planned.constants, iter(driven.xs)
    operands = [[constants[x.name]] * count if x.name in constants else next(given) for x in inputs_of(node.op)]
    return np.stack([evaluate_operator(node.op, *each) for each in zip(*operands, strict=True)])


def _first_wrong(node: CalledNode, driven: Driven, expected: Array, got: Array) -> WrongValue | None:
    """The first output that differs; floats are the same if they are equal, or have the same bits."""
    words = f"u{got.dtype.itemsize}"
    wanted = np.ascontiguousarray(expected)
    same = (wanted == got) | (wanted.view(words) == np.ascontiguousarray(got).view(words))
    if same.all():
        return None
    first = np.unravel_index(int((~same).argmax()), same.shape)
    index, pair = tuple(int(i) for i in first[1:]), (wanted[first].item(), got[first].item())
    return WrongValue(node.op.name, node.op.op_type, driven.what, index, *pair)
