"""Truth values are the float32 numbers 1 and 0: only inputs and outputs of the model stay bool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import Comparison, Convert, FloatBinary, Operator, Select, Tensor
from qcgen.ir.types import DType
from qcgen.lower.source import Source, tensor_of

KINDS: Mapping[str, Comparison] = {
    "Greater": "greater",
    "GreaterOrEqual": "greater or equal",
    "Less": "less",
    "LessOrEqual": "less or equal",
    "Equal": "equal",
}
"""The comparisons by the operators of ai.onnx that compute them."""


def as_numbers(graph: Graph) -> tuple[Graph, list[Operator], list[Operator]]:
    """The graph with float32 numbers in place of truth values, what converts its inputs, and what its outputs.

    Nodes read and write each bool tensor under another name. Constant codes that a comparison reads become float32
    numbers under another name, too.
    """
    if not any(value.dtype is DType.BOOL for value in graph.values.values()):
        return graph, [], []
    taken = set(graph.names)
    names: dict[str, str] = {}
    compared: dict[str, str] = {}
    for node in graph.nodes:
        for name in filter(None, (*node.inputs, *node.outputs)):
            dtype = graph.dtype(name)
            is_compared = node.op_type in KINDS and name in graph.constants and dtype is not DType.FLOAT32
            found = names if dtype is DType.BOOL else compared
            if name not in found and (dtype is DType.BOOL or is_compared):
                found[name] = fresh(f"{name} as a number", taken)
                taken.add(found[name])
    both = {**names, **compared}

    def with_numbers(node: Node) -> Node:
        read = both if node.op_type in KINDS else names
        inputs, outputs = (read.get(x, x) for x in node.inputs), (names.get(y, y) for y in node.outputs)
        return replace(node, inputs=tuple(inputs), outputs=tuple(outputs))

    values = {new: replace(graph.value(old), name=new, dtype=DType.FLOAT32) for old, new in both.items()}
    constants = {new: graph.constants[old].astype(np.float32) for old, new in both.items() if old in graph.constants}
    constants |= {end.name: np.asarray(value, np.float32) for value, end in enumerate(_ends(graph))}
    renamed = replace(
        graph,
        nodes=tuple(with_numbers(node) for node in graph.nodes),
        values={**graph.values, **values},
        constants={**graph.constants, **constants},
    )
    number, truth = partial(tensor_of, renamed), partial(tensor_of, graph)
    read = [Convert(f"{x} to float", "Cast", truth(x), number(names[x])) for x in graph.inputs if x in names]
    made = [y for y in graph.outputs if y in names and y not in (*graph.inputs, *graph.constants)]
    written = [Convert(f"{y} to bool", "Cast", number(names[y]), truth(y)) for y in made]
    return renamed, list[Operator](read), list[Operator](written)


def _ends(graph: Graph) -> tuple[Tensor, Tensor]:
    """The constants that stand for false and true."""
    no, yes = (Tensor(fresh(name, graph.values), DType.FLOAT32, ()) for name in ("false", "true"))
    return no, yes


def _chosen(source: Source, kind: Comparison, xs: tuple[Tensor, Tensor], *, otherwise: bool = False) -> Select:
    """1 where two tensors compare so, else 0; ``otherwise``, the other way round."""
    no, yes = _ends(source.graph)
    results = (no, yes) if otherwise else (yes, no)
    return Select(*source.called, kind, (*xs, *results), source.result())


def _number(source: Source, index: int) -> tuple[Tensor, tuple[Operator, ...]]:
    """An input as float32 numbers, and what makes these of integers."""
    x = source.tensor(index)
    if x.dtype is DType.FLOAT32:
        return x, ()
    number = source.inner(f"{index} as a number", DType.FLOAT32, x.shape)
    return number, (Convert(*source.called, replace(x, scale=None, zero_point=None), number),)


def lower_comparison(source: Source) -> tuple[Operator, ...]:
    """Greater, Less, Equal and the like of float32 numbers, or of integers that float32 holds."""
    (a, casts), (b, more) = _number(source, 0), _number(source, 1)
    return (*casts, *more, _chosen(source, KINDS[source.node.op_type], (a, b)))


def lower_logic(source: Source) -> Operator:
    """And, Or, Xor and Not of truth values."""
    a, op_type = source.tensor(0), source.node.op_type
    b = _ends(source.graph)[1] if op_type == "Not" else source.tensor(1)
    if op_type in ("Not", "Xor"):
        return _chosen(source, "equal", (a, b), otherwise=True)
    return FloatBinary(*source.called, "mul" if op_type == "And" else "max", a, b, source.result())


def to_truth(source: Source) -> tuple[Operator, ...]:
    """Cast to bool: whether x is not 0."""
    x, casts = _number(source, 0)
    return (*casts, _chosen(source, "equal", (x, _ends(source.graph)[0]), otherwise=True))


def lower_where(source: Source) -> Operator:
    """Where of float32 numbers: by the comparison of two others, or by truth values."""
    graph, condition, is_negated = source.graph, source.node.inputs[0], False
    maker = graph.producers.get(condition)
    if maker is not None and maker.op_type == "Not":
        is_negated, condition = True, maker.inputs[0]
        maker = graph.producers.get(condition)
    kind: Comparison = "greater"
    compared = tensor_of(graph, condition), _ends(graph)[0]
    if maker is not None and maker.op_type in KINDS:
        comparison = lower_comparison(Source(maker, graph))[-1]
        assert isinstance(comparison, Select), "a comparison chooses between 1 and 0"
        kind, compared = comparison.comparison, comparison.xs[:2]
    return Select(*source.called, kind, (*compared, source.tensor(1), source.tensor(2)), source.result(), is_negated)
