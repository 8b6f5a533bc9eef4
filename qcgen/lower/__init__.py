"""A checked Graph becomes a Program: spellings are resolved to facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.geometry import NHWC_DOMAIN
from qcgen.ir.graph import Graph, Node, operator_keys
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    GlobalAveragePool,
    Lookup,
    MatMul,
    Operator,
    Program,
    QuantizedBinary,
    Reduce,
    Reshape,
    RoundOnce,
    Softmax,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Array
from qcgen.lower import elementwise, linear, movement, recurrent, reduction
from qcgen.lower.codes import is_in_float
from qcgen.lower.orion import convolutions_of_codes, lower_orion
from qcgen.lower.propagate import propagate
from qcgen.lower.source import Source, tensor_of
from qcgen.options import spelt

Lowering = Callable[[Source], Operator | tuple[Operator, ...]]
"""From a node to what it means, in execution order."""

_BY_LOWERING: Mapping[Lowering, str] = {
    elementwise.lower_binary: "Add Div Mul Sub com.microsoft.QLinearAdd com.microsoft.QLinearMul",
    elementwise.lower_cast: "Cast",
    elementwise.lower_dequantize: "DequantizeLinear com.microsoft.DequantizeLinear",
    elementwise.lower_dynamic_quantize: "DynamicQuantizeLinear",
    elementwise.lower_quantize: "QuantizeLinear com.microsoft.QuantizeLinear",
    elementwise.lower_same: "Dropout Identity",
    elementwise.lower_choice: "Max Min",
    elementwise.lower_power: "Pow",
    elementwise.lower_prelu: "PRelu",
    elementwise.lower_qlinear_function: "com.microsoft.QLinearLeakyRelu com.microsoft.QLinearSigmoid",
    linear.lower_conv: f"""Conv QLinearConv com.microsoft.FusedConv com.microsoft.NhwcFusedConv
    com.microsoft.QLinearConv {NHWC_DOMAIN}.Conv {NHWC_DOMAIN}.QLinearConv""",
    linear.lower_conv_integer: "ConvInteger",
    linear.lower_gemm: "Gemm com.microsoft.QGemm",
    linear.lower_matmul: "MatMul QLinearMatMul",
    linear.lower_matmul_integer: "MatMulInteger",
    movement.lower_concat: "Concat",
    movement.lower_depth_to_space: "DepthToSpace",
    movement.lower_gather: "Gather",
    movement.lower_gather_elements: "GatherElements",
    movement.lower_pad: "Pad",
    movement.lower_qlinear_concat: "com.microsoft.QLinearConcat",
    movement.lower_reshape: "Flatten Reshape Squeeze Unsqueeze",
    movement.lower_resize: "Resize",
    movement.lower_slice: "Slice",
    movement.lower_space_to_depth: "SpaceToDepth",
    movement.lower_split: "Split",
    movement.lower_tile: "Expand Tile",
    movement.lower_transpose: "Transpose",
    reduction.lower_average_pool: f"AveragePool com.microsoft.QLinearAveragePool {NHWC_DOMAIN}.AveragePool",
    reduction.lower_global_average_pool: f"""GlobalAveragePool com.microsoft.QLinearGlobalAveragePool
    {NHWC_DOMAIN}.GlobalAveragePool""",
    reduction.lower_global_max_pool: f"GlobalMaxPool {NHWC_DOMAIN}.GlobalMaxPool",
    reduction.lower_max_pool: f"MaxPool com.microsoft.NhwcMaxPool {NHWC_DOMAIN}.MaxPool",
    recurrent.lower_dynamic_lstm: "com.microsoft.DynamicQuantizeLSTM",
    recurrent.lower_recurrent: "GRU LSTM",
    reduction.lower_arg_max: "ArgMax ArgMin",
    reduction.lower_instance_norm: "InstanceNormalization",
    reduction.lower_layer_norm: "LayerNormalization RMSNormalization",
    reduction.lower_reduce: """ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare""",
    reduction.lower_softmax: "LogSoftmax Softmax com.microsoft.QLinearSoftmax",
    reduction.lower_top_k: "TopK",
    elementwise.lower_comparison: " ".join(elementwise.COMPARISONS),
    elementwise.lower_logic: "And Not Or Xor",
    elementwise.lower_where: "Where",
}

LOWERINGS: Mapping[tuple[str, str], Lowering] = dict(
    sorted(
        {
            **dict.fromkeys(elementwise.FUNCTIONS, elementwise.lower_function),
            **{key: lowering for lowering, operators in _BY_LOWERING.items() for key in operator_keys(operators)},
        }.items()
    )
)
"""The supported operators by (domain, op_type), each with what it means in onnxruntime's arithmetic."""

NUMERICS: dict[str, int | None] = {"onnxruntime": None, "tflm": None, "orion-fp16x16": 16, "orion-fp8x23": 23}
"""The arithmetics that can be meant; Orion's with their fraction bits. That of .tflite files is "tflm"."""


def lower(graph: Graph, *, numerics: str = "onnxruntime") -> Program:
    """The meaning of a graph that ``check`` has accepted, in the arithmetic named ``numerics``, a key of NUMERICS.

    Raises ModelRejected for nodes and numbers that Orion's arithmetic does not have.
    """
    if numerics not in NUMERICS:
        raise ValueError(f"numerics must be one of {', '.join(NUMERICS)}, not {numerics!r}")
    if numerics == "tflm":
        hint = "leave it out, or compile the .tflite file"
        what = f"{spelt(numerics='tflm')} is for .tflite files; this is an ONNX model"
        raise ModelRejected([Problem("model", what, hint)])
    bits = NUMERICS[numerics]
    graph, copies = _constants_as_outputs(graph)
    graph, read, written = elementwise.truth_as_numbers(graph)
    lowered = _lower_nodes(graph) if bits is None else _lower_orion_nodes(graph, bits, numerics)
    lowered, constants = _looked_up(lowered, graph.constants)
    operators = (*propagate([*read, *lowered, *written], constants), *copies)
    in_float = {node.name for node in graph.nodes if is_in_float(node, graph)}
    consumed = _by_name(x for op in operators for x in inputs_of(op))
    produced = _by_name(op.y for op in operators)
    return Program(
        name=graph.name,
        inputs=tuple(consumed.get(name) or tensor_of(graph, name) for name in graph.inputs),
        outputs=tuple(produced[name] for name in graph.outputs),
        operators=operators,
        sha256=graph.sha256,
        constants={name: constants[name] for name in consumed if name in constants},
        in_float=frozenset(op.name for op in operators if (_adds_up(op) and op.name in in_float) or _rounds_once(op)),
    )


def _looked_up(
    operators: Sequence[Operator], constants: Mapping[str, Array]
) -> tuple[list[Operator], Mapping[str, Array]]:
    """The operators without tables of constants, and those made twice; the constants with what these tables give."""
    found, left = dict(constants), dict[str, Operator]()
    for op in operators:
        if isinstance(op, Lookup) and op.x.name in found:
            found[op.y.name] = op.table[found[op.x.name].astype(np.int64) - op.x.dtype.low].astype(op.y.dtype.numpy)
        else:
            left.setdefault(op.y.name, op)
    return list(left.values()), found


def _constants_as_outputs(graph: Graph) -> tuple[Graph, list[Operator]]:
    """The graph with other names for constants that are outputs, and the copies that write these."""
    names = {name: f"{name} as constant" for name in graph.outputs if name in graph.constants}
    if not names:
        return graph, []
    copies: list[Operator] = []
    rows: dict[str, Array] = {}
    for name, own in names.items():
        y, called = tensor_of(graph, name), (f"output {name}", "Constant")
        if y.shape:
            copies.append(Concat(*called, (replace(y, name=own),), y, 0))
        else:
            row, rows[f"{own} in a row"] = replace(y, name=f"{name} in a row", shape=(1,)), graph.constants[name][None]
            copies += [Concat(*called, (replace(row, name=f"{own} in a row"),), row, 0), Reshape(*called, row, y)]

    def renamed(node: Node) -> Node:
        return replace(node, inputs=tuple(names.get(x, x) for x in node.inputs))

    return replace(
        graph,
        nodes=tuple(renamed(node) for node in graph.nodes),
        dequantized={names.get(name, name): renamed(node) for name, node in graph.dequantized.items()},
        constants={**{names.get(name, name): array for name, array in graph.constants.items()}, **rows},
        values={**graph.values, **{own: replace(graph.value(name), name=own) for name, own in names.items()}},
    ), copies


def _adds_up(op: Operator) -> bool:
    """Whether float32 rounds a code of the operator in more than one way: functions of one code are tables anyway."""
    kinds = Conv | MatMul | QuantizedBinary | Reduce | AveragePool | GlobalAveragePool | Softmax
    return isinstance(op, kinds) and op.y.dtype.is_quantized


def _rounds_once(op: Operator) -> bool:
    """Whether an exact sum is rounded once, which onnxruntime adds up in float32: one with codes of 16 bits."""
    match op:
        case Conv(epilogue=RoundOnce()) | GlobalAveragePool(requantize=RoundOnce()):
            return True
        case _:
            return False


def _lower_nodes(graph: Graph) -> list[Operator]:
    operators: list[Operator] = []
    made: set[str] = set()
    for node in graph.nodes:
        if node.op_type == "QuantizeLinear" and node.outputs[0] in made:
            continue  # an operator in front of it computes the codes
        lowered = LOWERINGS[node.domain, node.op_type](Source(node, graph))
        operators += lowered if isinstance(lowered, tuple) else (lowered,)
        made.add(operators[-1].y.name)
    return operators


def _lower_orion_nodes(graph: Graph, bits: int, numerics: str) -> list[Operator]:
    operators: list[Operator] = []
    problems: list[Problem] = []
    borders: list[Problem] = []  # of what is around an operator, which is the cause if it is not supported either
    nodes, convolutions = convolutions_of_codes(graph)
    for node in nodes:
        if node.name not in convolutions:
            where = f"node {node.name!r} ({node.operator})"
            hint = f"compile a QLinearConv of ai.onnx with {spelt('node')}, or use {spelt(numerics='onnxruntime')}"
            is_border = node.op_type in ("DequantizeLinear", "QuantizeLinear")
            (borders if is_border else problems).append(Problem(where, f"{numerics} has no such operator", hint))
            continue
        *before, conv = convolutions[node.name]
        assert isinstance(conv, Conv), "a convolution of codes"
        try:
            operators += [*before, lower_orion(Source(node, graph), conv, bits)]
        except ModelRejected as rejection:
            problems += rejection.problems
    if problems or borders:
        raise ModelRejected(problems or borders)
    return operators


def _by_name(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    """The first mention of every tensor."""
    named: dict[str, Tensor] = {}
    for tensor in tensors:
        named.setdefault(tensor.name, tensor)
    return named
