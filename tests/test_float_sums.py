"""Sums and means of float32 numbers are onnxruntime's, bit for bit: in the reference and in the C, along any axes."""

from ctypes import CDLL, c_float
from ctypes.util import find_library
from itertools import combinations

import numpy as np
import pytest
from judged import assert_judged, judge
from marks import share_at_first
from models import graph_model, node_model
from onnx import helper

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
    return node_model(op_type, {"x": ("float", shape)}, opset=12, axes=axes, keepdims=keepdims)


def drawn(seed, shape, spread=1):
    return {"x": np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)}


def assert_equal(model, feeds, **options):
    """The reference and the C give onnxruntime's numbers."""
    artifact = assert_judged(model, feeds, named=None, exact=True, **options)
    [found] = evaluate(artifact.program, feeds).values()
    np.testing.assert_array_equal(found, judge(model, feeds)[0])
    return artifact


@pytest.mark.parametrize("case", share_at_first(CASES, 9), ids=str)
def test_a_sum_is_onnxruntimes(case):
    op_type, shape, axes = case
    artifact = assert_equal(reduction(op_type, shape, axes, keepdims=len(axes) % 2), drawn(len(shape), shape))
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
    if op_type == "LogSoftmax" and not has_logf_of_glibc():
        pytest.skip("the C library's logf differs from that of glibc 2.36")
    pool = helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 2])
    nodes = [pool, helper.make_node(op_type, ["m"], ["y"], axis=1)]
    model = graph_model(nodes, {"x": ("float", (4, length, 6, 9))}, {"y": None})
    assert_equal(model, drawn(length, (4, length, 6, 9), 2), layout=layout)
