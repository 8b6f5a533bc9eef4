"""One small valid model for every operator that can be compiled, by (domain, op_type): what mutation starts from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from functions_recorded import FUNCTIONS, OF_CHANNELS, between_codes
from gallery_networks import network_16_bits
from models import MICROSOFT, NHWC, Spec, conv_integer, float_conv, node_model, qlinear_conv, random_weights
from onnx import ModelProto, TensorProto, helper
from qdq import A, B, Chain, Meaning

from qcgen.infer import DYNAMIC_LSTM

IMAGE = (1, 2, 4, 5)
WIDE: Meaning = (0.0002, np.int16(-400))
X: Mapping[str, Spec] = {"X": ("float", IMAGE)}
CODES: Mapping[str, Spec] = {"X": ("int8", IMAGE)}


def scale(value: Any = 0.05) -> np.ndarray:
    return np.asarray(value, np.float32)


def zero(value: Any = 3, dtype: str = "uint8") -> np.ndarray:
    return np.asarray(value, dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ONE: Mapping[str, Spec] = {
    "X": ("uint8", IMAGE),
    "X_scale": scale(),
    "X_zero_point": zero(),
    "Y_scale": scale(0.07),
    "Y_zero_point": zero(100),
}
TWO: Mapping[str, Spec] = {
    "A": ("int8", IMAGE),
    "A_scale": scale(),
    "A_zero_point": zero(-4, "int8"),
    "B": ("int8", (2, 1, 5)),
    "B_scale": scale(0.03),
    "B_zero_point": zero(9, "int8"),
    "C_scale": scale(0.06),
    "C_zero_point": zero(0, "int8"),
}
MATMUL: Mapping[str, Spec] = {
    "a": ("uint8", (2, 5)),
    "a_scale": scale(0.02),
    "a_zero_point": zero(),
    "b": random_weights((5, 4)),
    "b_scale": scale([0.01, 0.02, 0.015, 0.03]),
    "b_zero_point": zero([0] * 4, "int8"),
}
PARTS: Mapping[str, Spec] = {
    "Y_scale": scale(),
    "Y_zero_point": zero(),
    "a": ("uint8", IMAGE),
    "a_scale": scale(0.04),
    "a_zero_point": zero(),
    "b": ("uint8", IMAGE),
    "b_scale": scale(0.03),
    "b_zero_point": zero(7),
}
RESIZE: Mapping[str, Spec] = {"X": ("int8", IMAGE), "roi": None, "scales": scale([1, 1, 2, 1.5])}
SLICE: Mapping[str, Spec] = {
    "X": ("int8", IMAGE),
    "starts": ints(0, -1),
    "ends": ints(2, -9),
    "axes": ints(2, 3),
    "steps": ints(1, -2),
}
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
FLOAT_FUNCTIONS = (
    *(
        "Abs",
        "Ceil",
        "Celu",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Round",
        "Selu",
    ),
    *("Shrink", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "ThresholdedRelu"),
)
LSTM_OPERANDS: Mapping[str, Spec] = {
    "X": ("float", (3, 2, 5)),
    "W": random_weights((2, 16, 5), "float32"),
    "R": random_weights((2, 16, 4), "float32"),
    "B": random_weights((2, 32), "float32"),
    "sequence_lens": np.array([3, 3], np.int32),
    "initial_h": ("float", (2, 2, 4)),
    "initial_c": scale(np.full((2, 2, 4), 0.5)),
}
BOTH_WAYS = {"direction": "bidirectional", "hidden_size": 4, "outputs": {"y": None, "h": None, "c": None}}
GRU_OPERANDS: Mapping[str, Spec] = {
    "X": ("float", (2, 3, 5)),
    "W": random_weights((1, 12, 5), "float32"),
    "R": random_weights((1, 12, 4), "float32"),
    "B": random_weights((1, 24), "float32"),
    "sequence_lens": None,
    "initial_h": ("float", (2, 1, 4)),
}
WINDOW = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 1, 0, 0]}
Y2 = {"y": None, "z": None}

NODES: Mapping[tuple[str, str], tuple[Mapping[str, Spec], Mapping[str, Any]]] = {
    ("", "Add"): ({"A": ("float", IMAGE), "B": ("float", (5,))}, {}),
    ("", "ArgMax"): (CODES, {"axis": 1, "keepdims": 0}),
    ("", "ArgMin"): (X, {"axis": -1, "select_last_index": 1}),
    **{("", op_type): (X, {"opset": 20}) for op_type in FLOAT_FUNCTIONS},
    ("", "AveragePool"): (X, {**WINDOW, "count_include_pad": 1}),
    ("", "Cast"): (X, {"to": 1}),
    ("", "Clip"): ({**X, "min": scale(-1), "max": scale(2)}, {}),
    ("", "Concat"): ({"a": ("int8", IMAGE), "b": ("int8", (1, 3, 4, 5))}, {"axis": 1}),
    ("", "DepthToSpace"): ({"X": ("int8", (1, 8, 2, 3))}, {"blocksize": 2, "mode": "CRD"}),
    ("", "DequantizeLinear"): ({**CODES, "s": scale(), "z": zero(1, "int8")}, {}),
    ("", "Div"): ({**X, "B": scale(3)}, {}),
    ("", "Dropout"): (X, {}),
    ("", "DynamicQuantizeLinear"): (X, {"outputs": {"codes": None, "step": None, "zero": None}}),
    ("", "Expand"): ({"X": ("int8", (2, 1, 5)), "shape": ints(3, 1, 4, 1)}, {}),
    ("", "Flatten"): (CODES, {"axis": 2}),
    ("", "GRU"): (GRU_OPERANDS, {"linear_before_reset": 1, "layout": 1, "opset": 14}),
    ("", "Gather"): ({**CODES, "indices": ints(3, -4, 3)}, {"axis": -2}),
    ("", "Gemm"): (
        {"A": ("float", (2, 3)), "B": random_weights((4, 3), "float32"), "C": scale([1, 2, 3, 4])},
        {"transB": 1, "alpha": 0.5},
    ),
    ("", "GlobalAveragePool"): (X, {}),
    ("", "GlobalMaxPool"): (CODES, {}),
    ("", "HardSigmoid"): (X, {"alpha": 0.3, "beta": 0.4}),
    ("", "HardSwish"): (X, {"opset": 14}),
    ("", "InstanceNormalization"): ({**X, "scale": scale([1, 2]), "b": scale([0, 1])}, {}),
    ("", "LayerNormalization"): ({**X, "scale": scale([1, 2, 3, 4, 5])}, {"opset": 17}),
    ("", "RMSNormalization"): ({**X, "scale": scale([1, 2, 3, 4, 5])}, {"opset": 23}),
    ("", "Identity"): (CODES, {}),
    ("", "LSTM"): (LSTM_OPERANDS, BOTH_WAYS),
    DYNAMIC_LSTM: (
        {
            "X": ("float", (3, 1, 2)),
            "W": random_weights((1, 2, 8)),
            "R": random_weights((1, 2, 8)),
            "B": None,
            "lengths": None,
            "h": ("float", (1, 1, 2)),
            "c": None,
            "P": None,
            "W_scale": scale([0.01]),
            "W_zero_point": zero([3], "int8"),
            "R_scale": scale([0.02]),
            "R_zero_point": zero([0], "int8"),
        },
        {"hidden_size": 2},
    ),
    ("", "LeakyRelu"): (X, {"alpha": 0.1}),
    ("", "LogSoftmax"): (X, {"axis": -2}),
    ("", "MatMul"): ({"A": ("float", (2, 3)), "B": random_weights((3, 4), "float32")}, {}),
    ("", "MatMulInteger"): (
        {"A": ("uint8", (2, 5)), "B": random_weights((5, 4)), "a_zero": zero(9), "b_zero": zero(0, "int8")},
        {},
    ),
    ("", "Max"): ({**X, "B": scale([[2], [3], [4], [5]]), "C": ("float", IMAGE)}, {}),
    ("", "MaxPool"): (CODES, {**WINDOW, "dilations": [1, 2]}),
    ("", "Min"): ({**X, "B": scale(0.5)}, {}),
    ("", "Mul"): ({**X, "B": scale([[2], [3], [4], [5]])}, {}),
    ("", "PRelu"): ({**X, "slope": scale([[[0.1]], [[-2]]])}, {}),
    ("", "Pad"): ({**CODES, "pads": ints(0, 0, 1, 0, 0, 0, 0, 2), "value": zero(4, "int8")}, {}),
    ("", "Pow"): ({**X, "Y": scale(1.5)}, {}),
    ("", "QLinearMatMul"): ({**MATMUL, "y_scale": scale(), "y_zero_point": zero()}, {}),
    ("", "QuantizeLinear"): ({**X, "s": scale(), "z": zero()}, {}),
    ("", "ReduceL1"): (X, {"axes": [-1], "keepdims": 0}),
    ("", "ReduceL2"): (X, {"axes": [1]}),
    ("", "ReduceMax"): ({**CODES, "axes": ints(-1, 1)}, {"keepdims": 0, "opset": 18}),
    ("", "ReduceMean"): (X, {"axes": [2, 3], "keepdims": 0}),
    ("", "ReduceMin"): (CODES, {"axes": [2]}),
    ("", "ReduceProd"): ({**X, "axes": ints(1)}, {"opset": 18}),
    ("", "ReduceSum"): ({**X, "axes": ints(0, -2)}, {}),
    ("", "ReduceSumSquare"): (X, {"axes": [0, 2]}),
    ("", "Relu"): (X, {}),
    ("", "Reshape"): ({**CODES, "shape": ints(0, -1, 5)}, {}),
    ("", "Resize"): (RESIZE, {"mode": "nearest", "nearest_mode": "floor"}),
    ("", "Sigmoid"): (X, {}),
    ("", "Slice"): (SLICE, {}),
    ("", "Softmax"): (X, {"axis": 1}),
    ("", "SpaceToDepth"): ({"X": ("int8", (1, 2, 4, 6))}, {"blocksize": 2}),
    ("", "Split"): ({**CODES, "split": ints(3, 2)}, {"axis": 3, "outputs": Y2}),
    ("", "Squeeze"): ({**CODES, "axes": ints(0)}, {}),
    ("", "Sub"): ({"A": ("float", IMAGE), "B": ("float", IMAGE)}, {}),
    ("", "Tanh"): (X, {}),
    ("", "Tile"): ({**CODES, "repeats": ints(1, 2, 1, 3)}, {}),
    ("", "Transpose"): (CODES, {"perm": [0, 3, 1, 2]}),
    ("", "Unsqueeze"): ({**CODES, "axes": ints(1)}, {}),
    (MICROSOFT, "DequantizeLinear"): ({**CODES, "s": scale(), "z": zero(1, "int8")}, {}),
    (MICROSOFT, "Gelu"): (X, {}),
    (MICROSOFT, "NhwcMaxPool"): (CODES, WINDOW),
    (MICROSOFT, "QGemm"): (
        {**MATMUL, "C": np.array([1, -200, 3000, 4], np.int32), "y_scale": scale(), "y_zero_point": zero()},
        {"alpha": 1.0, "transB": 0},
    ),
    (MICROSOFT, "QLinearAdd"): (TWO, {}),
    (MICROSOFT, "QLinearAveragePool"): (ONE, {**WINDOW, "channels_last": 0}),
    (MICROSOFT, "QLinearConcat"): (PARTS, {"axis": 1}),
    (MICROSOFT, "QLinearGlobalAveragePool"): (ONE, {"channels_last": 0}),
    (MICROSOFT, "QLinearLeakyRelu"): (ONE, {"alpha": 0.1}),
    (MICROSOFT, "QLinearMul"): (TWO, {}),
    (MICROSOFT, "QLinearSigmoid"): (ONE, {}),
    (MICROSOFT, "QLinearSoftmax"): (ONE, {"axis": 1}),
    (MICROSOFT, "QuantizeLinear"): ({**X, "s": scale(), "z": zero()}, {}),
    (MICROSOFT, "QuickGelu"): (X, {"alpha": 1.5}),
    (NHWC, "AveragePool"): (X, WINDOW),
    (NHWC, "GlobalAveragePool"): (X, {}),
    (NHWC, "GlobalMaxPool"): (X, {}),
    (NHWC, "MaxPool"): (CODES, WINDOW),
    **{("", op_type): ({"A": ("float", IMAGE), "B": scale(0.5)}, {}) for op_type in COMPARISONS},
    **{("", op_type): ({"A": ("bool", IMAGE), "B": ("bool", (2, 1, 5))}, {}) for op_type in ("And", "Or", "Xor")},
    ("", "Not"): ({"A": ("bool", IMAGE)}, {}),
    ("", "GatherElements"): ({**X, "places": ints(*range(-4, 4)).reshape(1, 2, 4, 1)}, {"axis": 2}),
    ("", "TopK"): ({**X, "k": ints(2)}, {"axis": 2, "largest": 0, "outputs": {"y": None, "places": None}}),
    ("", "Where"): ({"C": ("bool", IMAGE), "X": ("float", (4, 5)), "Y": scale(0.5)}, {}),
}
"""Operands and attributes of every operator that is not a convolution."""

COMPUTED: Mapping[str, tuple[str, Mapping[str, Spec], Mapping[str, Any]]] = {
    "QLinearMatMul of two inputs": (
        "QLinearMatMul",
        {**MATMUL, "a": ("uint8", (2, 3, 5)), "b": ("int8", (2, 5, 4)), "b_scale": scale(0.01),
         "b_zero_point": zero(7, "int8"), "y_scale": scale(), "y_zero_point": zero()},
        {},
    ),
    "Swish": ("Swish", X, {"opset": 24}),
    "FastGelu": ("FastGelu", X, {"domain": MICROSOFT}),
    "BiasGelu": ("BiasGelu", {**X, "b": scale([0.5] * 5)}, {"domain": MICROSOFT}),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", {**X, "scale": scale([1] * 5)}, {}),
    "SkipLayerNormalization": (
        "SkipLayerNormalization",
        {"X": ("float", (2, 3, 5)), "s": ("float", (2, 3, 5)), **{name: scale([0.5] * 5) for name in "gbc"}},
        {"domain": MICROSOFT},
    ),
    "CumSum": ("CumSum", {**X, "axis": ints(2).reshape(())}, {"opset": 14, "reverse": 1, "exclusive": 1}),
    "OneHot": ("OneHot", {"X": ("int64", (2, 3)), "depth": ints(7), "values": ints(0, 1)}, {"axis": 1}),
    "ReduceLogSum": ("ReduceLogSum", X, {"axes": [1]}),
    "ReduceLogSumExp": ("ReduceLogSumExp", X, {"axes": [1], "keepdims": 0}),
    "Trilu": ("Trilu", X, {"opset": 14}),
    "ReverseSequence": ("ReverseSequence", {"X": ("float", (3, 2, 4)), "lens": ints(3, 2)}, {}),
    "ScatterND": ("ScatterND", {"X": ("float", (3, 4)), "at": ints(2).reshape(1, 1), "u": ("float", (1, 4))}, {}),
    "ScatterElements": (
        "ScatterElements", {"X": ("float", (3, 4)), "at": ints(2).reshape(1, 1), "u": scale([[1]])}, {}
    ),
    "Gather of rows": ("Gather", {"table": random_weights((6, 3)), "indices": ("int64", (2, 2))}, {}),
    "MatMulInteger of a computed zero point": (
        "MatMulInteger", {"A": ("uint8", (2, 5)), "B": random_weights((5, 4)), "a_zero": ("uint8", ())}, {}
    ),
    "MatMulInteger of two inputs": (
        "MatMulInteger",
        {"A": ("int8", (2, 5)), "B": ("uint8", (3, 5, 4)), "a_zero": zero(9, "int8"), "b_zero": zero(3)},
        {},
    ),
    "float LayerNormalization of two axes": (
        "LayerNormalization",
        {**X, "scale": random_weights((4, 5), "float32"), "b": random_weights((4, 5), "float32")},
        {"opset": 17, "axis": 2},
    ),
    "float BatchNormalization": (
        "BatchNormalization", {**X, **{name: scale([0.5, 2]) for name in ("scale", "bias", "mean", "var")}}, {}
    ),
    "float ConvTranspose": (
        "ConvTranspose", {**X, "w": random_weights((2, 3, 2, 3), "float32"), "b": scale([1, 0, 2])}, {"strides": [2, 1]}
    ),
    "Einsum": (
        "Einsum", {**X, "w": random_weights((5, 3), "float32")}, {"equation": "bchw,wk->bhkc", "opset": 13}
    ),
    "GroupNormalization": (
        "GroupNormalization", {**X, "scale": scale([1, 2]), "bias": scale([3, 4])}, {"num_groups": 2, "opset": 18}
    ),
    "CastLike": ("CastLike", {**X, "target": scale([1])}, {"opset": 15}),
    "Upsample": ("Upsample", {**X, "scales": scale([1, 1, 2, 1.5])}, {"opset": 9}),
    "Sum of three inputs": ("Sum", {**X, "B": scale([[2], [3], [4], [5]]), "C": ("float", IMAGE)}, {}),
    "Mean of three inputs": ("Mean", {**X, "B": ("float", (4, 1)), "C": ("float", IMAGE)}, {}),
    "Gemm of three inputs": (
        "Gemm",
        {"A": ("float", (2, 3)), "B": random_weights((3, 4), "float32"), "C": ("float", (2, 1))},
        {"beta": 0.5},
    ),
    "MatMul of two inputs": ("MatMul", {"A": ("float", (2, 3, 5)), "B": ("float", (5, 4))}, {}),
    "MatMul by matrices": ("MatMul", {"A": ("float", (1, 3, 5)), "B": random_weights((2, 5, 4), "float32")}, {}),
    "MatMul by a vector": ("MatMul", {"A": ("float", (2, 3)), "B": scale([1, -2, 3])}, {}),
    "MatMul of a vector": ("MatMul", {"A": scale([1, -2, 3]), "B": ("float", (2, 3, 4))}, {}),
    "Cast to float16": ("Cast", {"X": ("float", (1, 2, 3, 4))}, {"to": 10}),
    "Cast from double": ("Cast", {"X": ("double", (2, 3))}, {"to": 1}),
    "Cast to int8": ("Cast", X, {"to": 3}),
    "Cast from int64": ("Cast", {"X": ("int64", (2, 3))}, {"to": 6}),
    "MatMulNBits": (
        "MatMulNBits",
        {"A": ("float", (2, 20)), "B": random_weights((3, 2, 8), "uint8"), "s": scale([0.1] * 6)},
        {"domain": MICROSOFT, "K": 20, "N": 3, "bits": 4, "block_size": 16},
    ),
    "QuantizeLinear by axis": (
        "QuantizeLinear", {**X, "scale": scale([0.05, 0.1]), "zero": zero([3, 200])}, {"axis": 1}
    ),
    "DequantizeLinear in blocks": (
        "DequantizeLinear",
        {**CODES, "scale": scale(np.full((1, 2, 4, 3), 0.05)), "zero": zero(np.full((1, 2, 4, 3), 3), "int8")},
        {"axis": 3, "block_size": 2, "opset": 21},
    ),
    "GatherND": ("GatherND", {**CODES, "places": ints([0, 1], [0, -2])}, {}),
    "linear Resize": ("Resize", {**X, "roi": None, "scales": scale([1, 1, 2, 1.5])}, {"mode": "linear"}),
    "linear Resize of codes": ("Resize", RESIZE, {"mode": "linear"}),
}  # fmt: skip
"""Operators whose operands may be constant or not, with two inputs: op_type, operands, attributes."""


def layer_norm() -> ModelProto:
    """A normalization of codes: float between DequantizeLinear and QuantizeLinear."""
    chain = Chain()
    constants = [
        chain.constant("gamma", scale(np.arange(10).reshape(2, 5) / 8 - 0.3)),
        chain.constant("beta", scale(0.25)),
    ]
    normal = chain.node("LayerNormalization", [chain.dequantize("x", A), *constants], "normal", axis=1, epsilon=1e-4)
    chain.quantize(normal, B, "y")
    return chain.model((3, 2, 5), opset=17, x_type="uint8")


def instance_norm() -> ModelProto:
    """The same of the channels of an image."""
    chain = Chain()
    constants = [chain.constant("gamma", scale([0.5, -1.25])), chain.constant("beta", scale([0.25, 0]))]
    normal = chain.node("InstanceNormalization", [chain.dequantize("x", A), *constants], "normal", epsilon=1e-4)
    chain.quantize(normal, B, "y")
    return chain.model(IMAGE, x_type="uint8")


def function(name: str) -> ModelProto:
    """A function of codes: float between DequantizeLinear and QuantizeLinear."""
    model = between_codes(name, np.float32(0.05), np.int8(3), np.float32(0.07), np.int8(-20))
    return ModelProto.FromString(model)


def conv_transpose() -> ModelProto:
    """A larger image of codes."""
    chain = Chain()
    weights = chain.constant("w", random_weights((2, 3, 3, 3)))
    taps = chain.dequantize(weights, (scale([0.01, 0.02, 0.03]), zero([0, 0, 0], "int8")), axis=1)
    inputs = [chain.dequantize("x", A), taps, chain.constant("bias", scale([0.5, 0, -0.5]))]
    large = chain.node("ConvTranspose", inputs, "large", strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[0, 1])
    chain.quantize(large, B, "y")
    return chain.model(IMAGE, x_type="uint8")


def of_codes(op_type: str, meaning: Meaning = A, **attributes: Any) -> ModelProto:
    """An operator that reads a tensor of codes, or two."""
    chain = Chain()
    reads = [chain.through("x", meaning)] * (2 if op_type == "Sub" else 1)
    chain.quantize(chain.node(op_type, reads, "result", **attributes), WIDE if meaning is WIDE else B, "y")
    return chain.model(IMAGE)


def lstm_of_codes() -> ModelProto:
    """An LSTM with a scale for each row of W, and one for R."""
    chain = Chain()
    rows = (np.full(16, 0.01, np.float32), np.full(16, 100, np.uint8))
    w = chain.weights("w", random_weights((1, 16, 5), "uint8"), rows, axis=1)
    chain.node("LSTM", ["x", w, chain.weights("r", random_weights((1, 16, 4)), (0.02, None))], "y", hidden_size=4)
    return chain.model((3, 2, 5), opset=14)


def branches() -> ModelProto:
    """Numbers or their absolute values, as the largest of them says."""
    chain = Chain()
    largest = chain.node("ReduceMax", ["x"], "largest", keepdims=0)
    condition = chain.node("Greater", [largest, chain.constant("limit", scale(1))], "condition")
    results = [helper.make_tensor_value_info("r", TensorProto.FLOAT, IMAGE)]
    graphs = {
        name: helper.make_graph([helper.make_node(op_type, ["x"], ["r"])], name, [], results)
        for name, op_type in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    chain.node("If", [condition], "y", **graphs)
    return chain.model(IMAGE)


OF_CODES: Mapping[str, Any] = {
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool of 16 bits": partial(of_codes, "GlobalAveragePool", WIDE),
    "InstanceNormalization": instance_norm,
    "LSTM": lstm_of_codes,
    "LayerNormalization": layer_norm,
    "ReduceMean": partial(of_codes, "ReduceMean", axes=[1, -1]),
    "ReduceSum": partial(of_codes, "ReduceSum", keepdims=0),
    "Sub of 16 bits": partial(of_codes, "Sub", WIDE),
}
"""Operators whose inputs, or weights, are dequantized."""

FOLDED: Mapping[str, tuple[Mapping[str, Spec], Mapping[str, Any]]] = {
    "ConstantOfShape": ({"shape": ints(1, 1, 4, 5)}, {}),
    "Expand": ({"a": scale(2), "shape": ints(1, 1, 4, 5)}, {}),
    "Gather": ({"a": scale([1, 2, 3]), "indices": ints(2)}, {}),
    "Neg": ({"a": scale([1, 2, 3, 4, 5])}, {}),
    "Pad": ({"a": scale([1, 2, 3]), "pads": ints(1, 1)}, {}),
    "Range": ({"start": scale(1), "limit": scale(6), "delta": scale(1)}, {}),
    "Slice": ({"a": scale([1, 2, 3]), "starts": ints(1), "ends": ints(2)}, {}),
    "Unsqueeze": ({"a": scale([1, 2, 3, 4, 5]), "axes": ints(0)}, {}),
}
"""Operators that are computed when a model is compiled; their result is added to an input."""

_FLOAT_WEIGHTS = random_weights((3, 2, 2, 2), "float32")

CONVOLUTIONS: Mapping[str, Any] = {
    "QLinearConv": partial(qlinear_conv, IMAGE, random_weights((3, 2, 2, 2)), w_scale=[0.01, 0.02, 0.03],
                           w_zero_point=[0, 0, 0], bias=[1, 200, -300], pads=[1, 0, 0, 1]),
    "QLinearConv of uint8 weights": partial(qlinear_conv, IMAGE, random_weights((2, 1, 3, 3), "uint8"), group=2,
                                            w_zero_point=120, auto_pad="SAME_UPPER"),
    "NHWC QLinearConv": partial(qlinear_conv, (1, 4, 5, 2), random_weights((3, 2, 2, 2)), domain=NHWC),
    "microsoft QLinearConv": partial(qlinear_conv, IMAGE, random_weights((3, 2, 2, 2)), domain=MICROSOFT),
    "ConvInteger": partial(conv_integer, IMAGE, random_weights((3, 2, 2, 2)), x_zero_point=3),
    "Conv": partial(float_conv, IMAGE, _FLOAT_WEIGHTS, scale([1, 2, 3]), strides=[1, 2]),
    "FusedConv": partial(float_conv, IMAGE, _FLOAT_WEIGHTS, op_type="FusedConv", domain=MICROSOFT,
                         activation="HardSigmoid", activation_params=[0.3, 0.4]),
    "NhwcFusedConv": partial(float_conv, (1, 4, 5, 2), _FLOAT_WEIGHTS, op_type="NhwcFusedConv", domain=MICROSOFT,
                             activation="Relu"),
    "NHWC Conv": partial(float_conv, (1, 4, 5, 2), _FLOAT_WEIGHTS, domain=NHWC),
    "Conv of double": partial(float_conv, IMAGE, _FLOAT_WEIGHTS.astype(np.float64), replace={"X": ("double", IMAGE)}),
    "Conv of float16": partial(float_conv, IMAGE, _FLOAT_WEIGHTS.astype(np.float16), replace={"X": ("float16", IMAGE)}),
}  # fmt: skip


def operator_models() -> dict[str, ModelProto]:
    """A model for every operator, by a name that says which."""
    found = {
        f"{domain} {op_type}".strip(): node_model(op_type, operands, domain=domain, **attributes)
        for (domain, op_type), (operands, attributes) in NODES.items()
    }
    # node_model takes opset as the model's.
    found[f"{MICROSOFT} QLinearSoftmax"].graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    found |= {name: node_model(op_type, operands, **rest) for name, (op_type, operands, rest) in COMPUTED.items()}
    found |= {name: build() for name, build in CONVOLUTIONS.items()}
    found |= {f"{name} of codes": build() for name, build in OF_CODES.items()}
    found["activations of 16 bits"] = network_16_bits()
    found["If"] = branches()
    found |= {f"table of {name}": function(name) for name in (*FUNCTIONS, *OF_CHANNELS)}
    return found | {f"folded {op_type}": _folded(op_type, *rest) for op_type, rest in FOLDED.items()}


def _folded(op_type: str, operands: Mapping[str, Spec], attributes: Mapping[str, Any]) -> ModelProto:
    """The operator's result, which is constant, added to an input."""
    model = node_model(op_type, operands, **attributes)
    sum_ = node_model("Add", {"X": ("float", IMAGE), "y": None}, {"sum": None}, node_name="sum")
    sum_.graph.node[0].input[1] = "y"
    model.graph.node.append(sum_.graph.node[0])
    model.graph.input.append(sum_.graph.input[0])
    model.graph.output[0].name = "sum"
    return model
