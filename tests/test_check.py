"""Checking: a table of bad models with the exact words in which each is refused."""

import numpy as np
import pytest
from models import MICROSOFT, NHWC, conv_integer, float_conv, graph_model, qlinear_conv, random_weights
from onnx import helper, numpy_helper

from qcgen.check import check, well_formed
from qcgen.errors import ModelRejected
from qcgen.ir.graph import Graph
from qcgen.load import load
from qcgen.lower import lower
from qcgen.rewrite import rewrite

W = random_weights((4, 2, 3, 3))
FLOATS = random_weights((4, 2, 3, 3), "float32")
SHAPE = (1, 2, 6, 6)
NAN, INF = float("nan"), float("inf")


def array(values, dtype):
    return np.asarray(values, dtype)


def q(shape=SHAPE, w=W, **options):
    return qlinear_conv(shape, w, **options)


def i(shape=SHAPE, w=W, **options):
    return conv_integer(shape, w, **options)


def f(shape=SHAPE, w=FLOATS, **options):
    return float_conv(shape, w, **options)


def fused(activation, *params, **options):
    extra = {"activation_params": list(params)} if params else {}
    return f(op_type="FusedConv", domain=MICROSOFT, activation=activation, **extra, **options)


def problems(model):
    with pytest.raises(ModelRejected) as rejection:
        check(rewrite(load(model)))
    return rejection.value.problems


Q = "node 'conv1' (QLinearConv)"
INTEGER = "node 'conv1' (ConvInteger)"
FLOAT = "node 'conv1' (Conv)"

PER_CHANNEL = "give one scale, or one per output channel"
POSITIVE = "a scale must be positive and finite"

# A model, where the problem is unless it is the node, what it is, and what is in the hint. Each has this one alone.
BAD = {
    # scales
    "x_scale nan": (q(x_scale=NAN), f"x_scale is nan; {POSITIVE}", "quantize the model again"),
    "x_scale zero": (q(x_scale=0), f"x_scale is 0.0; {POSITIVE}", "quantize"),
    "x_scale negative": (q(x_scale=-0.5), f"x_scale is -0.5; {POSITIVE}", "quantize"),
    "x_scale infinite": (q(x_scale=[INF]), f"x_scale is inf; {POSITIVE}", "quantize"),
    "y_scale nan": (q(y_scale=NAN), f"y_scale is nan; {POSITIVE}", "quantize"),
    "y_scale zero": (q(y_scale=0), f"y_scale is 0.0; {POSITIVE}", "quantize"),
    "w_scale zero": (q(w_scale=0), f"w_scale is 0.0; {POSITIVE}", "quantize"),
    "w_scale of a channel": (q(w_scale=[1, 1, NAN, 1]), f"w_scale of output channel 2 is nan; {POSITIVE}", "quantize"),
    "w_scale of several channels": (
        q(w_scale=[1, -1, 0, INF]),
        f"w_scale of output channel 1 (as of 2 more) is -1.0; {POSITIVE}",
        "quantize",
    ),
    "multiplier overflows": (
        q(x_scale=1e30, w_scale=[1, 1, 1, 1e30]),
        "x_scale * w_scale / y_scale of output channel 3 is inf in float32",
        "too far apart",
    ),
    "multiplier overflows in the division": (
        q(x_scale=1e20, y_scale=1e-30),
        "x_scale * w_scale / y_scale is inf in float32",
        "too far apart",
    ),
    # lengths and ranks of parameters
    "w_scale too short": (q(w_scale=[1, 1, 1]), "w_scale has 3 elements, but w has 4 output channels", PER_CHANNEL),
    "w_scale empty": (q(w_scale=[]), "w_scale has 0 elements, but w has 4 output channels", PER_CHANNEL),
    "w_scale matrix": (q(w_scale=[[1]]), "w_scale has shape (1, 1), but must be a number or a vector", PER_CHANNEL),
    "w_zero_point too long": (
        q(w_zero_point=[0] * 5),
        "w_zero_point has 5 elements, but w has 4 output channels",
        "give one zero point, or one per output channel",
    ),
    "x_scale vector": (q(x_scale=[1, 1]), "x_scale has shape (2,), but must be one number", "give one scale"),
    "x_scale matrix": (q(x_scale=[[1]]), "x_scale has shape (1, 1), but must be one number", "give one scale"),
    "x_zero_point vector": (
        q(x_zero_point=[0, 0]),
        "x_zero_point has shape (2,), but must be one number",
        "give one zero point",
    ),
    "y_scale per channel": (
        q(y_scale=[1, 1, 1, 1]),
        "y_scale has shape (4,), but must be one number",
        "give one scale",
    ),
    "y_zero_point empty": (
        q(y_zero_point=[]),
        "y_zero_point has shape (0,), but must be one number",
        "give one zero point",
    ),
    "bias too short": (
        q(bias=[1, 2]),
        "B has 2 elements, but w has 4 output channels",
        "give one bias per output channel",
    ),
    "bias of one": (f(bias=np.ones(1, np.float32)), "B has 1 element, but W has 4 output channels", "one bias per"),
    "bias empty": (q(bias=[]), "B has 0 elements, but w has 4 output channels", "give one bias per"),
    "bias matrix": (q(bias=[[1, 2, 3, 4]]), "B has shape (1, 4), but must be a vector", "give one bias per"),
    "bias scalar": (q(bias=np.array(1, np.int32)), "B has shape (), but must be a vector", "give one bias per"),
    "w_zero_point of ConvInteger": (
        i(w_zero_point=[0, 0]),
        "w_zero_point has 2 elements, but w has 4 output channels",
        "give one zero point, or one per output channel",
    ),
    # types
    "x float": (
        q(replace={"x": ("float", SHAPE)}),
        "x is float, but must be int8 or uint8",
        "export the model with x as int8 or uint8",
    ),
    "x int16": (i(replace={"x": ("int16", SHAPE)}), "x is int16, but must be int8 or uint8", "8 bits"),
    "w float": (q(replace={"w": FLOATS}), "w is float, but must be int8 or uint8", "export"),
    "w int32": (i(replace={"w": W.astype(np.int32)}), "w is int32, but must be int8 or uint8", "8 bits"),
    "x_scale double": (q(replace={"x_scale": array(1, "float64")}), "x_scale is double, but must be float", "export"),
    "w_scale float16": (
        q(replace={"w_scale": array([1, 1, 1, 1], "float16")}),
        "w_scale is float16, but must be float",
        "export",
    ),
    "y_scale integer": (q(replace={"y_scale": array(1, "int32")}), "y_scale is int32, but must be float", "export"),
    "y_zero_point int32": (
        q(replace={"y_zero_point": array(0, "int32")}),
        "y_zero_point is int32, but must be int8 or uint8",
        "8 bits",
    ),
    "bias float": (q(bias=np.ones(4, np.float32)), "B is float, but must be int32", "export the model with B as int32"),
    "bias int8": (q(bias=np.ones(4, np.int8)), "B is int8, but must be int32", "export"),
    "bias int64": (q(bias=np.ones(4, np.int64)), "B is int64, but must be int32", "export"),
    "bias integer of a float convolution": (
        f(bias=np.ones(4, np.int32)),
        "B is int32, but must be float or double",
        "export",
    ),
    "x_zero_point of the other type": (
        q(replace={"x_zero_point": array(0, "int8")}),
        "x_zero_point is int8, but x is uint8",
        "give x_zero_point the type of x",
    ),
    "w_zero_point of the other type": (
        q(replace={"w_zero_point": array(0, "uint8")}),
        "w_zero_point is uint8, but w is int8",
        "give w_zero_point the type of w",
    ),
    "x_zero_point of ConvInteger of the other type": (
        i(replace={"x_zero_point": array(0, "int8")}),
        "x_zero_point is int8, but x is uint8",
        "give x_zero_point the type of x",
    ),
    # ranks, channels, groups
    "x of rank 2": (
        f(shape=(1, 2)),
        "X has shape (1, 2): 2 dimensions, but must have 3 to 6",
        "batch, channels and 1 to 4 spatial axes",
    ),
    "x of rank 7": (
        q(shape=(1, 2, 3, 3, 3, 3, 3), w=random_weights((1, 2, 1, 1, 1, 1, 1))),
        "x has shape (1, 2, 3, 3, 3, 3, 3): 7 dimensions, but must have 3 to 6",
        "1 to 4 spatial axes",
    ),
    "w of another rank": (
        q(w=random_weights((4, 2, 3))),
        "w has shape (4, 2, 3): 3 dimensions, but x has 4",
        "weights are stored as (M, C/group, kernel)",
    ),
    "w of rank 1": (q(w=random_weights((4,))), "w has shape (4,): 1 dimension, but x has 4", "weights are stored as"),
    "w empty": (
        q(w=np.zeros((0, 2, 3, 3), np.int8)),
        "w has shape (0, 2, 3, 3); every dimension must be at least 1",
        "",
    ),
    "channels": (
        q(shape=(1, 3, 6, 6)),
        "x has 3 channels, but w needs 2",
        "correct the weights or the attribute group",
    ),
    "channels of groups": (q(group=4), "x has 2 channels, but w needs 4 groups of 2", "group"),
    "channels last": (f(shape=(1, 6, 6, 3), domain=NHWC), "X has 3 channels, but W needs 2", "group"),
    "output channels of groups": (
        q(shape=(1, 6, 6, 6), group=3),
        "w has 4 output channels, which cannot be divided into 3 groups",
        "group",
    ),
    # attributes
    "strides too short": (q(strides=[1]), "strides has 1 number, but w has 2 spatial axes", "give 2 numbers"),
    "strides zero": (q(strides=[1, 0]), "strides is (1, 0), but every number must be at least 1", "correct strides"),
    "strides negative": (f(strides=[-1, 1]), "strides is (-1, 1), but every number must be at least 1", "strides"),
    "strides huge": (
        q(strides=[2**40, 1]),
        "strides is (1099511627776, 1), but every number must be at most 2147483647",
        "correct strides",
    ),
    "dilations too long": (q(dilations=[1] * 3), "dilations has 3 numbers, but w has 2 spatial axes", "give 2"),
    "dilations zero": (q(dilations=[0, 1]), "dilations is (0, 1), but every number must be at least 1", "dilations"),
    "pads of the wrong length": (q(pads=[1, 1]), "pads has 2 numbers, but w has 2 spatial axes", "give 4 numbers"),
    "pads of an odd length": (q(pads=[1, 1, 1]), "pads has 3 numbers, but w has 2 spatial axes", "give 4 numbers"),
    "pads negative": (q(pads=[0, 0, 0, -1]), "pads is (0, 0, 0, -1), but every number must be at least 0", "pads"),
    "pads and auto_pad": (
        q(auto_pad="SAME_UPPER", pads=[0, 0, 0, 0]),
        "it has pads and auto_pad SAME_UPPER",
        "give one of them",
    ),
    "pads and VALID": (q(auto_pad="VALID", pads=[1, 1, 1, 1]), "it has pads and auto_pad VALID", "give one of them"),
    "auto_pad in small letters": (
        q(auto_pad="same_upper"),
        "auto_pad is 'same_upper', which does not exist",
        "write SAME_UPPER",
    ),
    "auto_pad misspelt": (
        q(auto_pad="SAME"),
        "auto_pad is 'SAME', which does not exist",
        "use one of NOTSET, SAME_UPPER, SAME_LOWER, VALID",
    ),
    "auto_pad no string": (q(auto_pad=1), "auto_pad is an integer, but must be a string", "correct auto_pad"),
    "auto_pad no text": (
        q(auto_pad=b"\xff"),
        "auto_pad is a string that is no text, but must be a string",
        "correct auto_pad",
    ),
    "group zero": (q(group=0), "group is 0, but must be at least 1", "correct group"),
    "group negative": (q(group=-1), "group is -1, but must be at least 1", "correct group"),
    "group a list": (q(group=[1]), "group is a list of integers, but must be an integer", "correct group"),
    "group a number": (q(group=1.0), "group is a number, but must be an integer", "correct group"),
    "strides a number": (q(strides=1), "strides is an integer, but must be a list of integers", "correct strides"),
    "strides of floats": (q(strides=[1.0, 1.0]), "strides is a list of numbers, but must be a list of integers", ""),
    "pads of strings": (q(pads=["1"]), "pads is a list of strings, but must be a list of integers", "correct pads"),
    "strides a tensor": (
        q(strides=numpy_helper.from_array(np.ones(2, np.int64))),
        "strides is a tensor, but must be a list of integers",
        "correct strides",
    ),
    "a graph": (
        q(group=helper.make_graph([], "g", [], [])),
        "group is neither a number nor text, but must be an integer",
        "correct group",
    ),
    "kernel_shape": (
        q(kernel_shape=[3, 5]),
        "kernel_shape is (3, 5), but the kernel in w is (3, 3)",
        "remove kernel_shape",
    ),
    "kernel_shape too short": (q(kernel_shape=[3]), "kernel_shape is (3,), but the kernel in w is (3, 3)", "remove"),
    "unknown attribute": (
        q(stride=[2, 2]),
        "the attribute 'stride' is unknown",
        "QLinearConv has auto_pad, dilations, group, kernel_shape, pads, strides",
    ),
    "channels_last of ai.onnx": (q(channels_last=1), "the attribute 'channels_last' is unknown", "remove it"),
    "activation of ai.onnx": (f(activation="Relu"), "the attribute 'activation' is unknown", "remove it"),
    "channels_last 2": (
        q(domain=MICROSOFT, channels_last=2),
        "channels_last is 2, but must be 0 or 1",
        "correct channels_last",
    ),
    # windows
    "kernel too large": (
        q(shape=(1, 2, 2, 6)),
        "the kernel covers 3 elements of spatial axis 0, but the padded x has 2",
        "use a smaller kernel",
    ),
    "dilated kernel too large": (
        f(dilations=[1, 4], pads=[0, 1, 0, 1]),
        "the kernel covers 9 elements of spatial axis 1, but the padded X has 8",
        "or more padding",
    ),
    "kernel too large by stride": (
        q(shape=(1, 2, 1, 6), strides=[3, 1]),
        "the kernel covers 3 elements of spatial axis 0, but the padded x has 1",
        "use a smaller kernel",
    ),
    "result too large": (
        q(pads=[30000] * 4),
        f"'y' has {4 * 60004**2} elements, more than 268435456",
        "use smaller tensors",
    ),
    "x too large": (
        q(shape=(1, 2, 50000, 50000), strides=[99, 99]),
        "input 'x'",
        "it has 5000000000 elements, more than 268435456",
        "use smaller tensors",
    ),
    # activations
    "activation unknown": (
        fused("Gelu"),
        "the activation 'Gelu' is unknown",
        "use one of Clip, HardSigmoid, HardSwish, LeakyRelu, Relu, Sigmoid, Tanh",
    ),
    "activation in small letters": (fused("relu"), "the activation 'relu' is unknown", "use one of"),
    "LeakyRelu without alpha": (
        fused("LeakyRelu"),
        "the activation LeakyRelu has 0 parameters, but needs 1",
        "give alpha in activation_params",
    ),
    "Clip with one bound": (
        fused("Clip", 0.0),
        "the activation Clip has 1 parameter, but needs 2",
        "give min and max in activation_params",
    ),
    "HardSigmoid with three": (
        fused("HardSigmoid", 0.1, 0.2, 0.3),
        "the activation HardSigmoid has 3 parameters, but needs 2",
        "give alpha and beta",
    ),
    "activation_params nan": (fused("Clip", NAN, 1.0), "activation_params holds NaN", "export"),
    "activation no string": (fused(3), "activation is an integer, but must be a string", "correct activation"),
    "activation_params of integers": (
        fused("Clip", 0, 6),
        "activation_params is a list of integers, but must be a list of numbers",
        "correct activation_params",
    ),
    # inputs
    "w missing": (i(replace={"w": None}, x_zero_point=0), "input w is missing", "ConvInteger needs x, w"),
    "y_scale missing": (q(replace={"y_scale": None}), "input y_scale is missing", "QLinearConv needs x, x_scale"),
    "too many inputs": (
        q(bias=[0] * 4, replace={"more": np.zeros(1, np.float32)}),
        "it has 10 inputs, but QLinearConv takes at most 9",
        "the inputs are x, x_scale",
    ),
    "Z": (
        fused("Relu", bias=np.zeros(4, np.float32), replace={"Z": np.zeros((1, 4, 4, 4), np.float32)}),
        "input Z, which is added to the result, is not supported",
        "without fusing the addition",
    ),
    "w not constant": (
        q(replace={"w": ("int8", (4, 2, 3, 3))}),
        "w is not constant: it is the model's input 'w'",
        "store its values in the model as an initializer",
    ),
    "w_scale not constant": (
        q(replace={"w_scale": ("float", (4,))}),
        "w_scale is not constant: it is the model's input 'w_scale'",
        "initializer",
    ),
    "bias not constant": (
        f(replace={"B": ("float", (4,))}),
        "B is not constant: it is the model's input 'B'",
        "initializer",
    ),
    "float weights not finite": (
        f(w=np.where(np.arange(72).reshape(4, 2, 3, 3) < 2, np.float32(NAN), FLOATS)),
        "2 elements of W are not finite",
        "train or export",
    ),
    "float bias not finite": (f(bias=array([0, INF, 0, 0], "float32")), "1 element of B is not finite", "train"),
    # the boundary
    "x of unknown rank": (q(shape=None), "input 'x'", "its shape is unknown", "export the model with fixed shapes"),
    "x symbolic": (
        q(shape=("N", 2, 6, 6)),
        "input 'x'",
        "its shape is (N, 2, 6, 6); every dimension must be a known number",
        "add --dim N=1",
    ),
    "x symbolic in several places": (
        q(shape=("N", 2, "H", "W")),
        "input 'x'",
        "its shape is (N, 2, H, W); every dimension must be a known number",
        "add --dim N=1 --dim H=SIZE --dim W=SIZE",
    ),
    "x with an unknown dimension": (
        q(shape=("N", 2, None, 6)),
        "input 'x'",
        "its shape is (N, 2, x.2, 6); every dimension must be a known number",
        "add --dim N=1 --dim x.2=SIZE",
    ),
    "x without a batch": (
        q(shape=(0, 2, 6, 6)),
        "input 'x'",
        "its shape is (0, 2, 6, 6); every dimension must be at least 1",
        "export the model with the shape that it is used with",
    ),
    "x negative": (
        q(shape=(1, 2, -1, 6)),
        "input 'x'",
        "its shape is (1, 2, x.2, 6); every dimension must be a known number",
        "add --dim x.2=SIZE",
    ),
    "declared type": (
        q(outputs={"y": ("int8", (1, 4, 4, 4))}),
        "tensor 'y'",
        f"the model declares it as int8, but {Q} computes uint8",
        "correct the declaration or remove it",
    ),
    "declared shape": (
        q(outputs={"y": ("uint8", (1, 4, 5, 4))}),
        "tensor 'y'",
        f"the model declares it as (1, 4, 5, 4), but {Q} computes (1, 4, 4, 4)",
        "correct the declaration or remove it",
    ),
    "declared rank": (
        i(outputs={"y": ("int32", (1, 4, 16))}),
        "tensor 'y'",
        f"the model declares it as (1, 4, 16), but {INTEGER} computes (1, 4, 4, 4)",
        "correct the declaration",
    ),
    "two outputs": (
        q(outputs={"y": None, "z": None}),
        "its further output 'z' is used",
        "only the first output is supported",
    ),
    # operators and versions
    "opset": (q(opset=9), "QLinearConv needs opset 10 of ai.onnx; the model imports 9", "opset 10 or newer"),
    "opset of ConvInteger": (i(opset=7), "ConvInteger needs opset 10 of ai.onnx; the model imports 7", "opset 10"),
    "domain not imported": (
        fused("Relu", opsets={}),
        "model",
        "it uses operators of com.microsoft and does not import this domain",
        "add com.microsoft to the model's opset_import",
    ),
    "unknown domain": (
        f(domain="made.up"),
        "the domain 'made.up' is unknown",
        "the operators that can be compiled are listed by: qcgen ops",
    ),
    "unknown operator": (f(op_type="Convolve"), "the operator Convolve is not supported", "listed by: qcgen ops"),
    "the case of an operator": (f(op_type="conv"), "the operator conv is not supported", "qcgen ops"),
    "an operator in the wrong domain": (f(op_type="FusedConv"), "the operator FusedConv is not supported", "qcgen ops"),
    "double": (
        f(op_type="ConvTranspose"),
        "the operator ConvTranspose is not supported",
        "quantize its input and its output",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_refused_in_these_words(name):
    model, *where, what, hint = BAD[name]
    found = problems(model)
    [node] = model.graph.node
    spelt = ".".join(filter(None, (node.domain, node.op_type)))
    assert [(problem.where, problem.what) for problem in found] == [(*(where or [f"node 'conv1' ({spelt})"]), what)]
    assert hint in found[0].hint
    assert found[0].hint


# Models in which one mistake has several consequences that are all true.
SEVERAL = {
    "integers": (
        f(replace={"X": ("int32", SHAPE), "W": FLOATS.astype(np.int32)}),
        [(FLOAT, "X is int32, but must be float or double")],
    ),
    "weights and bias of float beside double": (
        f(replace={"X": ("double", SHAPE), "W": FLOATS, "B": FLOATS[:, 0, 0, 0]}),
        [(FLOAT, "W is float, but X is double"), (FLOAT, "B is float, but X is double")],
    ),
    "no type": (
        f(replace={"X": (None, SHAPE)}),
        [("input 'X'", "its element type is unknown"), ("input 'X'", "its shape is unknown")],
    ),
    "nothing but x": (
        i(replace={"w": None}),
        [(INTEGER, "input w is missing")],
    ),
    "everything at once": (
        q(
            shape=("N", 3, 6, 6),
            x_scale=NAN,
            w_scale=[1, 0, 1],
            y_scale=[1, 1],
            bias=np.ones(5, np.float32),
            replace={"x_zero_point": array(0, "int8")},
            group=-2,
            strides=[0, 1, 1],
            auto_pad="Valid",
            pads=[-1],
            foo=1,
            opset=8,
            outputs={"y": ("int8", None)},
        ),
        [
            ("input 'x'", "its shape is (N, 3, 6, 6); every dimension must be a known number"),
            (Q, "QLinearConv needs opset 10 of ai.onnx; the model imports 8"),
            (Q, "B is float, but must be int32"),
            (Q, "x_zero_point is int8, but x is uint8"),
            (Q, "the attribute 'foo' is unknown"),
            (Q, "auto_pad is 'Valid', which does not exist"),
            (Q, "group is -2, but must be at least 1"),
            (Q, "strides has 3 numbers, but w has 2 spatial axes"),
            (Q, "strides is (0, 1, 1), but every number must be at least 1"),
            (Q, "pads has 1 number, but w has 2 spatial axes"),
            (Q, "pads is (-1,), but every number must be at least 0"),
            (Q, "w_scale has 3 elements, but w has 4 output channels"),
            (Q, "y_scale has shape (2,), but must be one number"),
            (Q, "B has 5 elements, but w has 4 output channels"),
            (Q, f"x_scale is nan; {POSITIVE}"),
            (Q, f"w_scale of output channel 1 is 0.0; {POSITIVE}"),
        ],
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_all_problems_are_told_at_once(name):
    model, expected = SEVERAL[name]
    found = [(problem.where, problem.what) for problem in problems(model)]
    assert sorted(found) == sorted(expected)


def network(**options):
    """x -> conv_a -> hard_a -> hard_b -> strange -> conv_b -> y."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv_a", pads=[1, 1, 1, 1]),
        helper.make_node("Hardmax", ["a"], ["b"], name="hard_a"),
        helper.make_node("Hardmax", ["b"], ["c"], name="hard_b"),
        helper.make_node("Strange", ["c"], ["d"], name="strange", domain="made.up"),
        helper.make_node("Conv", ["d", "w"], ["y"], name="conv_b"),
    ]
    constants = {"w": random_weights((2, 2, 3, 3), "float32")}
    return graph_model(nodes, {"x": ("float", SHAPE)}, {"y": None}, constants, opsets={"made.up": 1}, **options)


def test_operators_that_are_not_supported_are_listed_with_their_nodes():
    hint = (
        "the operators that can be compiled are listed by: qcgen ops; export the model with these, or compile it up to"
        " there with --output TENSOR, or single nodes with --node"
    )
    found = [(problem.where, problem.what, problem.hint) for problem in problems(network())]
    assert found == [
        ("nodes 'hard_a', 'hard_b' (Hardmax)", "the operator Hardmax is not supported", hint),
        ("node 'strange' (made.up.Strange)", "the domain 'made.up' is unknown", hint),
    ]


def test_an_inner_tensor_that_is_declared_with_another_type_is_refused_once():
    found = [(problem.where, problem.what) for problem in problems(network(values={"a": ("int8", (1, 2, 6, 6))}))]
    assert (
        "tensor 'a'",
        "the model declares it as int8, but node 'conv_a' (Conv) computes float",
    ) in found
    assert len(found) == 3


def test_an_inner_tensor_that_is_declared_with_another_shape_is_no_problem():
    assert problems(network(values={"a": ("float", (1, 2, 9, 9))})) == problems(network())


def test_a_parameter_that_a_node_computes_names_the_node():
    nodes = [
        helper.make_node("Relu", ["v"], ["w"], name="weights"),
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv"),
    ]
    inputs = {"x": ("float", SHAPE), "v": ("float", (4, 2, 3, 3))}
    found = [problem.what for problem in problems(graph_model(nodes, inputs, {"y": None}))]
    assert "W is not constant: node 'weights' (Relu) computes it" in found


def test_a_model_that_computes_nothing_is_refused():
    nodes = [helper.make_node("Identity", ["c"], ["y"])]
    model = graph_model(nodes, {"x": ("float", (1,))}, {"y": None}, {"c": np.zeros(1, np.float32)})
    [problem] = problems(model)
    assert (problem.where, problem.what) == ("model", "nothing is left to compile: no output depends on an input")


def test_outputs_that_no_node_computes_are_refused():
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    model = graph_model([node], {"x": ("float", SHAPE)}, {"y": None, "x": None}, {"w": FLOATS})
    found = [(problem.where, problem.what) for problem in problems(model)]
    assert found == [("output 'x'", "it is an input handed through")]


def test_a_constant_image_is_refused():
    nodes = [helper.make_node("Conv", ["c", "w"], ["y"], name="conv1")]
    model = graph_model(nodes, {}, {"y": None}, {"c": np.zeros(SHAPE, np.float32), "w": FLOATS})
    [problem] = problems(model)
    assert (problem.where, problem.what) == (FLOAT, "all its inputs are constant")


def test_a_node_without_an_output_is_refused():
    nodes = [helper.make_node("Conv", ["x", "w"], [""], name="conv1"), helper.make_node("Conv", ["x", "w"], ["y"])]
    model = graph_model(nodes, {"x": ("float", SHAPE)}, {"y": None}, {"w": FLOATS})
    [problem] = problems(model)
    assert (problem.where, problem.what) == (FLOAT, "it has no output")


def test_inputs_of_types_without_use_are_refused():
    model = f()
    model.graph.input.append(helper.make_tensor_value_info("s", 8, [1]))
    [problem] = problems(model)
    assert problem.where == "input 's'"
    assert problem.what == "it is not a tensor, or its elements are of a type that is not supported"


def test_hostile_names_are_escaped_in_messages():
    [problem] = problems(q(node_name="a\n\x1b[31m'b'", group=0))
    assert problem.where == "node \"a\\n\\x1b[31m'b'\" (QLinearConv)"


# Models that look odd and are right.
GOOD = {
    "plain": q(),
    "scales as vectors of one": q(x_scale=[0.1], w_scale=[0.1], y_scale=[0.1], x_zero_point=[3], y_zero_point=[3]),
    "per-channel scale, one zero point": q(w_scale=[1, 2, 3, 4], w_zero_point=[7]),
    "one scale, per-channel zero points": q(w_zero_point=[1, 2, 3, 4]),
    "pads beyond the kernel": q(pads=[7, 0, 0, 9]),
    "windows wholly in padding": q(shape=(1, 2, 1, 1), pads=[5, 5, 5, 5]),
    "stride beyond the image": q(strides=[100, 100]),
    "SAME with dilation": q(auto_pad="SAME_LOWER", dilations=[3, 2]),
    "a kernel larger than the image with SAME": q(shape=(1, 2, 1, 1), auto_pad="SAME_UPPER"),
    "explicit defaults": q(
        auto_pad="NOTSET", pads=[0] * 4, group=1, kernel_shape=[3, 3], dilations=[1, 1], strides=[1, 1]
    ),
    "a tiny multiplier": q(x_scale=1e-20, w_scale=1e-20),
    "a large multiplier": q(x_scale=1e10, w_scale=1e10),
    "a symbolic output": q(outputs={"y": ("uint8", ("N", 4, None, "W"))}),
    "no zero points": i(),
    "an extra parameter of Relu": fused("Relu", 1.0),
    "Relu as a clip": fused("Relu", 0.0, 6.0),
    "Clip with infinite bounds": fused("Clip", 0.0, INF),
    "crossed bounds": fused("Clip", 6.0, 0.0),
    "parameters without an activation": f(op_type="FusedConv", domain=MICROSOFT, activation_params=[1.0]),
    "an empty activation": fused(""),
    "an absent bias": f(op_type="FusedConv", domain=MICROSOFT, replace={"B": None}),
    "opset 7": f(opset=7),
    "opset 10": q(opset=10),
    "domains that nobody uses": q(opsets={"com.microsoft.nchwc": 1, "ai.onnx.ml": 5, "made.up": 0}),
    "NHWC": f(shape=(1, 6, 6, 2), domain=NHWC),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_model_that_only_looks_odd_is_accepted(name):
    graph = rewrite(load(GOOD[name]))
    assert check(graph) is graph
    assert lower(graph).operators


def test_weights_and_parameters_behind_foldable_nodes_are_constant():
    model = q(replace={"w": np.zeros((4, 18), np.int8)})
    conv = model.graph.node[0]
    conv.input[3], conv.input[1] = "w4", "s"
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[4, 2, 3, 3])
    scale = helper.make_node("Constant", [], ["s"], value_float=0.5)
    model.graph.node.extend([shape, scale, helper.make_node("Reshape", ["w", "shape"], ["w4"])])
    graph = rewrite(load(model))
    assert check(graph) is graph


def odd_values(rng):
    """Attributes and tensors that no exporter writes."""
    numbers = [0, -1, 1, 2, 3, 2**31, 2**62, -(2**62)]
    value = int(rng.choice(numbers))
    return [
        value,
        [value] * int(rng.integers(1, 6)),
        float(value),
        "NOTSET",
        "SAME_UPPER",
        "x",
        [0.5],
        [1, 1],
        [1, 1, 1, 1],
        numpy_helper.from_array(np.zeros(2, np.float32)),
    ][int(rng.integers(10))]


def odd_array(rng):
    shape = tuple(rng.integers(0, 4, int(rng.integers(0, 5))))
    return rng.integers(-3, 4, shape).astype(rng.choice(["int8", "uint8", "int32", "float32", "float64", "bool"]))


def verdict(graph):
    """The problems of a graph, none if it is accepted."""
    try:
        check(graph)
    except ModelRejected as rejection:
        return rejection.problems
    return ()


@pytest.mark.parametrize("seed", range(300))
def test_a_model_changed_at_random_is_either_refused_or_lowered(seed):
    rng = np.random.default_rng(seed)
    names = ["auto_pad", "pads", "strides", "dilations", "group", "kernel_shape", "activation_params", "channels_last"]
    attributes = {str(name): odd_values(rng) for name in rng.choice(names, int(rng.integers(0, 4)), replace=False)}
    make = [q, i, f][seed % 3]
    roles = {
        q: ["x_scale", "w", "w_scale", "w_zero_point", "y_zero_point", "B"],
        i: ["w", "x_zero_point"],
        f: ["W", "B"],
    }
    replace = {str(role): odd_array(rng) for role in rng.choice(roles[make], int(rng.integers(0, 3)))}
    shape = [int(rng.choice([-1, 0, 1, 2, 3, 6, 2**40])) for _ in range(int(rng.integers(0, 7)))]
    model = make(shape=SHAPE if seed % 2 else shape, replace=replace, **attributes)
    graph = rewrite(load(model))
    assert isinstance(graph, Graph)
    found = verdict(graph)
    assert all(problem.where and problem.what and problem.hint for problem in found)
    if not found:
        [op] = lower(graph).operators
        assert op.y.shape == graph.value("y").shape


def test_nodes_are_looked_at_before_they_are_rewritten():
    """A pattern takes inputs, outputs and kinds of attributes for granted."""
    nodes = [
        helper.make_node("Resize", [], ["r"], name="larger", mode=[1.5]),
        helper.make_node("Relu", [], ["y"], name="relu"),
    ]
    with pytest.raises(ModelRejected) as rejection:
        well_formed(load(graph_model(nodes, {"x": ("float", (1, 3, 4, 4))}, {"r": None, "y": None})))
    assert [(problem.where, problem.what) for problem in rejection.value.problems] == [
        ("node 'larger' (Resize)", "input X is missing"),
        ("node 'larger' (Resize)", "mode is a list of numbers, but must be a string"),
        ("node 'relu' (Relu)", "input X is missing"),
    ]
