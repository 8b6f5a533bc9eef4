"""Layers between dynamic quantization that run row by row in a small arena, many twice: onnxruntime's numbers."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from architectures.builder import Net
from architectures.oracle import feeds, quantized
from emulated import require_core
from interpreter import Interpreter
from judged import judge
from marks import share_at_first, some_at_first
from onnx import ModelProto
from tools import require, require_modules

import qcgen
from qcgen.artifact import Artifact
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.errors import ModelRejected
from qcgen.ir.plan import Port
from qcgen.ir.program import Conv, FloatOutput
from qcgen.ir.types import DType
from qcgen.plan.arrange import steps_of
from qcgen.plan.stream.twice import floats_of

pytestmark = pytest.mark.usefixtures("onnxruntime")


@pytest.fixture(scope="module")
def onnxruntime():
    require_modules("onnxruntime")


def separable() -> ModelProto:
    """Strides, pads of one and two rows, a depthwise layer, a layer without pads; a larger output than input."""
    net = Net()
    x = net.conv_act(net.input(1, 3, 22, 9), 6, 3, 2, "ReLU6")
    x = net.act(net.depthwise(net.conv_act(x, 16, 1), 5, pads=[2, 1, 1, 2]), "LeakyRelu")
    return net.model(net.mean(net.conv_act(net.conv(x, 8, 1), 8, (2, 3), 1, pads=[0, 1, 0, 1])))


def residual() -> ModelProto:
    """Sums of floats that are kept, a batch normalization in front of a quantization, a MaxPool, dilated windows."""
    net = Net(2)
    x = net.conv(net.input(1, 2, 24, 10), 8)
    first = net.relu(net.normal(x))
    x = net.add(net.conv(net.relu(net.conv(first, 8)), 8), x)
    x = net.relu(net.normal(x))
    x = net.max_pool(net.conv_act(x, 12, 3, dilation=2))
    return net.model(net.mean(net.conv(net.conv_act(x, 12), 10)))


def normalized() -> ModelProto:
    """The caller's floats, from which a number is subtracted and which are divided; no zero point is 0."""
    net = Net(3)
    x = net.node("Div", net.node("Sub", net.input(1, 3, 12, 10), net.weights(3, 1, 1)), net.constant(np.float32(0.3)))
    x = net.conv(net.conv(net.having(x, 3), 8, 5), 16, 3, 2)
    return net.model(net.conv(x, 4))


def branches() -> ModelProto:
    """Layers of the same codes, whose floats are joined; floats of both that are added, and read again."""
    net = Net(4)
    x = net.conv_act(net.input(1, 2, 20, 9), 8, 3)
    x = net.concat(net.conv_act(x, 12, 1), net.conv_act(x, 12, 3), axis=1)
    x = net.conv_act(x, 8, 1)
    x = net.add(net.conv(x, 16, 1), net.conv(x, 16, 3))
    return net.model(net.mean(net.add(net.conv(net.relu(x), 16, 3), x)))


def pooled() -> ModelProto:
    """Floats that are there as a whole behind a pool, since more than a quantization reads them; pads beside a pool."""
    net = Net(5)
    x = net.max_pool(net.conv_act(net.input(1, 3, 32, 16), 12, 3), 3, 2, pads=[1, 1, 1, 1])
    x = net.add(net.conv(x, 12, 1), x)
    x = net.conv(net.node("AveragePool", net.conv_act(x, 24, 3), kernel_shape=[2, 2], strides=[2, 2]), 16)
    return net.model(net.mean(x))


def upsampled() -> ModelProto:
    """Rows that are repeated, joined with those of an earlier layer."""
    net = Net(6)
    first = net.conv_act(net.input(1, 2, 16, 12), 8, 3)
    x = net.upsample(net.conv_act(net.conv_act(first, 8, 3, 2), 16, 3))
    return net.model(net.conv(net.conv_act(net.concat(x, first), 8, 3), 2, 1))


def sequence() -> ModelProto:
    """Convolutions of one axis: with a stride, in groups, causal ones with dilations; sums of earlier floats."""
    net = Net(7)
    x = net.max_pool(net.conv_act(net.input(1, 4, 96), 16, (5,)), rank=1)
    x = net.conv_act(net.depthwise(x, (3,), dilation=2, pads=[4, 0]), 24, (1,))
    x = net.add(net.conv(net.conv_act(x, 24, (3,), dilation=4, pads=[8, 0]), 24, (3,), 1), x)
    return net.model(net.conv(net.relu(x), 6, (9,), 2))


def vectors() -> ModelProto:
    """Products of vectors with matrices, whose floats take most of the memory."""
    net = Net(8)
    x = net.gemm(net.having(net.input(16, 12), 12), 48)
    x = net.gemm(net.node("Tanh", net.gemm(net.relu(x), 12)), 40)
    return net.model(net.gemm(net.node("LeakyRelu", x), 3))


def tokens() -> ModelProto:
    """Products of sequences, which onnxruntime's optimizer writes between Reshapes, and a function between these."""
    net = Net(9)
    wide, narrow = (net.weights(*shape, size=0.3) for shape in ((12, 48), (48, 12)))
    x = net.add(net.node("MatMul", net.input(1, 16, 12), wide), net.weights(48))
    x = net.add(net.node("MatMul", net.node("Tanh", x), narrow), net.weights(12))
    return net.model(net.node("MatMul", x, net.weights(12, 5)))


def stacks() -> ModelProto:
    """Products of matrices in two axes: a row holds one matrix, whose own rows the product's axis counts."""
    net = Net(15)
    x = net.node("MatMul", net.input(2, 8, 6, 12), net.weights(12, 40))
    return net.model(net.node("MatMul", net.node("Tanh", x), net.weights(40, 9)))


def tall() -> ModelProto:
    """Windows of more rows than images have, with and without gaps, of as many, and of one more than fit at once."""
    net = Net(10)
    x = net.conv_act(net.input(1, 3, 12, 18), 16, (9, 3), dilation=2)
    x = net.conv_act(net.depthwise(net.conv_act(x, 24, (15, 3)), (13, 5)), 12, (12, 1), pads=[6, 0, 5, 0])
    return net.model(net.conv(x, 4, 1))


def interpolated() -> ModelProto:
    """Rows between two others, by half pixels and from corner to corner, of a single row, and rows taken unevenly."""
    net = Net(13)
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    first = net.conv_act(net.input(1, 2, 16, 16), 8, 3)
    low = net.conv_act(net.conv_act(first, 8, 3, 2), 12, 3, 2)
    x = net.concat(
        net.upsample(low, 4, **linear), first, net.upsample(net.node("GlobalAveragePool", low), 16, **linear)
    )
    x = net.conv_act(net.having(x, 32), 8, 3, 2)
    x = net.upsample(x, 2, mode="linear", coordinate_transformation_mode="align_corners")
    return net.model(net.conv(net.having(net.upsample(net.conv(net.having(x, 8), 8), 1.5), 8), 4))


def places() -> ModelProto:
    """Sums and products with numbers of each place, as with embeddings of places, in sequences and in images."""
    net = Net(14)
    x = net.add(net.node("MatMul", net.node("Relu", net.input(1, 16, 12)), net.weights(12, 40)), net.weights(1, 16, 40))
    x = net.node("Mul", net.node("MatMul", net.node("Tanh", x), net.weights(40, 32)), net.weights(16, 32))
    image = net.having(net.node("Transpose", net.reshape(x, 1, 16, 8, 4), perm=[0, 3, 1, 2]), 4)
    image = net.having(net.node("Mul", net.relu(net.conv(image, 24)), net.weights(16, 1)), 24)
    image = net.conv_act(net.having(net.add(net.weights(1, 1, 16, 8), net.conv(image, 24)), 24), 24)
    return net.model(net.conv(image, 4))


def batch() -> ModelProto:
    """Three images: padded pools, strides, dilations, sums, rows that are repeated and joined; factors of images."""
    net = Net(11)
    first = net.conv_act(net.input(3, 2, 20, 12), 8, 3)
    x = net.max_pool(net.conv_act(first, 16, 3), 3, 2, pads=[1, 1, 1, 1])
    x = net.add(net.conv(net.conv_act(net.conv_act(x, 16, 3, dilation=2), 16, 1), 16, 3, pads=[2, 0, 0, 2]), x)
    x = net.having(net.node("Mul", net.relu(x), net.weights(10, 1)), 16)
    x = net.concat(net.upsample(net.act(net.depthwise(x, 5), "LeakyRelu")), first)
    x = net.conv_act(net.conv_act(net.having(x, 24), 16, 3, 2), 8, 1)
    x = net.having(net.node("Mul", net.squeeze_excite(x, 4), net.weights(3, 1, 1, 1)), 8)
    return net.model(net.mean(net.conv(x, 8, 3)))


def sequences() -> ModelProto:
    """Five sequences, and tokens of them, some of which are products of matrices."""
    net = Net(12)
    x = net.conv_act(net.conv_act(net.input(5, 4, 24), 16, (5,)), 24, (3,), 2, pads=[2, 0])
    x = net.node("Transpose", net.add(net.conv(net.conv_act(x, 24, (1,)), 24, (3,)), x), perm=[0, 2, 1])
    x = net.node("Tanh", net.node("MatMul", x, net.weights(24, 40)))
    return net.model(net.node("MatMul", x, net.weights(40, 3)))


NETWORKS = {
    each.__name__: each
    for each in (
        *(separable, residual, normalized, branches, pooled, upsampled, sequence, vectors, tokens),
        *(stacks, tall, interpolated, places, batch, sequences),
    )
}


@cache
def network(name: str) -> ModelProto:
    return quantized(NETWORKS[name](), "dynamic")


@cache
def artifact(name: str, arena: int | str | None, layout: str = "nhwc", target: str = "portable") -> Artifact:
    return qcgen.compile(network(name), name="network", layout=layout, arena=arena, target=target)


def arenas(name: str, layout: str) -> list[int | str]:
    """The least, and some between it and what the network needs whole."""
    whole, least = (artifact(name, arena, layout).plan.arena_bytes for arena in (None, "least"))
    return ["least", *(least + (whole - least) * part // 4 for part in (1, 2, 3))]


def inputs(model: ModelProto) -> list[dict[str, np.ndarray]]:
    """Random numbers, some of them of one sign, large ones, one number for all, zeros."""
    drawn = [feeds(model, seed)["x"] for seed in range(3)]
    drawn += [np.abs(drawn[0]), -np.abs(drawn[1]), drawn[2] * np.float32(1e20), drawn[0] * 0 + np.float32(0.7)]
    return [{"x": x} for x in (*drawn, drawn[0] * 0)]


def held(x: np.ndarray, port: Port) -> np.ndarray:
    """The tensor as the caller holds it."""
    return x if x.shape == port.shape else np.moveaxis(x, 1, -1)


@pytest.mark.parametrize("layout", some_at_first(["nhwc", "model"]))
@pytest.mark.parametrize("name", some_at_first(NETWORKS, "pooled"))
def test_outputs_are_those_of_onnxruntime_in_every_arena(name, layout):
    require("gcc")
    model = network(name)
    expected = [judge(model, each) for each in inputs(model)]
    for arena in (None, *arenas(name, layout)):
        loaded, (port, *ports) = artifact(name, arena, layout).load(), artifact(name, arena, layout).plan.ports
        for number, (each, wanted) in enumerate(zip(inputs(model), expected, strict=True)):
            found = loaded.run(None, {"x": held(each["x"], port)})
            for got, y, out in zip(found, wanted, ports, strict=True):
                assert np.array_equal(got, held(y, out)), (arena, number)


@pytest.mark.all
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_so_on_cores_with_floats_in_software_and_in_hardware(name, core, tmp_path):
    require_core(core, counting=False)
    made = artifact(name, "least", target=core)
    given, model = inputs(network(name)), network(name)
    port, *ports = made.plan.ports
    trials = [Trial({"x": held(each["x"], port)}, garbage=number) for number, each in enumerate(given)]
    found = emulate(cross_build(core, [made], ("-O1",), tmp_path), trials)
    for outcome, each in zip(found, given, strict=True):
        for out, y in zip(ports, judge(model, each), strict=True):
            assert np.array_equal(outcome.outputs[out.tensor.name], held(y, out))


@pytest.mark.parametrize("name", some_at_first(NETWORKS, "pooled"))
def test_every_row_is_there_when_it_is_read(name):
    for arena in arenas(name, "nhwc"):
        Interpreter(artifact(name, arena).plan).run()


def test_sums_of_branches_are_not_there_side_by_side():
    steps = steps_of(qcgen.compile(network("branches"), layout="nhwc").planned, "nhwc")
    for sums, output in pairwise(steps):
        if isinstance(sums.op, Conv) and sums.op.y.dtype is DType.INT32:
            assert isinstance(output.op, FloatOutput)
            assert output.op.x.name == sums.op.y.name


def test_an_output_step_runs_so_together_with_its_convolution_alone():
    artifact = qcgen.compile(network("separable"), layout="nhwc")
    steps, constants = steps_of(artifact.planned, "nhwc"), artifact.planned.constants
    first = next(index for index, step in enumerate(steps) if isinstance(step.op, FloatOutput))
    assert any(floats_of(steps, first - 1, constants, 1))
    assert not any(floats_of(steps, first, constants, 1))


def test_an_arena_that_is_too_small_is_refused_with_the_node_that_needs_most():
    with pytest.raises(ModelRejected, match=r"most of them for node 'conv_\w+' \(ConvInteger\), which runs row by row"):
        artifact("branches", 100)


@pytest.mark.parametrize("layout", some_at_first(["nhwc", "model"]))
@pytest.mark.parametrize("name", share_at_first(list(NETWORKS)))
def test_the_least_arena_holds_codes_of_most_tensors_alone(name, layout):
    whole, least = (artifact(name, arena, layout).plan for arena in (None, "least"))
    assert {call.passes for call in whole.calls} == {1}
    twice = {"sequence": 2, "pooled": 0, "tokens": 2, "stacks": 2, "upsampled": 2}.get(name, 4)
    assert sum(call.passes == 2 for call in least.calls) >= twice
    assert least.arena_bytes < {"nhwc": 0.6, "model": 0.65}[layout] * whole.arena_bytes
