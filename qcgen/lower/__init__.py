"""A checked Graph becomes a Program: spellings are resolved to facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qcgen.convolutions import NHWC_DOMAIN
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Operator, Program, Tensor
from qcgen.lower.conv import lower_conv_integer, lower_float_conv, lower_qlinear_conv
from qcgen.lower.orion import lower_orion

LOWERINGS: dict[tuple[str, str], Callable[[Node, Graph], Operator]] = {
    ("", "Conv"): lower_float_conv,
    ("", "ConvInteger"): lower_conv_integer,
    ("", "QLinearConv"): lower_qlinear_conv,
    ("com.microsoft", "FusedConv"): lower_float_conv,
    ("com.microsoft", "NhwcFusedConv"): lower_float_conv,
    ("com.microsoft", "QLinearConv"): lower_qlinear_conv,
    (NHWC_DOMAIN, "Conv"): lower_float_conv,
    (NHWC_DOMAIN, "QLinearConv"): lower_qlinear_conv,
}
"""The supported operators by (domain, op_type), each with what it means in onnxruntime's arithmetic."""

NUMERICS: dict[str, int | None] = {"onnxruntime": None, "orion-fp16x16": 16, "orion-fp8x23": 23}
"""The arithmetics that can be meant; Orion's with their fraction bits."""


def lower(graph: Graph, *, numerics: str = "onnxruntime") -> Program:
    """The meaning of a graph that ``check`` has accepted, in the arithmetic named ``numerics``, a key of NUMERICS.

    Raises ModelRejected for nodes and numbers that Orion's arithmetic does not have.
    """
    if numerics not in NUMERICS:
        raise ValueError(f"numerics must be one of {', '.join(NUMERICS)}, not {numerics!r}")
    bits = NUMERICS[numerics]
    if bits is None:
        operators = [LOWERINGS[node.domain, node.op_type](node, graph) for node in graph.nodes]
    else:
        operators = _lower_orion_nodes(graph, bits, numerics)
    consumed = _by_name(op.x for op in operators)
    produced = _by_name(op.y for op in operators)
    return Program(
        name=graph.name,
        inputs=tuple(consumed.get(name) or _unused(graph, name) for name in graph.inputs),
        outputs=tuple(produced[name] for name in graph.outputs),
        operators=tuple(operators),
        sha256=graph.sha256,
    )


def _lower_orion_nodes(graph: Graph, bits: int, numerics: str) -> list[Operator]:
    operators: list[Operator] = []
    problems: list[Problem] = []
    for node in graph.nodes:
        if (node.domain, node.op_type) != ("", "QLinearConv"):
            where = f"node {node.name!r} ({node.operator})"
            hint = "compile a QLinearConv of ai.onnx with --node, or use --numerics onnxruntime"
            problems.append(Problem(where, f"{numerics} has no such operator", hint))
            continue
        try:
            operators.append(lower_orion(node, graph, bits))
        except ModelRejected as rejection:
            problems += rejection.problems
    if problems:
        raise ModelRejected(problems)
    return operators


def _by_name(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    """The first mention of every tensor."""
    named: dict[str, Tensor] = {}
    for tensor in tensors:
        named.setdefault(tensor.name, tensor)
    return named


def _unused(graph: Graph, name: str) -> Tensor:
    """An input of the model that no node reads."""
    value = graph.value(name)
    assert value.dtype is not None, f"the type of input {name!r} is not known"
    assert value.fixed_shape is not None, f"the shape of input {name!r} is not known"
    return Tensor(name, value.dtype, value.fixed_shape)
