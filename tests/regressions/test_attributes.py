"""Attributes and lists of numbers that were malformed, or that crashed the compiler, or that it took for others."""

import re
import warnings
from contextlib import suppress

import numpy as np
import pytest
from batch import call, require
from computed import computed
from marks import share_at_first
from models import MICROSOFT, graph_model, node_model, problems
from onnx import helper, numpy_helper
from qdq import A, Chain

import qcgen
from qcgen import ModelRejected
from qcgen.build import STRICT_FLAGS
from qcgen.render import templates

# keepdims = 3 was compiled as 1 and is 0 in onnxruntime: attributes that say yes or no are 1 or 0.
IMAGE = {"X": ("float", (1, 2, 6, 6))}
MATRICES = {"A": ("float", (3, 3)), "B": np.ones((3, 3), np.float32)}
SEQUENCE = {"X": ("float", (4, 1, 3)), "W": np.ones((1, 15, 3), np.float32), "R": np.ones((1, 15, 5), np.float32)}
WINDOW = {"kernel_shape": [2, 2]}
FLAGS = {
    ("ArgMax", "keepdims"): (IMAGE, {"axis": 1}),
    ("ArgMax", "select_last_index"): (IMAGE, {"axis": 1}),
    ("AveragePool", "ceil_mode"): (IMAGE, WINDOW),
    ("AveragePool", "count_include_pad"): (IMAGE, WINDOW),
    ("Cast", "saturate"): (IMAGE, {"to": 1, "opset": 19}),
    ("GRU", "linear_before_reset"): (SEQUENCE, {"hidden_size": 5}),
    ("Gemm", "transA"): (MATRICES, {}),
    ("Gemm", "transB"): (MATRICES, {}),
    ("MaxPool", "ceil_mode"): (IMAGE, WINDOW),
    ("MaxPool", "storage_order"): (IMAGE, WINDOW),
    ("ReduceMax", "keepdims"): (IMAGE, {}),
    ("ReduceMean", "keepdims"): (IMAGE, {"axes": [2, 3]}),
    ("ReduceMean", "noop_with_empty_axes"): (IMAGE, {"opset": 18}),
    ("ReduceSum", "keepdims"): (IMAGE, {}),
    ("Reshape", "allowzero"): ({**IMAGE, "shape": np.array([72], np.int64)}, {"opset": 14}),
    ("Resize", "exclude_outside"): (
        {**IMAGE, "roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
        {},
    ),
}


@pytest.mark.parametrize("value", [2, 3, -1, 256, 2**63 - 1])
@pytest.mark.parametrize(("op_type", "name"), FLAGS)
def test_another_number_is_refused_and_named(op_type, name, value):
    inputs, attributes = FLAGS[op_type, name]
    [problem] = problems(qcgen.compile, node_model(op_type, inputs, **attributes, **{name: value}))
    assert (problem.what, problem.hint) == (f"{name} is {value}, but must be 0 or 1", f"correct {name}")


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize(("op_type", "name"), FLAGS)
def test_0_and_1_are_not_refused_for_their_value(op_type, name, value):
    inputs, attributes = FLAGS[op_type, name]
    problems = ()
    try:
        qcgen.compile(node_model(op_type, inputs, **attributes, **{name: value}))
    except ModelRejected as rejection:
        problems = rejection.problems
    assert not [problem for problem in problems if "must be 0 or 1" in problem.what]


# Attributes of a wrong type or missing ones crashed: Cast without to, ceil_mode as a tensor.
CODES = {"X": ("int8", (1, 2, 6, 6))}
VALUES = {
    "an integer": 3,
    "a number": 2.5,
    "text": "abc",
    "bytes": b"\xff\xfe",
    "integers": [1, 2],
    "numbers": [1.5],
    "texts": ["a"],
    "a tensor": numpy_helper.from_array(np.zeros(3, np.float32)),
    "a graph": helper.make_graph([], "g", [], []),
}
HALF, ZERO = np.array(0.5, np.float32), np.array(0, np.int8)
NAMES = {
    "AveragePool": (IMAGE, "strides pads count_include_pad ceil_mode auto_pad"),
    "Cast": (IMAGE, "to saturate"),
    "Clip": (IMAGE, "min max"),
    "Concat": (IMAGE, "axis"),
    "Conv": ({**IMAGE, "W": np.ones((2, 2, 3, 3), np.float32)}, "kernel_shape strides pads dilations group auto_pad"),
    "DequantizeLinear": ({**CODES, "scale": np.array(0.5, np.float32)}, "axis block_size output_dtype"),
    "Flatten": (IMAGE, "axis"),
    "Gemm": (
        {"X": ("float", (2, 2)), "W": np.ones((2, 2), np.float32), "B": np.ones(2, np.float32)},
        "transA transB alpha beta",
    ),
    "LeakyRelu": (IMAGE, "alpha"),
    "MaxPool": (IMAGE, "kernel_shape strides pads dilations ceil_mode auto_pad storage_order"),
    "Pad": (IMAGE, "pads mode value"),
    "QLinearConv": (
        {**CODES, "x_scale": HALF, "x_zero_point": ZERO, "W": np.ones((2, 2, 3, 3), np.int8)}
        | {"w_scale": HALF, "w_zero_point": ZERO, "y_scale": HALF, "y_zero_point": ZERO},
        "kernel_shape strides pads dilations group auto_pad",
    ),
    "QuantizeLinear": (
        {**IMAGE, "scale": HALF, "zero_point": ZERO},
        "axis block_size output_dtype saturate precision",
    ),
    "ReduceMean": (IMAGE, "axes keepdims noop_with_empty_axes"),
    "Resize": (
        {**IMAGE, "roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
        "mode nearest_mode coordinate_transformation_mode keep_aspect_ratio_policy axes antialias exclude_outside",
    ),
    "Slice": (IMAGE, "starts ends axes"),
    "Softmax": (IMAGE, "axis"),
    "Split": (IMAGE, "axis split num_outputs"),
    "Squeeze": (IMAGE, "axes"),
    "Transpose": (IMAGE, "perm"),
    "Unsqueeze": (IMAGE, "axes"),
}
NEEDED = {"AveragePool": {"kernel_shape": [2, 2]}, "MaxPool": {"kernel_shape": [2, 2]}, "Pad": {"pads": [0] * 8}}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("op_type", share_at_first(list(NAMES)))
def test_an_attribute_of_any_kind_is_compiled_or_refused(op_type, kind):
    inputs, names = NAMES[op_type]
    for name in names.split():
        for opset in (7, 10, 13, 18):
            attributes = {**NEEDED.get(op_type, {}), name: VALUES[kind]}
            try:
                qcgen.compile(node_model(op_type, inputs, opset=opset, **attributes))
            except ModelRejected as rejection:
                assert str(rejection)  # noqa: PT017 - to compile is right, too


MALFORMED = {
    "it has no attribute to": node_model("Cast", IMAGE),
    "it has no pads": node_model("Pad", IMAGE, opset=10),
    "it fills codes of int8 with 3.7e+09": node_model("Pad", CODES, opset=10, pads=[0] * 8, value=3.7e9),
    "'y' has 10001 dimensions, more than 32": node_model(
        "Reshape", {**CODES, "shape": np.array([1] * 10000 + [72], np.int64)}
    ),
    "it has 100 dimensions, more than 32": node_model("Transpose", {"X": ("float", (1,) * 100)}),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_this_node_is_refused_in_these_words(what):
    assert [problem.what for problem in problems(qcgen.compile, MALFORMED[what])] == [what]


def test_channels_last_of_a_convolution_is_no_tensor():
    inputs, _ = NAMES["QLinearConv"]
    model = node_model("QLinearConv", inputs, domain="com.microsoft", channels_last=VALUES["a tensor"])
    with pytest.raises(ModelRejected, match="channels_last is a tensor, but must be an integer"):
        qcgen.compile(model)


@pytest.mark.parametrize("value", [np.inf, np.nan, 2.0])
def test_strides_that_are_floats_are_refused(value):
    """Strides given as floats were made integers, which infinity cannot be."""
    model = node_model("MaxPool", {"X": ("int8", (1, 2, 6, 6))}, kernel_shape=[2, 2], strides=[value, value])
    assert any("strides is" in problem.what for problem in problems(qcgen.compile, model))


# NaN and infinity in attributes and constants gave C that did not compile, and numpy's warnings on standard error.
F32 = np.float32
NAN, INF, LARGEST, TINY = np.nan, np.inf, float(np.finfo(F32).max), 1e-45
X = np.array([[0.0, -0.0, 1, -1, INF, -INF, NAN, TINY, -TINY, 3e38, -3e38, 2.5]], F32)
FLOATS = {"X": ("float", X.shape)}


def number(value):
    return np.array(value, F32)


def gemm(c=(1, 1), **attributes):
    operands = {"A": ("float", (1, 2)), "B": number([[1, 2], [3, 4]]), "C": number(c)}
    return node_model("Gemm", operands, **attributes)


def leaky(alpha):
    zero = np.array(0, np.int8)
    operands = {"X": ("int8", (4,)), "X_scale": number(0.1), "X_zero_point": zero, "Y_scale": number(0.1)}
    return node_model("QLinearLeakyRelu", {**operands, "Y_zero_point": zero}, domain=MICROSOFT, alpha=alpha)


NOT_FINITE = {
    "min is NaN": node_model("Clip", {**FLOATS, "min": number(NAN)}),
    "max is NaN": node_model("Clip", FLOATS, opset=10, max=NAN),
    "value is NaN": node_model("Pad", FLOATS, opset=10, pads=[0, 1, 0, 1], value=NAN),
    "alpha is NaN": node_model("LeakyRelu", FLOATS, alpha=NAN),
    "beta is NaN": node_model("HardSigmoid", FLOATS, beta=NAN),
    "alpha is not finite": leaky(INF),
    "alpha is inf: its product with a constant is not finite": gemm(alpha=INF),
    "2 elements of C are not finite": gemm([NAN, NAN], beta=0.0),
    "beta is -inf: its product with a constant is not finite": gemm(beta=-INF),
    "alpha is 3.40282e+38: its product with a constant is not finite": gemm(alpha=LARGEST),
}


@pytest.mark.parametrize("what", NOT_FINITE)
def test_a_number_that_is_not_finite_is_refused_in_these_words(what):
    assert [problem.what for problem in problems(qcgen.compile, NOT_FINITE[what])] == [what]


@pytest.mark.parametrize("value", [INF, -INF, TINY, -TINY, -0.0, LARGEST, 1e-38])
def test_a_clip_with_one_bound_takes_the_end_of_the_type_for_the_other(value):
    require("gcc")
    low = qcgen.compile(node_model("Clip", {**FLOATS, "min": number(value)})).load().run(None, {"X": X})[0]
    np.testing.assert_array_equal(low, np.minimum(np.maximum(X, F32(value)), F32(LARGEST)))
    high = qcgen.compile(node_model("Clip", {**FLOATS, "": None, "max": number(value)})).load().run(None, {"X": X})[0]
    np.testing.assert_array_equal(high, np.minimum(np.maximum(X, F32(-LARGEST)), F32(value)))


@pytest.mark.parametrize("value", [NAN, INF, -INF, TINY, -0.0, LARGEST])
def test_padding_may_be_any_number(value):
    require("gcc")
    model = node_model("Pad", {**FLOATS, "pads": np.array([0, 1, 0, 2]), "value": number(value)})
    y = qcgen.compile(model).load().run(None, {"X": X})[0]
    expected = np.pad(X, [(0, 0), (1, 2)], constant_values=F32(value))
    np.testing.assert_array_equal(y, expected)
    assert np.signbit(y[0, 0]) == np.signbit(F32(value)) or np.isnan(value)


@pytest.mark.parametrize("value", [INF, -INF, TINY, -TINY, -0.0, LARGEST])
def test_slopes_may_be_any_number_but_nan(value):
    require("gcc")
    y = qcgen.compile(node_model("LeakyRelu", FLOATS, alpha=value)).load().run(None, {"X": X})[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.where(X >= 0, X, X * F32(value)))


@pytest.mark.parametrize("model", [leaky(LARGEST), node_model("LeakyRelu", FLOATS, alpha=INF), *NOT_FINITE.values()])
def test_numpy_warns_of_nothing(model):
    with warnings.catch_warnings(), suppress(ModelRejected):
        warnings.simplefilter("error")
        qcgen.compile(model)


# QuickGelu with a negative alpha, Shrink with a negative lambd: a sign before the sign of the number was no C.
NUMBERS = {"minus": -1.702, "zero": 0.0, "minus_zero": -0.0, "tiny": -1e-45, "large": -3.4e38, "plus": 0.75}
OTHERS = {"inf": np.inf, "minus_inf": -np.inf, "nan": np.nan}
OPERATORS = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "QuickGelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("lambd", "bias"),
    "ThresholdedRelu": ("alpha",),
}


def activation(op_type, value):
    domain = MICROSOFT if op_type == "QuickGelu" else ""
    return node_model(
        op_type, {"X": ("float", (5,))}, domain=domain, opset=20, **dict.fromkeys(OPERATORS[op_type], value)
    )


def test_each_number_makes_c_that_compiles(tmp_path):
    """Numbers that are not finite may be refused."""
    require("gcc")
    found = {}
    for op_type in OPERATORS:
        for name, value in (NUMBERS | OTHERS).items():
            try:
                artifact = qcgen.compile(activation(op_type, value), name=f"{op_type}_{name}".lower())
            except ModelRejected:
                assert name in OTHERS
                continue
            artifact.write(tmp_path)
            found[artifact.plan.prefix] = artifact
    (tmp_path / "all.c").write_text("".join(f'#include "{name}.c"\n' for name in found))
    call(["gcc", *STRICT_FLAGS, "-c", "all.c"], tmp_path)


@pytest.mark.parametrize("op_type", ["QuickGelu", "Shrink"])
def test_a_negative_number_is_used_as_it_is(op_type):
    require("gcc")
    x = np.float32([-2.5, -1, 0, 0.5, 3])
    [y] = qcgen.compile(activation(op_type, -1.5)).load(("-O1",)).run(None, {"X": x})
    expected = {
        "QuickGelu": x / (1 + np.exp(1.5 * x.astype(np.float64))),
        "Shrink": np.where(x < 1.5, x - 1.5, x + 1.5),
    }
    assert np.allclose(y, expected[op_type], rtol=1e-6)


def test_no_template_has_a_sign_right_before_a_number():
    signed = re.compile(r"[-+]\{\{[^}]*\| *(real|int32|int64)\b")
    found = [path.name for path in templates().rglob("*.jinja") if signed.search(path.read_text())]
    assert found == []


# A Pad whose axes are counted from the end padded others, and silently.
IMAGE_OF_2 = np.arange(1, 25).reshape(1, 2, 3, 4)


def pads(axes, dtype):
    lists = {"pads": np.array([1, 0, 2, 1], np.int64), "axes": np.array(axes, np.int64)}
    node = helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"])
    name = "float" if dtype == np.float32 else dtype.__name__
    return graph_model([node], {"x": (name, IMAGE_OF_2.shape)}, {"y": None}, lists, opset=18)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("axes", [(-1, -2), (-2, -1), (3, -2), (-3, 2), (-1, 1)])
def test_negative_axes_are_counted_from_the_end(axes, dtype):
    [y] = computed(pads(axes, dtype), {"x": IMAGE_OF_2.astype(dtype)})
    around = [(0, 0)] * 4
    around[axes[0]], around[axes[1]] = (1, 2), (0, 1)
    assert np.array_equal(y, np.pad(IMAGE_OF_2, around))


# A scalar has no axis over which Softmax could sum: axis 0 raised ZeroDivisionError. onnxruntime refuses it, too.
SHARE, LOWEST = np.array(1 / 256, np.float32), np.array(0, np.uint8)
SCALAR = {"X": ("uint8", ()), "X_scale": SHARE, "X_zero_point": LOWEST, "Y_scale": SHARE, "Y_zero_point": LOWEST}
SOFTMAX_OF_A_SCALAR = {
    "Softmax": node_model("Softmax", {"X": ("float", ())}, axis=0),
    "QLinearSoftmax": node_model("QLinearSoftmax", SCALAR, domain=MICROSOFT, axis=0),
}
SOFTMAX_OF_A_SCALAR["QLinearSoftmax"].graph.node[0].attribute.append(helper.make_attribute("opset", 13))


@pytest.mark.parametrize("op_type", SOFTMAX_OF_A_SCALAR)
def test_a_softmax_of_a_scalar_is_refused(op_type):
    with pytest.raises(
        ModelRejected, match="axis is 0, but its input has 0 dimensions\n    give its input a dimension"
    ):
        qcgen.compile(SOFTMAX_OF_A_SCALAR[op_type])


def test_an_absent_axis_of_softmax_before_opset_13_is_1_which_a_row_does_not_have():
    model = node_model("Softmax", {"X": ("float", (4,))}, opset=11)
    with pytest.raises(ModelRejected, match="axis is 1, but its input has 1 dimension\n"):
        qcgen.compile(model)
    assert qcgen.compile(node_model("Softmax", {"X": ("float", (4,))}, opset=13)).program.operators


@pytest.mark.parametrize("opset", [10, 13])
def test_a_resize_by_no_scales_is_refused(opset):
    """A Resize with neither sizes nor scales, which may be an empty tensor then, raised AssertionError."""
    operands = {"X": ("int8", (1, 2, 4, 5)), **({"": None} if opset > 10 else {}), "scales": np.zeros(0, np.float32)}
    model = node_model(
        "Resize", operands, opset=opset, mode="nearest", **({"nearest_mode": "floor"} if opset > 10 else {})
    )
    assert [problem.what for problem in problems(qcgen.compile, model)] == ["scales has 0 numbers for 4 axes"]


# A Clip whose min is above its max was compiled in every form; onnxruntime has no such Clip before opset 11.
#
# There it refuses attributes in this order. From opset 11 on the bounds are inputs, and the upper one wins.
ROW = np.linspace(-3, 3, 12, dtype=np.float32).reshape(1, 12)


def clip(opset, **attributes):
    """Attributes before opset 11, inputs from then on."""
    bounds = {} if opset < 11 else {"low": np.float32(2), "high": np.float32(-1)}
    node = helper.make_node("Clip", ["x", *bounds], ["y"], name="clip", **attributes)
    return graph_model([node], {"x": ("float", ROW.shape)}, {"y": None}, bounds, opset=opset)


def clip_between_codes():
    chain = Chain()
    chain.through(chain.node("Clip", [chain.through("x", A)], "clip", min=2.0, max=-1.0), A, "y")
    return chain.model((1, 12), opset=10)


@pytest.mark.parametrize("model", [clip(10, min=2.0, max=-1.0), clip_between_codes()], ids=["float", "between codes"])
def test_a_clip_with_min_above_max_is_refused(model):
    [problem] = problems(qcgen.compile, model)
    assert "(Clip): its min 2 is above its max -1" in str(problem)


@pytest.mark.parametrize("attributes", [{"min": 2.0}, {"max": -1.0}, {"min": -1.0, "max": -1.0}])
def test_a_single_bound_of_a_clip_and_equal_ones_are_not_refused(attributes):
    [y] = computed(clip(10, **attributes), {"x": ROW})
    assert np.array_equal(y, np.clip(ROW, attributes.get("min"), attributes.get("max")))


def test_of_bounds_of_a_clip_that_are_inputs_the_upper_one_wins():
    [y] = computed(clip(13), {"x": ROW})
    assert (y == -1).all()


def test_a_constant_is_not_folded_through_such_a_clip():
    node = helper.make_node("Clip", ["c"], ["d"], name="clip", min=2.0, max=-1.0)
    total = helper.make_node("Add", ["x", "d"], ["y"])
    model = graph_model([node, total], {"x": ("float", ROW.shape)}, {"y": None}, {"c": ROW}, opset=10)
    with pytest.raises(ModelRejected, match="above its max"):
        qcgen.compile(model)
