"""Small QDQ models for the tests of rewriting: chains of nodes between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from models import graph_model
from onnx import ModelProto, NodeProto, helper

from qcgen.check import check
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Lookup, Operator, Program, Tensor
from qcgen.ir.types import DType
from qcgen.load import load
from qcgen.lower import lower
from qcgen.rewrite import rewrite
from qcgen.simplify.join_tables import join_tables

Meaning = tuple[Any, Any]
"""Scale and zero point; the zero point's numpy type is the codes' type."""

A: Meaning = (0.02, np.uint8(3))
B: Meaning = (0.05, np.uint8(60))
C: Meaning = (0.04, np.int8(-20))

Kind = TypeVar("Kind", bound=Operator)


def f32(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


class Chain:
    """Nodes and constants of a model, added one after the other; ``x`` is its float input, ``y`` its output."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def node(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Adds a node that is called after its output, and gives the output's name."""
        output = output or f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=f"{output}_node", **attributes))
        return output

    def fresh(self, name: str) -> str:
        """The name, with a prime where a node has it already."""
        return name if all(name not in node.output for node in self.nodes) else self.fresh(f"{name}'")

    def parameters(self, tensor: str, meaning: Meaning) -> list[str]:
        scale, zero_point = meaning
        names = [self.constant(f"{tensor}_scale", np.asarray(scale, np.float32))]
        return names if zero_point is None else [*names, self.constant(f"{tensor}_zp", zero_point)]

    def quantize(self, tensor: str, meaning: Meaning, output: str = "") -> str:
        output = output or self.fresh(f"{tensor}_q")
        return self.node("QuantizeLinear", [tensor, *self.parameters(output, meaning)], output)

    def dequantize(self, tensor: str, meaning: Meaning, output: str = "", **attributes: Any) -> str:
        output = output or self.fresh(f"{tensor}_dq")
        return self.node("DequantizeLinear", [tensor, *self.parameters(output, meaning)], output, **attributes)

    def through(self, tensor: str, meaning: Meaning, output: str = "") -> str:
        """Quantized and dequantized again."""
        return self.dequantize(self.quantize(tensor, meaning), meaning, output)

    def weights(self, name: str, codes: np.ndarray, meaning: Meaning, axis: int = 0) -> str:
        """Constant codes and their DequantizeLinear."""
        return self.dequantize(self.constant(name, codes), meaning, axis=axis)

    def model(
        self, x_shape: Sequence[int | str], outputs: Sequence[str] = ("y",), opset: int = 13, x_type: str = "float"
    ) -> ModelProto:
        domains = {node.domain: 1 for node in self.nodes if node.domain}
        inputs = {"x": (x_type, x_shape)}
        return graph_model(self.nodes, inputs, dict.fromkeys(outputs), self.constants, opset=opset, opsets=domains)

    def rewritten(self, x_shape: Sequence[int | str], outputs: Sequence[str] = ("y",), opset: int = 13) -> Graph:
        return rewrite(load(self.model(x_shape, outputs, opset)))

    def meant(self, x_shape: Sequence[int | str], outputs: Sequence[str] = ("y",), opset: int = 13) -> Program:
        return meaning_of(self.rewritten(x_shape, outputs, opset))


def between(op_type: str, meanings: tuple[Meaning, Meaning] = (A, B), **attributes: Any) -> Chain:
    """x quantized as the first meaning, the operator "r", quantized as the second and dequantized."""
    chain = Chain()
    chain.through(chain.node(op_type, [chain.through("x", meanings[0])], "r", **attributes), meanings[1], "y")
    return chain


def alone(
    op_type: str,
    shapes: Sequence[Sequence[int]],
    constants: Sequence[np.ndarray | tuple[str, Sequence[int]]] = (),
    *,
    by: tuple[Meaning, Meaning] | None = None,
    opset: int = 18,
    **attributes: Any,
) -> ModelProto:
    """An operator of inputs x0, x1, ... of these shapes, of floats or of codes dequantized ``by`` the first meaning.

    Constants follow, one of which may be a further input, and to the second meaning the result is quantized.
    """
    chain, x_type = Chain(), "float" if by is None else str(by[0][1].dtype)
    inputs = {f"x{i}": (x_type, shape) for i, shape in enumerate(shapes)}
    operands = list(inputs) if by is None else [chain.dequantize(name, by[0]) for name in inputs]
    for index, each in enumerate(constants):
        operands.append(f"k{index}")
        if isinstance(each, tuple):
            inputs[f"k{index}"] = each
        else:
            chain.constant(f"k{index}", each)
    chain.node(op_type, operands, "y" if by is None else "r", **attributes)
    if by is not None:
        chain.quantize("r", by[1], "y")
    domains, ir_version = {node.domain: 1 for node in chain.nodes if node.domain}, 10 if opset > 20 else 8
    others = {"opset": opset, "opsets": domains, "ir_version": ir_version}
    return graph_model(chain.nodes, inputs, {"y": None}, chain.constants, **others)


def meaning_of(graph: Graph) -> Program:
    """What a graph that was rewritten means, without what nobody reads, before it is simplified."""
    return join_tables(lower(check(graph)))


def kinds(program: Program) -> list[str]:
    """The classes of the operators in order."""
    return [type(op).__name__ for op in program.operators]


def one(program: Program, kind: type[Kind]) -> Kind:
    """The one operator of this class."""
    [op] = [op for op in program.operators if isinstance(op, kind)]
    return op


def table(program: Program) -> list[int]:
    """The codes of the one table."""
    codes: list[int] = one(program, Lookup).table.tolist()
    return codes


def means(tensor: Tensor, meaning: Meaning) -> bool:
    """Whether a tensor holds codes with this scale, this zero point and its type."""
    scale, zero_point = meaning
    wanted = (float(np.float32(scale)), int(zero_point), DType.of(np.asarray(zero_point)))
    return (tensor.scale, tensor.zero_point, tensor.dtype) == wanted


def operators(graph: Graph) -> list[str]:
    """The operators in order, without the domain com.microsoft."""
    return [node.op_type for node in graph.nodes]


def only(graph: Graph, op_type: str) -> Node:
    """The one node with this operator."""
    [node] = [node for node in graph.nodes if node.op_type == op_type]
    return node


def operand(graph: Graph, op_type: str, index: int) -> np.ndarray:
    """The elements of a constant input of the one node with this operator."""
    return graph.constants[only(graph, op_type).inputs[index]]
