"""Convolutions of double: what ONNX means, summed in double; onnxruntime 1.32.0 has none."""

from dataclasses import replace

import numpy as np
import pytest
from batch import require
from models import NHWC, float_conv, graph_model
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import qcgen
from qcgen.reference.tolerance import RELATIVE, TO_DOUBLE
from qcgen.verification import verify

SHAPES = {
    "dense": ((2, 20, 5, 5), (3, 20, 3, 3), {"pads": [1, 0, 1, 1]}),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), {"group": 4, "strides": [2, 1]}),
    "of one axis": ((1, 3, 9), (5, 3, 2), {"dilations": [3]}),
    "pointwise": ((1, 8, 3, 3), (4, 8, 1, 1), {}),
}


def draw(shape, seed):
    return np.random.RandomState(seed).standard_normal(shape)


def conv(shape, w, **options):
    return float_conv(shape, draw(w, 1), draw(w[:1], 2), replace={"X": ("double", shape)}, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_sums_are_those_of_onnxs_reference_in_double(name):
    require("gcc")
    shape, w, options = SHAPES[name]
    model = conv(shape, w, **options)
    [y] = qcgen.compile(model, name="net").load(("-O1", "-Wdouble-promotion")).run(None, {"X": draw(shape, 3)})
    reference = ReferenceEvaluator(model)
    [z] = reference.run(None, {"X": draw(shape, 3)})
    assert y.dtype == z.dtype == np.float64
    assert np.abs(y - z).max() <= RELATIVE * TO_DOUBLE * 200


@pytest.mark.parametrize("name", SHAPES)
def test_verify_passes_and_finds_a_bias_in_float(name):
    require("gcc")
    shape, w, options = SHAPES[name]
    artifact = qcgen.compile(conv(shape, w, **options), name="net")
    assert verify(artifact).is_right
    wrong = artifact.files["net.c"].replace("? bias[group", "? (double)(float)bias[group")
    assert wrong != artifact.files["net.c"]
    assert not verify(replace(artifact, files={**artifact.files, "net.c": wrong})).is_right


BOUNDS = {"": (-np.inf, np.inf), "Relu": (0, np.inf), "Clip": (-0.5, 0.75)}


@pytest.mark.parametrize("activation", BOUNDS)
def test_the_convolution_of_com_ms_internal_nhwc_and_its_bounds(activation):
    require("gcc")
    low, high = BOUNDS[activation]
    own = {"activation": activation} if activation else {}
    own |= {"activation_params": [low, high]} if activation == "Clip" else {}
    model = conv((1, 4, 4, 3), (2, 3, 2, 2), domain=NHWC, **own)
    x = draw((1, 4, 4, 3), 4)
    [y] = qcgen.compile(model, name="net").load(("-O1", "-Wdouble-promotion")).run(None, {"X": x})
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    [z] = qcgen.compile(conv((1, 3, 4, 4), (2, 3, 2, 2)), name="net").load(("-O1",)).run(None, {"X": first})
    assert (
        np.abs(y - np.clip(z, low, high).transpose(0, 2, 3, 1)).max() <= 1e-14
    )  # the order of the terms is another one


def test_a_network_of_double_with_float_at_its_ends():
    require("gcc")
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE),
        helper.make_node("Conv", ["a", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"w": draw((4, 3, 3, 3), 5), "w2": draw((2, 4, 1, 1), 6)}
    model = graph_model(nodes, {"x": ("float", (1, 3, 5, 5))}, {"y": None}, constants, opset=17)
    artifact = qcgen.compile(model, name="net")
    assert verify(artifact).is_right
    assert artifact.plan.arena_align == 8
    assert artifact.report.constants_bytes == 8 * (108 + 8)
    x = draw((1, 3, 5, 5), 7).astype(np.float32)
    [y] = artifact.load().run(None, {"x": x})
    [z] = ReferenceEvaluator(model).run(None, {"x": x})
    assert np.array_equal(y, z)


def test_what_double_does_not_have_is_refused():
    shape, w = (1, 4, 4, 3), (2, 3, 2, 2)
    with pytest.raises(qcgen.ModelRejected, match="activation 'Tanh' of double is not supported"):
        qcgen.compile(conv(shape, w, domain=NHWC, activation="Tanh"))
    mixed = float_conv((1, 3, 4, 4), draw(w, 1).astype(np.float32), replace={"X": ("double", (1, 3, 4, 4))})
    with pytest.raises(qcgen.ModelRejected, match="W is float, but X is double"):
        qcgen.compile(mixed)
    broken = draw(w, 1)
    broken[0] = np.inf
    with pytest.raises(qcgen.ModelRejected, match="12 elements of W are not finite"):
        qcgen.compile(float_conv((1, 3, 4, 4), broken, replace={"X": ("double", (1, 3, 4, 4))}))
