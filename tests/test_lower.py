"""Lowering: every spelling of a convolution becomes the same facts."""

import numpy as np
import pytest
from models import MICROSOFT, NHWC, conv_integer, float_conv, graph_model, problems, qlinear_conv, random_weights
from onnx import helper

from qcgen.check import check
from qcgen.ir.program import Conv, ConvGeometry, FloatActivation, OrionConv, RawAccumulator, Requantize, Slice, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.load import load
from qcgen.lower import lower
from qcgen.rewrite import rewrite

W = random_weights((4, 1, 3, 2))
FLOATS = random_weights((4, 1, 3, 2), "float32")


def program_of(model, **options):
    return lower(check(rewrite(load(model))), **options)


def conv_of(model):
    [op] = program_of(model).operators
    assert isinstance(op, Conv)
    return op


def same(array, expected):
    expected = np.asarray(expected)
    return array.dtype == expected.dtype and array.shape == expected.shape and np.array_equal(array, expected)


def test_a_qlinear_conv_with_everything_given():
    model = qlinear_conv(
        (2, 2, 9, 8),
        W,
        x_type="int8",
        y_type="uint8",
        x_scale=[0.1],
        x_zero_point=[-5],
        w_scale=[0.1, 0.2, 0.3, 0.4],
        w_zero_point=[0, 1, -1, 127],
        y_scale=0.7,
        y_zero_point=200,
        bias=[1, -2, 3, -(2**31)],
        group=2,
        strides=[2, 1],
        dilations=[1, 3],
        pads=[1, 0, 2, 5],
    )
    op = conv_of(model)
    assert (op.name, op.op_type) == ("conv1", "QLinearConv")
    first, x_scale, y_scale = Layout.CHANNELS_FIRST, float(np.float32(0.1)), float(np.float32(0.7))
    assert op.x == Tensor("x", DType.INT8, (2, 2, 9, 8), first, x_scale, -5)
    assert op.y == Tensor("y", DType.UINT8, (2, 4, 5, 10), first, y_scale, 200)
    assert op.geometry == ConvGeometry(
        batch=2,
        group=2,
        in_channels=2,
        out_channels=4,
        input=(9, 8),
        kernel=(3, 2),
        strides=(2, 1),
        dilations=(1, 3),
        pads_begin=(1, 0),
        pads_end=(2, 5),
        output=(5, 10),
    )
    assert op.x_zero_point == -5
    assert same(op.weights, W)
    assert same(op.w_zero_point, np.array([0, 1, -1, 127], np.int32))
    assert same(op.bias, np.array([1, -2, 3, -(2**31)], np.int32))
    assert isinstance(op.epilogue, Requantize)
    scale = np.float32(0.1) * np.array([0.1, 0.2, 0.3, 0.4], np.float32) / np.float32(0.7)
    assert same(op.epilogue.scale, scale)
    assert (op.epilogue.zero_point, op.epilogue.low, op.epilogue.high) == (200, 0, 255)


def test_the_scales_are_multiplied_before_they_are_divided_in_float32():
    rng = np.random.default_rng(7)
    x, y = rng.uniform(0.001, 0.1, 2).astype(np.float32)
    w = rng.uniform(0.001, 0.1, 100).astype(np.float32)
    op = conv_of(qlinear_conv((1, 1, 1, 1), random_weights((100, 1, 1, 1)), x_scale=x, w_scale=w, y_scale=y))
    expected = [np.float32(np.float32(x * scale) / y) for scale in w]
    assert op.epilogue.scale.tolist() == expected
    assert op.epilogue.scale.tolist() != [np.float32(x * np.float32(scale / y)) for scale in w]


def test_absent_and_scalar_parameters_become_one_for_each_channel():
    op = conv_of(qlinear_conv((1, 2, 9, 8), W.astype(np.uint8), w_scale=0.5, w_zero_point=255, group=2, y_type="int8"))
    assert same(op.w_zero_point, np.full(4, 255, np.int32))
    assert same(op.bias, np.zeros(4, np.int32))
    assert op.epilogue.scale.shape == (4,)
    assert (op.epilogue.low, op.epilogue.high) == (-128, 127)
    assert op.weights.dtype == np.uint8


@pytest.mark.parametrize("x_type", ["int8", "uint8"])
@pytest.mark.parametrize("w_type", ["int8", "uint8"])
def test_a_conv_integer_keeps_its_accumulators(x_type, w_type):
    w = random_weights((4, 1, 3, 2), w_type)
    op = conv_of(conv_integer((1, 2, 9, 8), w, x_type=x_type, x_zero_point=7, w_zero_point=[1, 2, 3, 4], group=2))
    assert op.epilogue == RawAccumulator()
    assert op.x == Tensor("x", DType(x_type), (1, 2, 9, 8), Layout.CHANNELS_FIRST, None, 7)
    assert op.y == Tensor("y", DType.INT32, (1, 4, 7, 7), Layout.CHANNELS_FIRST)
    assert op.x_zero_point == 7
    assert same(op.w_zero_point, np.array([1, 2, 3, 4], np.int32))
    assert same(op.bias, np.zeros(4, np.int32))


def test_a_conv_integer_without_zero_points_has_zeros():
    op = conv_of(conv_integer((1, 1, 9, 8), W))
    assert op.x_zero_point == 0
    assert same(op.w_zero_point, np.zeros(4, np.int32))
    assert op.x.zero_point == 0


def test_a_float_convolution():
    op = conv_of(float_conv((1, 2, 9, 8), FLOATS, np.arange(4, dtype=np.float32), group=2))
    assert op.x == Tensor("X", DType.FLOAT32, (1, 2, 9, 8), Layout.CHANNELS_FIRST)
    assert op.y == Tensor("y", DType.FLOAT32, (1, 4, 7, 7), Layout.CHANNELS_FIRST)
    assert same(op.weights, FLOATS)
    assert same(op.bias, np.arange(4, dtype=np.float32))
    assert op.epilogue == FloatActivation()
    assert op.x_zero_point == 0
    assert same(conv_of(float_conv((1, 1, 9, 8), FLOATS)).bias, np.zeros(4, np.float32))


@pytest.mark.parametrize("opset", [7, 11, 22])
def test_a_float_convolution_of_every_version(opset):
    assert conv_of(float_conv((1, 1, 9, 8), FLOATS, opset=opset)).geometry.output == (7, 7)


@pytest.mark.parametrize(
    "model",
    [
        float_conv((1, 9, 8, 2), FLOATS, group=2, domain=NHWC),
        float_conv((1, 9, 8, 2), FLOATS, group=2, domain=MICROSOFT, op_type="NhwcFusedConv"),
        qlinear_conv((1, 9, 8, 2), W, group=2, domain=NHWC),
        qlinear_conv((1, 9, 8, 2), W, group=2, domain=MICROSOFT, channels_last=1),
    ],
    ids=["nhwc Conv", "NhwcFusedConv", "nhwc QLinearConv", "QLinearConv channels_last"],
)
def test_channels_last_concerns_x_and_y_and_not_the_weights(model):
    op = conv_of(model)
    assert op.x.layout is op.y.layout is Layout.CHANNELS_LAST
    assert op.x.shape == (1, 9, 8, 2)
    assert op.y.shape == (1, 7, 7, 4)
    assert (op.geometry.in_channels, op.geometry.input, op.geometry.output) == (2, (9, 8), (7, 7))
    assert op.weights.shape == (4, 1, 3, 2)


@pytest.mark.parametrize("options", [{}, {"channels_last": 0}])
def test_a_qlinear_conv_of_com_microsoft_is_channels_first_unless_it_says_otherwise(options):
    op = conv_of(qlinear_conv((1, 2, 9, 8), W, group=2, domain=MICROSOFT, **options))
    assert op.x.layout is Layout.CHANNELS_FIRST
    assert op.y.shape == (1, 4, 7, 7)


def test_same_pads_that_leave_elements_out_crop_the_image():
    crop, op = program_of(qlinear_conv((1, 1, 9, 8), W, auto_pad="SAME_UPPER", strides=[8, 8])).operators
    assert isinstance(crop, Slice)
    assert (crop.starts, crop.y.shape) == ((0, 0, 0, 2), (1, 1, 9, 6))
    assert (op.x, op.geometry.input, op.geometry.output) == (crop.y, (9, 6), (2, 1))


@pytest.mark.parametrize(
    ("attributes", "begin", "end", "output"),
    [
        ({"auto_pad": "VALID"}, (0, 0), (0, 0), (7, 7)),
        ({"auto_pad": "NOTSET"}, (0, 0), (0, 0), (7, 7)),
        ({"auto_pad": "SAME_UPPER"}, (1, 0), (1, 1), (9, 8)),
        ({"auto_pad": "SAME_LOWER"}, (1, 1), (1, 0), (9, 8)),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 3]}, (1, 0), (1, 0), (5, 3)),
        ({"auto_pad": "SAME_LOWER", "strides": [4, 5]}, (1, 0), (1, 0), (3, 2)),
        ({"auto_pad": "SAME_UPPER", "strides": [8, 7]}, (1, 0), (1, 1), (2, 2)),
        ({"auto_pad": "SAME_UPPER", "dilations": [3, 3]}, (3, 1), (3, 2), (9, 8)),
        ({"auto_pad": "SAME_LOWER", "dilations": [3, 3]}, (3, 2), (3, 1), (9, 8)),
        ({"pads": [9, 0, 0, 4], "strides": [1, 2]}, (9, 0), (0, 4), (16, 6)),
    ],
)
def test_padding_is_made_explicit(attributes, begin, end, output):
    geometry = conv_of(qlinear_conv((1, 1, 9, 8), W, **attributes)).geometry
    assert (geometry.pads_begin, geometry.pads_end, geometry.output) == (begin, end, output)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_any_number_of_spatial_axes(rank):
    op = conv_of(qlinear_conv((1, 2, *range(5, 5 + rank)), random_weights((3, 2, *[2] * rank))))
    assert op.geometry.rank == rank
    assert op.geometry.output == tuple(range(4, 4 + rank))


@pytest.mark.parametrize(
    ("activation", "params", "expected"),
    [
        ("Relu", [], FloatActivation("Relu")),
        ("Relu", [1.0], FloatActivation("Relu")),
        ("Relu", [0.0, 6.0], FloatActivation("Clip", (0.0, 6.0))),
        ("Tanh", [], FloatActivation("Tanh")),
        ("Tanh", [0.5, 0.5], FloatActivation("Tanh")),
        ("Sigmoid", [], FloatActivation("Sigmoid")),
        ("HardSwish", [3.0], FloatActivation("HardSwish")),
        ("LeakyRelu", [0.25], FloatActivation("LeakyRelu", (0.25,))),
        ("Clip", [-1.0, 1.0], FloatActivation("Clip", (-1.0, 1.0))),
        ("HardSigmoid", [0.25, 0.5], FloatActivation("HardSigmoid", (0.25, 0.5))),
        ("", [], FloatActivation()),
    ],
)
def test_activations_and_their_parameters(activation, params, expected):
    attributes = {"activation": activation, **({"activation_params": params} if params else {})}
    for op_type, domain, shape in (
        ("FusedConv", MICROSOFT, (1, 1, 9, 8)),
        ("NhwcFusedConv", MICROSOFT, (1, 9, 8, 1)),
        ("Conv", NHWC, (1, 9, 8, 1)),
    ):
        op = conv_of(float_conv(shape, FLOATS, op_type=op_type, domain=domain, **attributes))
        assert op.epilogue == expected


def test_a_program_has_the_models_inputs_and_outputs_in_its_order():
    nodes = [
        helper.make_node("Conv", ["b", "w"], ["v"], name="second"),
        helper.make_node("Conv", ["a", "w"], ["u"], name="first"),
        helper.make_node("Conv", ["u", "w"], ["y"], name="third"),
    ]
    inputs = dict.fromkeys(("a", "spare", "b"), ("float", (1, 1, 5, 5)))
    w = random_weights((1, 1, 2, 2), "float32")
    program = program_of(graph_model(nodes, inputs, {"y": None, "v": None}, {"w": w}, name="three"))
    assert program.name == "three"
    assert [tensor.name for tensor in program.inputs] == ["a", "spare", "b"]
    assert program.inputs[1] == Tensor("spare", DType.FLOAT32, (1, 1, 5, 5))
    assert [tensor.name for tensor in program.outputs] == ["y", "v"]
    assert [op.name for op in program.operators] == ["second", "first", "third"]
    assert program.operators[2].x.shape == program.operators[1].y.shape == (1, 1, 4, 4)
    assert len(program.sha256) == 64


def test_hostile_names_reach_the_program_unchanged():
    model = qlinear_conv((1, 1, 9, 8), W, node_name="*/\n#error", outputs={'y"': None})
    op = conv_of(model)
    assert (op.name, op.y.name) == ("*/\n#error", 'y"')


@pytest.mark.parametrize(("numerics", "bits"), [("orion-fp16x16", 16), ("orion-fp8x23", 23)])
def test_orions_arithmetic_is_chosen_by_name(numerics, bits):
    model = qlinear_conv((1, 1, 3, 3), W[:, :, :1, :1], x_type="int8", y_type="int8", x_scale=0.1)
    [op] = program_of(model, numerics=numerics).operators
    assert isinstance(op, OrionConv)
    assert op.fraction_bits == bits


@pytest.mark.parametrize(
    ("model", "operator"),
    [
        (conv_integer((1, 1, 9, 8), W), "ConvInteger"),
        (float_conv((1, 1, 9, 8), FLOATS), "Conv"),
        (qlinear_conv((1, 9, 8, 1), W, domain=NHWC), "com.ms.internal.nhwc.QLinearConv"),
    ],
)
def test_orion_has_no_other_operator(model, operator):
    [problem] = problems(program_of, model, numerics="orion-fp16x16")
    assert (problem.where, problem.what) == (f"node 'conv1' ({operator})", "orion-fp16x16 has no such operator")


def test_orions_problems_of_all_nodes_are_told_at_once():
    w = {"w": FLOATS}
    nodes = [helper.make_node("Conv", ["x", "w"], [name], name=name) for name in ("a", "b")]
    model = graph_model(nodes, {"x": ("float", (1, 1, 9, 8))}, {"a": None, "b": None}, w)
    found = problems(program_of, model, numerics="orion-fp8x23")
    assert [problem.where for problem in found] == ["node 'a' (Conv)", "node 'b' (Conv)"]


def test_an_unknown_arithmetic_is_a_usage_error():
    with pytest.raises(
        ValueError, match="numerics must be one of onnxruntime, tflm, orion-fp16x16, orion-fp8x23, not 'exact'"
    ):
        program_of(qlinear_conv((1, 1, 9, 8), W), numerics="exact")
