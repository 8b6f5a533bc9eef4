"""The windows that judge small geometries, held against onnx.reference and onnxruntime."""

from dataclasses import replace

import numpy as np
import pytest
from judged import judge as judged_by_onnxruntime
from models import node_model
from onnx.reference import ReferenceEvaluator
from small_geometries import AXES, always, planes
from small_geometries_kernels import is_pooled
from windows import attributes, convolved, largest, means

from qcgen.geometry import Window


@pytest.fixture
def step(everything) -> int:
    """Of how many images one is taken."""
    return 4 if everything else 40


def asked(op_type, x, axes, operands=(), opset=19, **more):
    """A model of one node and its inputs."""
    dtype = {"uint8": "uint8", "float32": "float"}[x.dtype.name]
    outputs = {"y": ("int32" if operands else dtype, None)}
    given = {**attributes(axes), **more}
    return node_model(op_type, {"x": (dtype, x.shape), **dict(operands)}, outputs, opset=opset, **given), {"x": x}


def by_onnxruntime(model, feeds):
    """Judges poolings alone: those of onnx.reference are wrong at some borders."""
    return judged_by_onnxruntime(model, feeds)[0]


def by_onnx(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)[0]


def image(axes):
    return np.random.default_rng(1).integers(0, 256, (2, 4, *(axis.size for axis in axes))).astype(np.uint8)


@pytest.mark.parametrize("judge", [by_onnx, by_onnxruntime])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolutions(judge, group, step):
    for axes in planes(AXES, always)[::step]:
        x = image(axes)
        w = np.random.default_rng(2).integers(-60, 61, (4, 4 // group, *(axis.kernel for axis in axes))).astype(np.int8)
        operands = {"w": w, "x_zero_point": np.array(7, np.uint8)}
        expected = convolved(x.astype(np.int64) - 7, w.astype(np.int64), axes, group)
        assert np.array_equal(judge(*asked("ConvInteger", x, axes, operands, group=group)), expected), axes


@pytest.mark.parametrize("ceil", [False, True])
def test_poolings(ceil, step):
    for axes in planes(tuple(filter(is_pooled, AXES)), always)[::step]:
        given = {"kernel_shape": [axis.kernel for axis in axes], "ceil_mode": int(ceil)}
        x, axes = image(axes), tuple(replace(axis, ceil=ceil) for axis in axes)
        assert np.array_equal(by_onnxruntime(*asked("MaxPool", x, axes, **given)), largest(x, axes)), axes
        for counts in (False, True)[: 1 if ceil else 2]:  # qcgen refuses both at once
            real = x.astype(np.float32)
            model = asked("AveragePool", real, axes, count_include_pad=int(counts), **given)
            assert np.allclose(by_onnxruntime(*model), means(real, axes, counts), rtol=1e-6), axes


def test_a_line(step):
    for axis in AXES[::step]:
        x, w = image((axis,)), np.ones((1, 4, axis.kernel), np.uint8)
        expected = convolved(x.astype(np.int64), w.astype(np.int64), (axis,))
        assert np.array_equal(by_onnx(*asked("ConvInteger", x, (axis,), {"w": w})), expected), axis


@pytest.mark.parametrize("ceil", [False, True])
def test_qcgen_counts_as_many(ceil):
    for axis in AXES:
        pads = (axis.begin,), (axis.end,)
        window = Window((axis.kernel,), (axis.stride,), (axis.dilation,), *pads, "NOTSET", ceil_mode=ceil)
        assert window.axis(0, axis.size).output == replace(axis, ceil=ceil).outputs, axis
