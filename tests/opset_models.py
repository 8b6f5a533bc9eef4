"""A model of every operator of ai.onnx that can be compiled, in the spelling of each opset that changed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from models import graph_model, random_weights
from onnx import ModelProto, helper

from qcgen.infer import RULES
from qcgen.schemas import OLDEST

IMAGE = (1, 2, 4, 5)
Operand = tuple[str, tuple[int, ...]] | np.ndarray


@dataclass(frozen=True)
class Variant:
    """``operands`` are the tensors in order, ``rest`` attributes or further inputs: as which the opset decides."""

    operands: Sequence[Operand]
    rest: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


def floats(*shape: int) -> Operand:
    return ("float", shape or IMAGE)


def codes(*shape: int, dtype: str = "int8") -> Operand:
    return (dtype, shape or IMAGE)


def truths(*shape: int) -> Operand:
    return ("bool", shape or IMAGE)


def real(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def few(*shape: int) -> np.ndarray:
    """int8 weights of which onnxruntime never saturates a sum of two products, on processors without VNNI either."""
    return random_weights(shape) // 2


def weights(*shape: int) -> np.ndarray:
    return random_weights(shape).astype(np.float32) / 64


def one(*variants: Mapping[str, Any]) -> list[Variant]:
    """Variants of an operator on one image of floats."""
    return [Variant([floats()], rest) for rest in variants or ({},)]


def two(a: Operand, b: Operand) -> list[Variant]:
    return [Variant([a, b]), Variant([b, a])]


WINDOW = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 1, 0, 0]}
CEIL = {"kernel_shape": [3, 2], "strides": [3, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1}
SAME = {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"}
QUANTIZATION = [real(0.05), np.array(3, np.int8)]
BN = [real([0.5, 2]), real([1, -1]), real([0.1, -0.2]), real([1.5, 0.3])]
RNN = {"hidden_size": 4, "direction": "bidirectional"}
REDUCE = one({"axes": [1]}, {"axes": [2, 3], "keepdims": 0}, {}, {"noop_with_empty_axes": 1}, {"keepdims": 0})
BINARY = [*two(floats(), floats(4, 1)), Variant([floats(), floats()]), Variant([floats(), real(0.7)])]
CHOICE = [Variant([floats()]), Variant([floats(), real(0.5)]), Variant([floats(), floats(4, 1), floats()])]
MATRICES = [real(0.02), np.array(3, np.uint8), few(5, 4), real(0.01), np.array(0, np.int8)]

TRUTHS = [Variant([truths(), truths()]), Variant([truths(), truths(4, 1)])]

VARIANTS: dict[str, list[Variant]] = {
    "ConvTranspose": [
        Variant([floats(), weights(2, 3, 2, 2)], {"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
        Variant([floats(), weights(2, 1, 3, 2)], {"group": 2, "dilations": [1, 2]}),
    ],
    "Einsum": [Variant([floats(), weights(5, 3)], {"equation": "bchw,wk->bhkc"})],
    **dict.fromkeys(("And", "Or", "Xor"), TRUTHS),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), BINARY),
    "Equal": [*TRUTHS, *BINARY],
    "Not": [Variant([truths()])],
    "Where": [Variant([truths(), floats(), floats(4, 1)]), Variant([truths(4, 1), floats(), real(0.7)])],
    **dict.fromkeys(("Add", "Sub", "Mul"), BINARY),
    **dict.fromkeys(("ArgMax", "ArgMin"), one({}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1})),
    "AveragePool": one(WINDOW, CEIL, {**CEIL, "count_include_pad": 1}, SAME, {**WINDOW, "dilations": [1, 2]}),
    "BatchNormalization": [Variant([floats(), *BN]), Variant([floats(), *BN], {"epsilon": 0.01, "spatial": 1})],
    "Cast": one({"to": 1}),
    "Celu": one({}, {"alpha": 0.5}),
    "Clip": one({}, {"min": real(-1)}, {"max": real(0.5)}, {"min": real(-1), "max": real(0.5)}),
    "Concat": [Variant([floats(), floats(1, 2, 4, 5)], {"axis": 3}), Variant([floats(), floats()])],
    "Constant": [Variant([], {"value": np.ones((2, 3), np.float32)}), Variant([], {"value_floats": [1.0, 2.0]})],
    "ConstantOfShape": [Variant([np.array([2, 3])], {"value": real([2])}), Variant([np.array([2, 3])])],
    "Conv": [
        Variant([floats(), weights(4, 2, 2, 2), real([1, 0, -1, 2])], WINDOW),
        Variant([floats(), weights(4, 1, 2, 2)], {"group": 2, "auto_pad": "SAME_LOWER"}),
    ],
    "ConvInteger": [Variant([codes(dtype="uint8"), few(3, 2, 2, 2), np.array(7, np.uint8)], WINDOW)],
    "Cos": one(),
    "CumSum": [
        Variant([floats(), np.array(-1)]),
        Variant([floats(), np.array(1, np.int32)], {"exclusive": 1}),
        Variant([floats(), np.array(2)], {"exclusive": 1, "reverse": 1}),
    ],
    "OneHot": [
        Variant([("int64", (2, 3)), np.array(7), real([0.5, 2])]),
        Variant([("int32", (2, 3)), np.array([4]), real([0, 1])], {"axis": 0}),
    ],
    "DepthToSpace": [
        Variant([floats(1, 8, 2, 3)], {"blocksize": 2}),
        Variant([floats(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ],
    "DequantizeLinear": [Variant([codes(), *QUANTIZATION]), Variant([codes(dtype="uint8"), real(0.05)])],
    "Div": [Variant([floats(), real([3, -2, 0.5, 7, 9])])],
    "Dropout": one({}, {"ratio": real(0.25)}),
    "DynamicQuantizeLinear": one(),
    "Elu": one({}, {"alpha": 0.5}),
    "Expand": [Variant([floats(2, 1, 5), np.array([3, 1, 4, 1])])],
    "Flatten": one({}, {"axis": 2}, {"axis": -1}, {"axis": 0}),
    "GatherElements": [Variant([floats(), np.arange(-3, 3).reshape(1, 2, 3, 1) % 3], {"axis": 2})],
    "GRU": [
        Variant([floats(3, 2, 5), weights(2, 12, 5), weights(2, 12, 4), weights(2, 24)], RNN),
        Variant([floats(3, 2, 5), weights(2, 12, 5), weights(2, 12, 4)], {**RNN, "linear_before_reset": 1}),
        Variant([floats(3, 2, 5), weights(2, 12, 5), weights(2, 12, 4)], {**RNN, "layout": 1}),
    ],
    "Gather": [Variant([floats(), np.array([3, 0, 3])], {"axis": 2}), Variant([floats(), np.array([[0], [0]])])],
    "Gelu": one({}, {"approximate": "tanh"}),
    "Gemm": [
        Variant([floats(2, 3), weights(4, 3), real([1, 2, 3, 4])], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
        Variant([floats(2, 3), weights(3, 4), real([[1, 2, 3, 4], [5, 6, 7, 8]])]),
        Variant([floats(2, 3), weights(3, 4)]),
    ],
    "HardSigmoid": one({}, {"alpha": 0.3, "beta": 0.4}),
    "InstanceNormalization": [Variant([floats(), BN[0], BN[1]]), Variant([floats(), BN[0], BN[1]], {"epsilon": 0.01})],
    "LSTM": [
        Variant([floats(3, 2, 5), weights(2, 16, 5), weights(2, 16, 4), weights(2, 32)], RNN),
        Variant([floats(3, 2, 5), weights(2, 16, 5), weights(2, 16, 4)], {**RNN, "layout": 1}),
    ],
    "LayerNormalization": [
        Variant([floats(), weights(5), weights(5)]),
        Variant([floats(), weights(4, 5)], {"axis": 2, "epsilon": 0.01}),
    ],
    "LeakyRelu": one({}, {"alpha": 0.2}),
    **dict.fromkeys(("LogSoftmax", "Softmax"), one({}, {"axis": 1}, {"axis": 2}, {"axis": 3})),
    "MatMul": [Variant([floats(2, 3), weights(3, 4)]), Variant([floats(2, 4, 3), weights(3, 5)])],
    "MatMulInteger": [Variant([codes(2, 5, dtype="uint8"), few(5, 4), np.array(7, np.uint8)])],
    **dict.fromkeys(("Max", "Min"), CHOICE),
    "MaxPool": [
        *one(WINDOW, CEIL, SAME, {**WINDOW, "dilations": [1, 2], "storage_order": 0}),
        Variant([codes()], WINDOW),
    ],
    "PRelu": [Variant([floats(), real([[[0.1]], [[-2]]])]), Variant([floats(), real([0.1, 2])])],
    "Pad": [
        Variant([floats()], {"pads": [0, 0, 1, 0, 0, 0, 0, 2]}),
        Variant([floats()], {"pads": [0, 0, 1, 0, 0, 0, 0, 2], "value": real(1.5)}),
        Variant([floats()], {"pads": [0, 0, 1, 0, 0, 0, 0, 2], "mode": "reflect"}),
        Variant([floats()], {"pads": [1, 2], "axes": [2]}),
    ],
    "Pow": [Variant([floats(), real(2)])],
    "Mod": [Variant([np.array([-7, 7, 8]), np.array([3, -3, 5])])],
    "Range": [Variant([real(1), real(6), real(0.7)])],
    "QLinearConv": [
        Variant([codes(dtype="uint8"), *MATRICES[:2], few(3, 2, 2, 2), *MATRICES[3:], *QUANTIZATION], WINDOW)
    ],
    "QLinearMatMul": [Variant([codes(2, 5, dtype="uint8"), *MATRICES, real(0.05), np.array(120, np.uint8)])],
    "QuantizeLinear": [
        Variant([floats(), *QUANTIZATION]),
        Variant([floats(), real(0.05)]),
        Variant([floats(), real(0.05)], {"output_dtype": 3, "saturate": 1}),
    ],
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        REDUCE,
    ),
    "Reshape": [Variant([floats()], {"shape": [0, -1, 5]}), Variant([floats()], {"shape": [2, 20], "allowzero": 1})],
    "Resize": [
        Variant([floats()], {"scales": real([1, 1, 2, 1.5])}),
        Variant([floats()], {"scales": real([1, 1, 0.5, 0.7])}),
        Variant([floats()], {"sizes": [1, 2, 7, 3]}),
        Variant([floats()], {"scales": real([1, 1, 2, 2]), "mode": "linear"}),
        Variant(
            [floats()],
            {
                "scales": real([1, 1, 1.7, 0.6]),
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            },
        ),
        Variant([floats()], {"scales": real([2, 1.5]), "axes": [2, 3]}),
    ],
    "Selu": one({}, {"alpha": 1.5, "gamma": 0.9}),
    "Shape": one({}, {"start": 1, "end": -1}),
    "Shrink": one({}, {"bias": 0.25, "lambd": 0.4}),
    "Sin": one(),
    "Slice": [
        Variant([floats()], {"starts": [1, -3], "ends": [3, 100], "axes": [2, 3]}),
        Variant([floats()], {"starts": [0, 1], "ends": [1, 2]}),
        Variant([floats()], {"starts": [3, -1], "ends": [0, -9], "axes": [2, 3], "steps": [-1, -2]}),
    ],
    "SpaceToDepth": [
        Variant([floats(1, 2, 4, 6)], {"blocksize": 2}),
        Variant([floats(1, 2, 4, 6)], {"blocksize": 2, "mode": "CRD"}),
    ],
    "Split": [
        Variant([floats()], {"axis": 3, "split": [3, 2]}, outputs=2),
        Variant([floats()], {"axis": 2, "num_outputs": 2}, outputs=2),
        Variant([floats(4, 3)], {"num_outputs": 2}, outputs=2),
        Variant([floats(1, 5)], {"axis": -1, "num_outputs": 2}, outputs=2),
    ],
    "Squeeze": [Variant([floats(1, 3, 1, 5)], {"axes": [0]}), Variant([floats(1, 3, 1, 5)])],
    "ThresholdedRelu": one({}, {"alpha": 0.4}),
    "Tile": [Variant([floats()], {"repeats": [1, 2, 1, 3]})],
    "TopK": [
        Variant([floats()], {"k": np.array([2])}, outputs=2),
        Variant([floats()], {"k": np.array([1]), "axis": 1}),
        Variant([floats()], {"k": np.array([3]), "largest": 0, "axis": 2}, outputs=2),
    ],
    "RMSNormalization": [
        Variant([floats(), weights(5)]),
        Variant([floats(2, 3, 40), weights(40)], {"epsilon": 0.25}),
        Variant([floats(), weights(4, 5)], {"axis": 2}),
    ],
    "Transpose": one({}, {"perm": [0, 3, 1, 2]}),
    "Unsqueeze": [Variant([floats()], {"axes": [1]}), Variant([floats()], {"axes": [0, 5]})],
}
"""By operator; those that are not here are functions of one image of floats without parameters."""

QUANTIZE_SINCE = 10
"""The opset that brought QuantizeLinear and DequantizeLinear."""

OTHER_NAMES = {"K": "k", "constant_value": "value", "paddings": "pads"}
"""What opsets call what ``Variant.rest`` has under one name."""

OPERATORS = sorted(op_type for domain, op_type in RULES if domain == "" and op_type != "If")
"""Those of ai.onnx, but for If, whose attributes are graphs: tests/test_branches.py."""


@cache
def schemas() -> Mapping[str, Mapping[int, Any]]:
    """Every schema of ai.onnx, by operator and first opset."""
    found: dict[str, dict[int, Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found.setdefault(schema.name, {})[schema.since_version] = schema
    return found


def opsets(op_type: str) -> list[int]:
    """The first and the last opset of each schema of an operator, of those that are not refused."""
    first = sorted(schemas()[op_type])
    last = [version - 1 for version in first[1:]] + [onnx.defs.onnx_opset_version()]
    return sorted({max(opset, OLDEST) for opset in (*first, *last)})


def schema_at(op_type: str, opset: int) -> Any:
    """The schema that holds at an opset."""
    return schemas()[op_type][max(first for first in schemas()[op_type] if first <= opset)]


def variants(op_type: str) -> list[Variant]:
    return VARIANTS.get(op_type, [Variant([floats()])])


def is_variadic(schema: Any) -> bool:
    return bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def spelt(op_type: str, variant: Variant, opset: int) -> tuple[list[Operand | None], dict[str, Any]] | None:
    """The inputs and attributes of a node; None where the opset cannot say it."""
    schema = schema_at(op_type, opset)
    inputs: list[Operand | None] = [*variant.operands]
    if len(inputs) > len(schema.inputs) and not is_variadic(schema):
        return None
    attributes: dict[str, Any] = {}
    rest = dict(variant.rest)
    names = [] if is_variadic(schema) else [OTHER_NAMES.get(each.name, each.name) for each in schema.inputs]
    for name in names[len(inputs) :]:
        value = rest.pop(name, None)
        inputs.append(None if value is None else np.asarray(value))
    for name in schema.attributes:
        value = rest.pop(OTHER_NAMES.get(name, name), None)
        if value is not None:
            wanted = schema.attributes[name].type
            if isinstance(value, str) is not (wanted == onnx.defs.OpSchema.AttrType.STRING):
                return None
            is_tensor = wanted == onnx.defs.OpSchema.AttrType.TENSOR
            if wanted == onnx.defs.OpSchema.AttrType.INT and isinstance(value, np.ndarray):
                value = value.item()
            attributes[name] = value if is_tensor or not isinstance(value, np.ndarray) else value.tolist()
    while inputs and inputs[-1] is None:
        inputs.pop()
    return None if rest else (inputs, attributes)


def spelt_model(op_type: str, variant: Variant, opset: int, *, between_codes: bool = False) -> ModelProto | None:
    """A model of one node, its float inputs and outputs quantized with ``between_codes``; None where there is none."""
    found = spelt(op_type, variant, opset)
    if found is None:
        return None
    operands, attributes = found
    is_float = [isinstance(each, tuple) and each[0] == "float" for each in operands]
    if between_codes and (not any(is_float) or opset < QUANTIZE_SINCE):
        return None
    constants = {f"i{n}": each for n, each in enumerate(operands) if isinstance(each, np.ndarray)}
    inputs = {f"i{n}": each for n, each in enumerate(operands) if isinstance(each, tuple)}
    outputs = [f"o{n}" for n in range(variant.outputs)]
    names = ["" if each is None else f"i{n}" for n, each in enumerate(operands)]
    attributes = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    if not between_codes:
        node = helper.make_node(op_type, names, outputs, name="node", **attributes)
        return graph_model([node], inputs, dict.fromkeys(outputs), constants, opset=opset, ir_version=10)
    before, after = [], []
    constants |= {"scale": real(0.04), "y_scale": real(0.05), "zero": np.array(-9, np.int8)}
    for n, floating in enumerate(is_float):
        if floating:
            before += [
                helper.make_node("QuantizeLinear", [f"i{n}", "scale", "zero"], [f"q{n}"]),
                helper.make_node("DequantizeLinear", [f"q{n}", "scale", "zero"], [f"d{n}"]),
            ]
            names[n] = f"d{n}"
    inner = [f"{name}_inner" for name in outputs]
    after = [
        helper.make_node("QuantizeLinear", [each, "y_scale", "zero"], [name])
        for each, name in zip(inner, outputs, strict=True)
    ]
    node = helper.make_node(op_type, names, inner, name="node", **attributes)
    nodes = [*before, node, *after]
    return graph_model(nodes, inputs, dict.fromkeys(outputs), constants, opset=opset, ir_version=10)
