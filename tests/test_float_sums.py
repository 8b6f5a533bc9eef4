"""Sums and means of float32 numbers are onnxruntime's, bit for bit: in the reference and in the C, along any axes."""

from ctypes import CDLL, c_float
from ctypes.util import find_library
from itertools import combinations

import numpy as np
import pytest
from judged import judge
from marks import share_at_first
from models import graph_model
from onnx import TensorProto, helper
from tools import require

import qcgen
from qcgen.build import load
from qcgen.functions import log_from_one
from qcgen.reference import evaluate
from qcgen.reference.tolerance import exact

SHAPES = ((33,), (4, 9), (5, 30), (3, 10, 6), (1, 23, 6), (2, 6, 7, 3), (1, 8, 4, 10), (2, 5, 3, 4), (3, 1, 9, 1, 4))
CASES = [
    (op_type, shape, axes)
    for shape in SHAPES
    for count in range(1, len(shape) + 1)
    for axes in combinations(range(len(shape)), count)
    for op_type in ("ReduceSum", "ReduceMean")
]


def reduction(op_type, shape, axes, keepdims):
    """A model of one reduction of float32 numbers."""
    node = helper.make_node(op_type, ["x"], ["y"], name="node", axes=axes, keepdims=keepdims)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "reduction", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)


@pytest.mark.parametrize("case", share_at_first(CASES, 9), ids=str)
def test_a_sum_is_onnxruntimes(case):
    require("gcc")
    op_type, shape, axes = case
    model = reduction(op_type, shape, axes, keepdims=len(axes) % 2)
    artifact = qcgen.compile(model, name="sums")
    feeds = {"x": np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)}
    [expected] = judge(model, feeds)
    [found] = evaluate(artifact.program, feeds).values()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(load(artifact.plan, artifact.files).run(None, feeds)[0], expected)
    assert exact(artifact.program) >= {"y"}


def has_logf_of_glibc():
    """Whether this machine's logf gives what the reference computes, for 5,000 numbers."""
    name = find_library("m")
    if name is None:
        return False
    logf = CDLL(name).logf
    logf.argtypes, logf.restype = [c_float], c_float
    x = np.linspace(1, 100, 5000, dtype=np.float32)
    return np.array_equal(np.array([logf(each) for each in x], np.float32), log_from_one(x))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("length", [1, 3, 10, 16, 29, 70])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_a_softmax_is_onnxruntimes(op_type, length, layout):
    """Of 192 rows, whose exponentials onnxruntime adds up by AVX512F; it calls this machine's logf."""
    require("gcc")
    if op_type == "LogSoftmax" and not has_logf_of_glibc():
        pytest.skip("the C library's logf differs from that of glibc 2.36")
    pool = helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 2])
    nodes = [pool, helper.make_node(op_type, ["m"], ["y"], axis=1)]
    model = graph_model(nodes, {"x": ("float", (4, length, 6, 9))}, {"y": None})
    x = np.random.default_rng(length).normal(0, 2, (4, length, 6, 9)).astype(np.float32)
    artifact = qcgen.compile(model, name="shares", layout=layout)
    [expected] = judge(model, {"x": x})
    [found] = evaluate(artifact.program, {"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "nhwc" else x
    [found] = artifact.load().run(None, {"x": given})
    np.testing.assert_array_equal(found, expected)
