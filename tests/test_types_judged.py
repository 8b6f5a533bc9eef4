"""Types around quantized networks: casts, truth values, float16, 4 bits, scales by axis. All judged by onnxruntime."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from batch import require
from judged import assert_judged
from models import ELEMENTS, MICROSOFT, graph_model, node_model
from onnx import ModelProto, TensorProto, helper

import qcgen
from qcgen.ir.program import Conv, Requantize
from qcgen.verification import verify

RNG = np.random.default_rng(5)
NUMBERS = ("int8", "uint8", "int16", "uint16", "int32", "int64", "bool", "float16", "float", "double")
INTO = ("int8", "uint8", "int16", "uint16", "int32", "int64", "bool")


def numbers(name: str) -> np.ndarray:
    """Numbers of every size that a type has, its ends and what is beside them."""
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    ends = [sign * 2**bit + by for bit in range(64) for sign in (1, -1) for by in (-257, -1, 0, 1, 256)]
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([min(max(end, info.min), info.max) for end in ends], object).astype(dtype)
    with np.errstate(over="ignore"):
        of_all = [np.array(ends, np.float64) + by for by in (-0.5, 0, 0.75)]
        return np.concatenate([*of_all, [np.nan, np.inf, -np.inf]]).astype(dtype)


@pytest.mark.parametrize("before", NUMBERS)
def test_casts_to_integers_are_onnxruntimes(before):
    """Also of what does not fit, where C leaves the result open: as on x86-64, and without undefined behaviour."""
    x, names = numbers(before), [name for name in INTO if name != before]
    nodes = [helper.make_node("Cast", ["x"], [name], name=name, to=ELEMENTS[name]) for name in names]
    model = graph_model(nodes, {"x": (before, x.shape)}, {name: (name, x.shape) for name in names})
    checked = ("-O1", "-fsanitize=undefined,float-cast-overflow", "-fsanitize-undefined-trap-on-error")
    assert_judged(model, {"x": x}, flags=checked)


@pytest.mark.parametrize("is_second", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_compare_with_constants_as_in_onnxruntime(dtype, is_second):
    """Also those that float32 has not: the constants are less than 2^24 away from 0."""
    x, limits = numbers(dtype), np.array([[0], [5], [-3], [2**24 - 1], [1 - 2**24]], dtype)
    inputs = ["x", "limits"] if is_second else ["limits", "x"]
    kinds = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    nodes = [helper.make_node(kind, inputs, [kind], name=kind) for kind in kinds]
    outputs = {kind: ("bool", (len(limits), x.size)) for kind in kinds}
    model = graph_model(nodes, {"x": (dtype, x.shape)}, outputs, {"limits": limits}, opset=16)
    assert_judged(model, {"x": x})


def test_integers_do_not_compare_with_constants_that_float32_has_not():
    node = helper.make_node("Equal", ["x", "limit"], ["y"], name="same")
    model = graph_model([node], {"x": ("int64", (3,))}, {"y": None}, {"limit": np.int64([2**24])}, opset=16)
    with pytest.raises(qcgen.ModelRejected, match="A is int64"):
        qcgen.compile(model, name="net")


def chain(*steps, shape=(3, 4), **constants) -> ModelProto:
    """Nodes (operator, inputs, output, attributes) of float inputs a and b, and m of bool, as far as they are read."""
    nodes = [
        helper.make_node(op, x.split(), y.split(), name=y, **(rest[0] if rest else {})) for op, x, y, *rest in steps
    ]
    read_names = {name for node in nodes for name in node.input}
    inputs = {name: ("bool" if name == "m" else "float", shape) for name in "abm" if name in read_names}
    own = {name: np.asarray(value) for name, value in constants.items()}
    return graph_model(nodes, inputs, {"y": None}, own, opset=21, ir_version=10)


HALF, ZERO = np.float32(0.5), np.int8(3)
MASK = np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 0]], bool)
AXIS = {"s": np.float32([0.01, 0.02, 0.005, 0.04]), "z": np.int8([3, 3, 3, 3])}


def depthwise(relu: bool = True) -> ModelProto:
    """As NNCF writes it: inputs and outputs of a depthwise convolution with a scale for each channel."""
    w = RNG.integers(-127, 128, (4, 1, 3, 3)).astype(np.int8)
    steps = [
        ("QuantizeLinear", "a s z", "q", {"axis": 1}), ("DequantizeLinear", "q s z", "x", {"axis": 1}),
        ("DequantizeLinear", "w ws", "taps", {"axis": 0}),
        ("Conv", "x taps bias", "c", {"group": 4, "pads": [1, 1, 1, 1]}), ("Relu", "c", "r"),
        ("QuantizeLinear", "r s z" if relu else "c s z", "y", {"axis": 1}),
    ]  # fmt: skip
    constants = {"w": w, "ws": np.float32([0.01, 0.02, 0.03, 0.005]), "bias": np.float32([0.1, -0.2, 0, 0.03])}
    kept = [step for step in steps if relu or step[0] != "Relu"]
    return chain(*kept, shape=(1, 4, 6, 5), **AXIS, **constants)


def convolution(**kind: int) -> ModelProto:
    """A convolution of all channels behind codes with several scales, which integers cannot add up."""
    scales = np.float32([0.01, 0.02, 0.005, 0.04]) if not kind else RNG.uniform(0.01, 0.04, (1, 2, 6, 5)).astype("f")
    steps = [
        ("QuantizeLinear", "a by", "q", {"axis": 1, **kind}), ("DequantizeLinear", "q by", "x", {"axis": 1, **kind}),
        ("DequantizeLinear", "w ws", "taps", {"axis": 0}), ("Conv", "x taps", "c"), ("QuantizeLinear", "c s", "y"),
    ]  # fmt: skip
    w = RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
    return chain(*steps, shape=(1, 4, 6, 5), by=scales, s=np.float32(0.02), w=w, ws=np.float32([0.01, 0.02, 0.03]))


def in_float16() -> ModelProto:
    """As NVIDIA's modelopt writes it: codes of float16 numbers, by float16 scales."""
    w = RNG.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8)
    constants = {
        "s": np.float16(0.02), "z": np.int8(0), "w": w, "ws": RNG.uniform(0.003, 0.01, 8).astype(np.float16),
        "bias": RNG.normal(size=8).astype(np.float16), "ys": np.float16(0.03),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xs"], name="xs"),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["taps"], name="taps", axis=0),
        helper.make_node("Conv", ["xs", "taps", "bias"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="r"),
        helper.make_node("QuantizeLinear", ["r", "ys", "z"], ["y"], name="y"),
    ]
    given = {name: np.asarray(value) for name, value in constants.items()}
    return graph_model(nodes, {"x": ("float16", (1, 3, 8, 8))}, {"y": None}, given, opset=21, ir_version=10)


def dynamic_in_parts() -> ModelProto:
    """What DynamicQuantizeLinear is short for, and the product behind it."""
    return chain(
        ("ReduceMin", "a", "low", {"keepdims": 0}), ("Min", "low zero", "lowest"),
        ("ReduceMax", "a", "high", {"keepdims": 0}), ("Max", "zero high", "highest"),
        ("Sub", "highest lowest", "range"), ("Div", "range most", "scale"),
        ("Div", "lowest scale", "steps"), ("Sub", "zero steps", "place"), ("Clip", "place zero most", "inside"),
        ("Round", "inside", "whole"), ("Cast", "whole", "code", {"to": TensorProto.UINT8}),
        ("QuantizeLinear", "a scale code", "q"), ("MatMulInteger", "q w code", "sums"),
        ("Cast", "sums", "number", {"to": TensorProto.FLOAT}), ("Mul", "number scale", "y"),
        zero=np.float32(0), most=np.float32(255), w=RNG.integers(-127, 128, (4, 5)).astype(np.int8),
    )  # fmt: skip


def of_4_bits() -> ModelProto:
    """Codes of 4 bits of a computed tensor: a byte each."""
    nodes = [
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="y"),
    ]
    model = graph_model(nodes, {"a": ("float", (3, 8))}, {"y": None}, {"s": np.asarray(HALF)}, opset=21, ir_version=10)
    model.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, [], [1]))
    return model


def weights_in_blocks(bits: int, *, has_zeros: bool) -> ModelProto:
    """MatMulNBits of 41 numbers in blocks of 16: the last one is cut."""
    packed = RNG.integers(0, 256, (6, 3, 2 * bits)).astype(np.uint8)
    operands = {"a": ("float", (3, 41)), "b": packed, "s": RNG.uniform(0.01, 0.02, (6, 3)).astype(np.float32)}
    zeros = RNG.integers(0, 256, (6, -(-3 * bits // 8))).astype(np.uint8)
    more = {"z": zeros if has_zeros else None, "g": None, "bias": np.float32([1, 2, 3, 4, 5, 6])}
    return node_model("MatMulNBits", {**operands, **more}, domain=MICROSOFT, K=41, N=6, bits=bits, block_size=16)


MODELS: Mapping[str, Callable[[], ModelProto]] = {
    "comparison as an output": lambda: chain(("Greater", "a b", "y")),
    "comparison cast to float": lambda: chain(("LessOrEqual", "a k", "l"), ("Cast", "l", "y", {"to": 1}), k=HALF),
    "truth values joined": lambda: chain(
        ("Less", "a k", "l"),
        ("Equal", "a b", "e"),
        ("Or", "l e", "o"),
        ("Xor", "o m", "x"),
        ("And", "x l", "n"),
        ("Not", "n", "t"),
        ("Equal", "t m", "q"),
        ("Where", "q a b", "y"),
        k=HALF,
    ),
    "choice by an input": lambda: chain(("Not", "m", "n"), ("Where", "n a k", "y"), k=HALF),
    "choice by a constant mask": lambda: chain(("Where", "mask a k", "y"), mask=MASK, k=np.float32(-1e9)),
    "mask that is moved": lambda: chain(
        ("Greater", "a k", "g"),
        ("Transpose", "g", "t"),
        ("Transpose", "t", "r"),
        ("Where", "r b k", "y"),
        k=HALF,
    ),
    "bool of numbers": lambda: chain(("Cast", "a", "c", {"to": 9}), ("Where", "c a b", "y")),
    "quantized by axis": lambda: chain(
        ("QuantizeLinear", "a s z", "q", {"axis": -1}),
        ("DequantizeLinear", "q s z", "y", {"axis": 1}),
        s=AXIS["s"],
        z=np.uint8([0, 3, 200, 255]),
    ),
    "quantized in blocks": lambda: chain(
        ("QuantizeLinear", "a s z", "q", {"axis": 1, "block_size": 3}),
        ("DequantizeLinear", "q s z", "y", {"axis": 1, "block_size": 3}),
        s=RNG.uniform(0.01, 0.1, (3, 2)).astype(np.float32),
        z=np.int8([[0, 1], [2, 3], [4, 5]]),
    ),
    "depthwise by channel": depthwise,
    "depthwise without Relu": lambda: depthwise(relu=False),
    "convolution by channel": convolution,
    "convolution in blocks": lambda: convolution(block_size=2),
    "float16 codes": in_float16,
    "dynamic quantization in parts": dynamic_in_parts,
    "codes of 4 bits": of_4_bits,
    "weights of 4 bits in blocks": lambda: weights_in_blocks(4, has_zeros=False),
    "weights of 4 bits and zero points": lambda: weights_in_blocks(4, has_zeros=True),
    "weights of 8 bits in blocks": lambda: weights_in_blocks(8, has_zeros=True),
}
"""By what they have."""

BY_ONNX = {"depthwise by channel", "depthwise without Relu", "convolution by channel", "convolution in blocks"}
"""Of these onnxruntime 1.32.0 makes a QLinearConv with several scales of its input, which it then refuses to run."""


@pytest.mark.parametrize("name", MODELS)
def test_the_c_is_what_the_judge_says(name):
    require("gcc")
    oracle = "onnx" if name in BY_ONNX else "auto"
    result = verify(qcgen.compile(MODELS[name](), name="net"), cases=4, flags=("-O0",), oracle=oracle)
    assert result.is_right, result
    assert result.judge.oracle == (oracle if name in BY_ONNX else "onnxruntime")


@pytest.mark.parametrize("name", ["depthwise by channel", "depthwise without Relu", "float16 codes"])
def test_products_between_such_codes_are_integers(name):
    products = [op for op in qcgen.compile(MODELS[name](), name="net").program.operators if isinstance(op, Conv)]
    assert products
    assert all(isinstance(op.epilogue, Requantize) for op in products)


def test_a_constant_mask_may_be_an_output_too():
    require("gcc")
    model = chain(("Where", "mask a k", "y"), mask=MASK, k=HALF)
    model.graph.output.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, MASK.shape))
    result = verify(qcgen.compile(model, name="net"), cases=2, flags=("-O0",))
    assert result.is_right, result


def test_codes_of_4_bits_saturate_at_their_ends():
    require("gcc")
    node = helper.make_node("QuantizeLinear", ["a", "s"], ["y"], name="q", output_dtype=TensorProto.INT4)
    model = graph_model([node], {"a": ("float", (7,))}, {"y": None}, {"s": np.asarray(HALF)}, opset=21, ir_version=10)
    [y] = qcgen.compile(model, name="net").load().run(None, {"a": np.float32([-9, -4, -3.9, 0.3, 3.4, 3.6, 1e9])})
    assert y.tolist() == [-8, -8, -8, 1, 7, 7, 7]


@pytest.mark.parametrize("to", ["INT4", "UINT32", "UINT64", "STRING"])
def test_other_types_are_refused(to):
    model = node_model("Cast", {"x": ("float", (3,))}, to=TensorProto.DataType.Value(to), opset=21)
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model)
    assert "(Cast): it converts float to" in str(rejection.value)


@pytest.mark.parametrize("inputs", [["a", "k"], ["k", "a"], ["a", "b"]])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_codes_are_compared_with_codes(dtype, inputs):
    require("gcc")
    node = helper.make_node("GreaterOrEqual", inputs, ["y"], name="y")
    k, a, b = (RNG.integers(0, 5, shape).astype(dtype) for shape in ((4,), (3, 4), (3, 4)))
    given = {name: each for name, each in {"a": a, "b": b}.items() if name in inputs}
    model = graph_model([node], dict.fromkeys(given, (dtype, (3, 4))), {"y": None}, {"k": k}, opset=16)
    [y] = qcgen.compile(model, name="net").load().run(None, given)
    one, other = ({"a": a, "b": b, "k": k}[name] for name in inputs)
    assert np.array_equal(y, one >= other)


@pytest.mark.parametrize("is_constant", [True, False])
def test_numbers_of_two_types_are_not_compared(is_constant):
    inputs, k = {"a": ("float", (3, 4))}, np.zeros((4,), np.uint8)
    given = (inputs, {"y": None}, {"k": k}) if is_constant else ({**inputs, "k": ("uint8", k.shape)}, {"y": None})
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(graph_model([helper.make_node("Less", ["a", "k"], ["y"], name="y")], *given))
    assert [each.what for each in rejection.value.problems] == ["its inputs have different types: float, uint8"]
