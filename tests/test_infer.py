"""Inference: types and shapes of every operator, of whole networks, and of malformed nodes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from marks import share_at_first
from models import (
    MICROSOFT,
    NHWC,
    conv_integer,
    float_conv,
    graph_if_spelt_well,
    graph_model,
    node_model,
    qlinear_conv,
    random_weights,
)
from onnx import helper

from qcgen.infer import RULES, infer
from qcgen.ir.types import DType
from qcgen.load import load
from qcgen.rewrite import rewrite

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"

F = "float"


def ints(*values):
    return np.array(values, np.int64)


def numbers(*values):
    return np.array(values, np.float32)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


def coded(name, spec=None, dtype="int8"):
    """Codes, constant or of a declared shape, their scale and their zero point; these two alone of an output."""
    parameters = {f"{name}s": scalar(1), f"{name}z": scalar(0, dtype)}
    return parameters if spec is None else {name: spec, **parameters}


W = np.zeros((6, 3, 3, 2), np.float32)
IMAGE = (F, (2, 3, 11, 8))
POOL = {"kernel_shape": [3, 2]}

# Operators that onnx itself can infer, so that it can be the judge: operator, operands, attributes, opset.
CASES = {
    "conv": ("Conv", {"X": IMAGE, "W": W}, {}, 13),
    "conv with attributes": (
        "Conv",
        {"X": IMAGE, "W": W},
        {"strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 3, 2], "kernel_shape": [3, 2]},
        13,
    ),
    "conv same upper": ("Conv", {"X": IMAGE, "W": W}, {"auto_pad": "SAME_UPPER", "strides": [2, 3]}, 13),
    "conv same lower": ("Conv", {"X": IMAGE, "W": W}, {"auto_pad": "SAME_LOWER", "strides": [3, 2]}, 13),
    "conv valid": ("Conv", {"X": IMAGE, "W": W}, {"auto_pad": "VALID", "strides": [3, 2]}, 13),
    "conv 1d": ("Conv", {"X": (F, (1, 3, 9)), "W": np.zeros((6, 3, 4), np.float32)}, {"pads": [2, 1]}, 11),
    "conv 4d": ("Conv", {"X": (F, (1, 1, 4, 5, 6, 7)), "W": np.zeros((2, 1, 2, 2, 2, 2), np.float32)}, {}, 22),
    "conv with symbolic batch": ("Conv", {"X": (F, ("N", 3, 11, 8)), "W": W}, {}, 13),
    "conv with an unknown width": ("Conv", {"X": (F, (1, 3, 11, None)), "W": W}, {}, 13),
    "max pool": ("MaxPool", {"x": IMAGE}, {**POOL, "strides": [2, 2]}, 13),
    "max pool ceil": ("MaxPool", {"x": IMAGE}, {**POOL, "strides": [3, 3], "ceil_mode": 1}, 13),
    "max pool ceil padded": (
        "MaxPool",
        {"x": IMAGE},
        {**POOL, "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        22,
    ),
    "max pool dilated": ("MaxPool", {"x": IMAGE}, {**POOL, "dilations": [2, 3]}, 13),
    "average pool same": ("AveragePool", {"x": IMAGE}, {**POOL, "strides": [2, 2], "auto_pad": "SAME_UPPER"}, 13),
    "average pool ceil": ("AveragePool", {"x": IMAGE}, {**POOL, "strides": [3, 3], "ceil_mode": 1}, 19),
    "global average pool": ("GlobalAveragePool", {"x": IMAGE}, {}, 13),
    "global max pool": ("GlobalMaxPool", {"x": IMAGE}, {}, 13),
    "reduce mean": ("ReduceMean", {"x": IMAGE}, {"axes": [2, -1]}, 13),
    "reduce mean without dims": ("ReduceMean", {"x": IMAGE, "axes": ints(2, 3)}, {"keepdims": 0}, 18),
    "reduce mean of all": ("ReduceMean", {"x": IMAGE}, {}, 13),
    "reduce mean of none": ("ReduceMean", {"x": IMAGE}, {"noop_with_empty_axes": 1}, 18),
    "add broadcast": ("Add", {"a": (F, (2, 1, 4)), "b": (F, (3, 1))}, {}, 13),
    "mul scalar": ("Mul", {"a": (F, (2, 3)), "b": scalar(2)}, {}, 13),
    "sub": ("Sub", {"a": ("int32", (4,)), "b": ("int32", (4,))}, {}, 13),
    "div": ("Div", {"a": (F, (4,)), "b": (F, (1,))}, {}, 13),
    "matmul": ("MatMul", {"a": (F, (5, 1, 2, 3)), "b": (F, (4, 3, 7))}, {}, 13),
    "matmul vector": ("MatMul", {"a": (F, (3,)), "b": (F, (4, 3, 7))}, {}, 13),
    "matmul by vector": ("MatMul", {"a": (F, (4, 2, 3)), "b": (F, (3,))}, {}, 13),
    "matmul integer": ("MatMulInteger", {"a": ("uint8", (2, 3)), "b": ("int8", (3, 4))}, {}, 13),
    "gemm": ("Gemm", {"a": (F, (2, 3)), "b": (F, (3, 4)), "c": (F, (4,))}, {}, 13),
    "gemm transposed": ("Gemm", {"a": (F, (3, 2)), "b": (F, (4, 3))}, {"transA": 1, "transB": 1}, 13),
    "transpose": ("Transpose", {"x": IMAGE}, {"perm": [0, 2, 3, 1]}, 13),
    "transpose reversed": ("Transpose", {"x": IMAGE}, {}, 13),
    "reshape": ("Reshape", {"x": IMAGE, "s": ints(0, -1, 8)}, {}, 13),
    "reshape symbolic": ("Reshape", {"x": (F, ("N", 4, 2)), "s": ints(0, 8)}, {}, 13),
    "reshape allowzero": ("Reshape", {"x": (F, (0, 4)), "s": ints(3, 0)}, {"allowzero": 1}, 14),
    "flatten": ("Flatten", {"x": IMAGE}, {}, 13),
    "flatten at 0": ("Flatten", {"x": IMAGE}, {"axis": 0}, 13),
    "flatten at -1": ("Flatten", {"x": IMAGE}, {"axis": -1}, 13),
    "flatten at the end": ("Flatten", {"x": IMAGE}, {"axis": 4}, 13),
    "squeeze": ("Squeeze", {"x": (F, (1, 3, 1, 1))}, {"axes": [-1, 2]}, 11),
    "squeeze by input": ("Squeeze", {"x": (F, (1, 3, 1, 1)), "axes": ints(0)}, {}, 13),
    "squeeze all": ("Squeeze", {"x": (F, (1, 3, 1, 1))}, {}, 13),
    "unsqueeze": ("Unsqueeze", {"x": (F, (3, 4)), "axes": ints(0, -1)}, {}, 13),
    "unsqueeze of old": ("Unsqueeze", {"x": (F, (3, 4))}, {"axes": [1, 3]}, 11),
    "concat": ("Concat", {"a": (F, (1, 2, 4)), "b": (F, (1, 3, 4))}, {"axis": 1}, 13),
    "concat from behind": ("Concat", {"a": (F, (1, 2)), "b": (F, (1, 2))}, {"axis": -1}, 13),
    "slice": ("Slice", {"x": IMAGE, "s": ints(1, -9), "e": ints(100, -1), "a": ints(2, 3), "t": ints(3, 1)}, {}, 13),
    "slice down": ("Slice", {"x": (F, (7,)), "s": ints(-1), "e": ints(-(2**63)), "a": ints(0), "t": ints(-2)}, {}, 13),
    "slice of old": ("Slice", {"x": IMAGE}, {"starts": [1, 2], "ends": [2, -1], "axes": [0, 2]}, 9),
    "pad": ("Pad", {"x": IMAGE, "p": ints(0, 0, 1, 2, 0, 0, 3, -4)}, {}, 13),
    "pad by axes": ("Pad", {"x": IMAGE, "p": ints(1, 2), "v": None, "a": ints(-1)}, {}, 18),
    "pad of old": ("Pad", {"x": IMAGE}, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}, 10),
    "resize by scales": ("Resize", {"x": IMAGE, "r": None, "s": numbers(1, 1, 2, 0.6)}, {}, 13),
    "resize by sizes": ("Resize", {"x": IMAGE, "r": None, "s": None, "z": ints(2, 3, 5, 20)}, {}, 13),
    "resize of old": ("Resize", {"x": IMAGE, "s": numbers(1, 1, 2, 2)}, {}, 10),
    "resize by axes": ("Resize", {"x": IMAGE, "r": None, "s": None, "z": ints(5, 20)}, {"axes": [2, 3]}, 18),
    "cast": ("Cast", {"x": IMAGE}, {"to": onnx.TensorProto.INT8}, 13),
    "relu": ("Relu", {"x": IMAGE}, {}, 13),
    "clip": ("Clip", {"x": IMAGE, "low": None, "high": np.array(6, np.float32)}, {}, 13),
    "identity": ("Identity", {"x": ("int8", ("N", 2))}, {}, 13),
    "softmax": ("Softmax", {"x": IMAGE}, {}, 13),
    "sigmoid": ("Sigmoid", {"x": IMAGE}, {}, 13),
    "hard sigmoid": ("HardSigmoid", {"x": IMAGE}, {}, 13),
    "hard swish": ("HardSwish", {"x": IMAGE}, {}, 14),
    "leaky relu": ("LeakyRelu", {"x": IMAGE}, {}, 13),
    "tanh": ("Tanh", {"x": IMAGE}, {}, 13),
    "neg": ("Neg", {"x": IMAGE}, {}, 13),
    "gather": ("Gather", {"x": IMAGE, "i": ints(0, 2)}, {"axis": 1}, 13),
    "shape": ("Shape", {"x": IMAGE}, {}, 13),
    "shape of some": ("Shape", {"x": IMAGE}, {"start": 1, "end": -1}, 15),
    "expand": ("Expand", {"x": (F, (3, 1)), "s": ints(2, 1, 4)}, {}, 13),
    "constant of shape": ("ConstantOfShape", {"s": ints(2, 3)}, {}, 13),
    "quantize": ("QuantizeLinear", {"x": IMAGE, "s": scalar(1), "z": scalar(0, np.int8)}, {}, 13),
    "quantize to the default": ("QuantizeLinear", {"x": IMAGE, "s": scalar(1)}, {}, 13),
    "quantize to a named type": (
        "QuantizeLinear",
        {"x": IMAGE, "s": scalar(1)},
        {"output_dtype": onnx.TensorProto.INT8},
        21,
    ),
    "dequantize": ("DequantizeLinear", {"x": ("int8", (2, 3)), "s": scalar(1)}, {}, 13),
    "qlinear matmul": (
        "QLinearMatMul",
        {**coded("a", ("uint8", (2, 3)), "uint8"), **coded("b", ("int8", (3, 5))), **coded("y", dtype="uint8")},
        {},
        21,
    ),
}


def dims_of(info):
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_inferred_as_onnx_infers_it(name):
    op_type, operands, attributes, opset = CASES[name]
    model = node_model(op_type, operands, opset=opset, **attributes)
    judged = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output[0]
    y = infer(load(model)).value("y")
    assert y.dtype is not None
    assert (
        y.dtype.value == {1: "float", 2: "uint8", 3: "int8", 6: "int32", 7: "int64"}[judged.type.tensor_type.elem_type]
    )
    assert tuple(dim if isinstance(dim, int) else None for dim in y.shape) == dims_of(judged)


QUANTIZED = {"s": scalar(1), "z": scalar(0, np.int8)}
BOTH = {**coded("a", ("int8", (2, 1, 4))), **coded("b", ("int8", (3, 1))), **coded("c")}
IN = {**coded("x", ("int8", (2, 3, 8, 8))), **coded("c")}
PRODUCT = coded("a", ("uint8", (1, 8)), "uint8")

# Operators that onnx does not know: operator, domain, operands, attributes, type and shape.
MORE_CASES = {
    "qlinear add": ("QLinearAdd", MICROSOFT, BOTH, {}, "int8", (2, 3, 4)),
    "qlinear mul": ("QLinearMul", MICROSOFT, BOTH, {}, "int8", (2, 3, 4)),
    "qlinear concat": (
        "QLinearConcat",
        MICROSOFT,
        {**coded("c"), **coded("p", ("int8", (1, 2, 3))), **coded("q", ("int8", (1, 5, 3)))},
        {"axis": 1},
        "int8",
        (1, 7, 3),
    ),
    "qlinear global average pool": ("QLinearGlobalAveragePool", MICROSOFT, IN, {}, "int8", (2, 3, 1, 1)),
    "the same, channels last": (
        *("QLinearGlobalAveragePool", MICROSOFT, IN, {"channels_last": 1}, "int8", (2, 1, 1, 8)),
    ),
    "qlinear average pool": (
        "QLinearAveragePool",
        MICROSOFT,
        IN,
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        "int8",
        (2, 3, 4, 4),
    ),
    "qlinear sigmoid": ("QLinearSigmoid", MICROSOFT, IN, {}, "int8", (2, 3, 8, 8)),
    "qlinear leaky relu": ("QLinearLeakyRelu", MICROSOFT, IN, {"alpha": 0.1}, "int8", (2, 3, 8, 8)),
    "qlinear softmax": ("QLinearSoftmax", MICROSOFT, IN, {"axis": 1, "opset": 13}, "int8", (2, 3, 8, 8)),
    "qgemm": (
        "QGemm",
        MICROSOFT,
        {**PRODUCT, **coded("b", np.zeros((4, 8), np.int8)), "c": None, **coded("y", dtype="uint8")},
        {"transB": 1},
        "uint8",
        (1, 4),
    ),
    "qgemm to float": ("QGemm", MICROSOFT, PRODUCT | coded("b", np.zeros((8, 4), np.int8)), {}, "float", (1, 4)),
    "microsoft quantize": ("QuantizeLinear", MICROSOFT, {"x": IMAGE, **QUANTIZED}, {}, "int8", (2, 3, 11, 8)),
    "microsoft dequantize": ("DequantizeLinear", MICROSOFT, {"x": ("int8", (2,)), **QUANTIZED}, {}, "float", (2,)),
    "max pool, channels last": ("MaxPool", NHWC, {"x": (F, (1, 9, 8, 5))}, POOL, "float", (1, 7, 7, 5)),
    "nhwc max pool": ("NhwcMaxPool", MICROSOFT, {"x": ("int8", (1, 9, 8, 5))}, POOL, "int8", (1, 7, 7, 5)),
    "global pool, channels last": ("GlobalAveragePool", NHWC, {"x": (F, (1, 9, 8, 5))}, {}, "float", (1, 1, 1, 5)),
}


@pytest.mark.parametrize("name", MORE_CASES)
def test_an_operator_outside_onnx_is_inferred(name):
    op_type, domain, operands, attributes, dtype, shape = MORE_CASES[name]
    y = infer(load(node_model(op_type, operands, domain=domain, **attributes))).value("y")
    assert (y.dtype, y.shape) == (DType(dtype), shape)


WEIGHTS = random_weights((6, 2, 3, 2))
FLOATS = random_weights((6, 2, 3, 2), "float32")


@pytest.mark.parametrize(
    ("model", "dtype", "shape"),
    [
        (qlinear_conv((2, 4, 8, 8), WEIGHTS, group=2, y_type="int8"), "int8", (2, 6, 6, 7)),
        (qlinear_conv((2, 4, 8, 8), WEIGHTS, group=2, y_type="uint8", pads=[1, 0, 1, 1]), "uint8", (2, 6, 8, 8)),
        (qlinear_conv((2, 8, 9, 4), WEIGHTS, group=2, domain=NHWC), "uint8", (2, 6, 8, 6)),
        (qlinear_conv((2, 8, 9, 4), WEIGHTS, group=2, domain=MICROSOFT, channels_last=1), "uint8", (2, 6, 8, 6)),
        (qlinear_conv((2, 4, 8, 9), WEIGHTS, group=2, domain=MICROSOFT), "uint8", (2, 6, 6, 8)),
        (qlinear_conv((2, 4, 8, 9), WEIGHTS, group=2, domain=MICROSOFT, channels_last=0), "uint8", (2, 6, 6, 8)),
        (conv_integer((2, 4, 8, 8), WEIGHTS, group=2), "int32", (2, 6, 6, 7)),
        (float_conv((2, 8, 9, 4), FLOATS, group=2, domain=NHWC), "float", (2, 6, 8, 6)),
        (float_conv((2, 4, 8, 9), FLOATS, group=2, domain=MICROSOFT, op_type="FusedConv"), "float", (2, 6, 6, 8)),
        (float_conv((2, 8, 9, 4), FLOATS, group=2, domain=MICROSOFT, op_type="NhwcFusedConv"), "float", (2, 6, 8, 6)),
        # SAME with a dilation, and a stride larger than the kernel, as the specification has them
        (float_conv((1, 2, 9, 9), FLOATS, auto_pad="SAME_UPPER", dilations=[2, 3]), "float", (1, 6, 9, 9)),
        (float_conv((1, 2, 9, 9), FLOATS, auto_pad="SAME_LOWER", strides=[5, 4]), "float", (1, 6, 2, 3)),
        # a kernel larger than the image: no window fits
        (float_conv((1, 2, 2, 9), FLOATS), "float", (1, 6, 0, 8)),
        (float_conv((1, 2, 1, 9), FLOATS, strides=[3, 1]), "float", (1, 6, 0, 8)),
    ],
)
def test_convolutions_of_every_spelling_are_inferred(model, dtype, shape):
    y = infer(load(model)).value("y")
    assert (y.dtype, y.shape) == (DType(dtype), shape)


def test_outputs_besides_the_first_are_inferred():
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled", "indices"], kernel_shape=[2, 2]),
        helper.make_node("Dropout", ["x"], ["kept", "mask"]),
        helper.make_node("Split", ["x"], ["s1", "s2"], axis=1, split=[2, 3]),
        helper.make_node("Split", ["x"], ["e1", "", "e3"], axis=1),
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
    ]
    outputs = ["pooled", "indices", "kept", "mask", "s1", "s2", "e1", "e3", "q", "scale", "zero"]
    graph = infer(load(graph_model(nodes, {"x": (F, (1, 5, 4, 4))}, dict.fromkeys(outputs), opset=12)))
    found = {name: (graph.value(name).dtype.value, graph.value(name).shape) for name in outputs}
    assert found == {
        "pooled": ("float", (1, 5, 3, 3)),
        "indices": ("int64", (1, 5, 3, 3)),
        "kept": ("float", (1, 5, 4, 4)),
        "mask": ("bool", (1, 5, 4, 4)),
        "s1": ("float", (1, 2, 4, 4)),
        "s2": ("float", (1, 3, 4, 4)),
        "e1": ("float", (1, 2, 4, 4)),
        "e3": ("float", (1, 1, 4, 4)),
        "q": ("uint8", (1, 5, 4, 4)),
        "scale": ("float", ()),
        "zero": ("uint8", ()),
    }


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("Pad", {"x": IMAGE, "p": ("int64", (8,))}),
        ("Resize", {"x": IMAGE, "r": None, "s": numbers(1, 1, 2, 2), "z": ("int64", (4,))}),
        ("Slice", {"x": IMAGE, "s": ints(1), "e": ints(2), "a": ("int64", (1,))}),
        ("Slice", {"x": IMAGE, "s": ints(1), "e": ints(2), "a": ints(0), "t": ("int64", (1,))}),
        ("Tile", {"x": IMAGE, "r": ("int64", (4,))}),
    ],
)
def test_only_the_number_of_axes_is_known_where_an_operand_is_computed(op_type, operands):
    y = infer(load(node_model(op_type, operands))).value("y")
    assert (y.dtype, y.shape) == (DType.FLOAT32, (None, None, None, None))


def test_a_symbolic_dimension_is_passed_on_by_its_name():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Flatten", ["b"], ["y"]),
    ]
    model = graph_model(nodes, {"x": (F, ("N", 2, 3))}, {"y": None}, {"s": ints(-1, 6, 1)})
    graph = infer(load(model))
    assert graph.value("b").shape == ("N", 6, 1)
    assert graph.value("y").shape == ("N", 6)


def test_a_declaration_fills_what_no_rule_tells_and_is_kept_where_it_contradicts():
    nodes = [helper.make_node("Mystery", ["x"], ["a"], domain="own"), helper.make_node("Relu", ["a"], ["y"])]
    values = {"a": ("int8", (3, 4)), "y": ("float", (3, 5))}
    model = graph_model(nodes, {"x": (F, (1,))}, {"y": values["y"]}, opsets={"own": 1}, values={"a": values["a"]})
    graph = infer(load(model))
    assert (graph.value("a").dtype, graph.value("a").shape) == (DType.INT8, (3, 4))
    assert (graph.value("y").dtype, graph.value("y").shape) == (DType.FLOAT32, (3, 5))


def test_inference_is_idempotent():
    graph = infer(load(qlinear_conv((1, 2, 8, 8), random_weights((4, 2, 3, 3)))))
    assert infer(graph) == graph


@pytest.mark.parametrize("key", share_at_first(list(RULES)))
@pytest.mark.parametrize("inputs", [0, 1, 3, 9])
@pytest.mark.parametrize("attributes", [{}, {"axis": 99, "perm": [5], "axes": [7], "to": -3, "kernel_shape": [0]}])
def test_no_malformed_node_raises(key, inputs, attributes):
    domain, op_type = key
    attributes = attributes or {"axis": "a", "perm": 1.5, "axes": ["b"], "to": [1], "kernel_shape": [2.5], "pads": [1]}
    for shape in ((), (2, 3), (1, 2, 3, 4), None):
        operands = {f"i{index}": (F, shape) for index in range(inputs)}
        model = node_model(op_type, operands, domain=domain, **attributes)
        graph = graph_if_spelt_well(model)
        assert graph is None or set(infer(graph).values) >= set(operands)


def test_nothing_is_known_behind_an_operator_without_a_rule():
    model = graph_model([helper.make_node("Mystery", ["x"], ["y"])], {"x": (F, (1,))}, {"y": None})
    y = infer(load(model)).value("y")
    assert (y.dtype, y.shape) == (None, None)


@pytest.mark.parametrize(
    "path", sorted(MODELS.glob("*.onnx")) or [None], ids=lambda path: path.stem if path else "none"
)
def test_every_tensor_of_real_networks_is_inferred(path):
    if path is None:
        pytest.skip("the models are not there: no directory shared/models beside the repository")
    graph = rewrite(load(path))
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            assert graph.value(name).dtype is not None, name
            assert graph.value(name).fixed_shape is not None, name
