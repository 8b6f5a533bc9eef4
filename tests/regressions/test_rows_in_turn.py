"""Layers that run row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from batch import call, require
from bench.compiling import Network
from gallery_networks import in_rows
from interpreter import Interpreter
from models import graph_model, qlinear_conv
from onnx import TensorProto, helper, numpy_helper
from qdq import A, B, Chain

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.ir.plan import InArena
from qcgen.reference import evaluate
from qcgen.render import render
from qcgen.verification import verify

# A stride beyond the kernel passes rows that no window reads: rows in turn were written in front of their buffer.
IMAGE = np.random.default_rng(0).integers(-128, 128, (1, 4, 16, 16)).astype(np.int8)


@pytest.mark.parametrize(("kernel", "pads", "stride"), [(3, 1, 4), (1, 0, 2), (2, 1, 5), (1, 0, 7)])
@pytest.mark.parametrize("layers", [1, 2])
def test_outputs_of_rows_in_turn_are_right(layers, kernel, pads, stride):
    names = ["x", *(f"h{i}" for i in range(layers)), "y"]
    windows = [(3, 1, 1)] * layers + [(kernel, pads, stride)]
    nodes = [
        helper.make_node("MaxPool", [x], [y], kernel_shape=[k, k], pads=[pad] * 4, strides=[step, step])
        for x, y, (k, pad, step) in zip(names, names[1:], windows, strict=False)
    ]
    model = graph_model(nodes, {"x": ("int8", IMAGE.shape)}, {"y": None})
    artifact = qcgen.compile(model, arena="least", layout="nhwc")
    assert artifact.plan.arena_bytes < IMAGE.nbytes
    [y] = artifact.load().run(None, {"x": IMAGE.transpose(0, 2, 3, 1).copy()})
    assert np.array_equal(y.transpose(0, 3, 1, 2), evaluate(artifact.program, {"x": IMAGE})["y"])


# Two streams copied rows of one tensor, and their copies had one name: the place of one of them was that of the other.
# With `--arena least` rows lay over other rows, and outputs were wrong (`make fuzz-networks SEED=14 ONLY=21731`).
def branches():
    """Two branches, each of which begins with rows of x beside rows of padding, three and seven of them."""
    n = Network((1, 1, 24, 6))
    outputs = [n.conv(n.depthwise(n.conv("x", 8, kernel)), 2) for kernel in (3, 7)]
    model = n.model(outputs[0])
    model.graph.output.append(helper.make_tensor_value_info(outputs[1], TensorProto.INT8, (1, 2, 24, 6)))
    return model


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
def test_copies_of_two_streams_have_a_place_each(target):
    artifact = qcgen.compile(branches(), layout="nhwc", io="quantized", arena="least", target=target)
    assert len(artifact.plan.streams) == 2
    assert len([buffer for buffer in artifact.plan.buffers if buffer.name == "x"]) == 2
    require("gcc")
    assert verify(artifact, cases=4, flags=("-O1",), oracle="own", sums=False).is_right


# Rows that are pushed are computed before the caller says where outputs lie: not into what an output is a view of.
def reshaped(is_whole):
    """A table of an image, reshaped; as a part of a Concat if it is not the whole output."""
    chain = Chain()
    table = chain.quantize(chain.node("Tanh", [chain.dequantize("x", A)]), B)
    if not is_whole:
        other = chain.quantize(chain.node("Sigmoid", [chain.dequantize(table, B)]), B)
        table = chain.node("Concat", [table, other], axis=1)
    chain.node("Reshape", [table, chain.constant("shape", [5, -1])], "y")
    return chain.model((1, 5, 7, 5), x_type="uint8")


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_output_that_views_what_rows_write_is_refused_in_memory_of_the_caller(is_whole):
    with pytest.raises(qcgen.ModelRejected, match="before the caller says where outputs lie"):
        qcgen.compile(reshaped(is_whole), layout="nhwc", input="rows")


def test_in_the_arena_such_an_output_is_right():
    artifact = qcgen.compile(reshaped(True), layout="nhwc", input="rows", io_memory="arena")
    assert verify(artifact, cases=2).is_right


# Layers in rows that keep none in the arena left a variable unused; images of many rows took long to plan.
def tables(height):
    """Two tables behind each other."""
    n = Network((1, 4, height, 4))
    return n.model(n.sigmoid(n.sigmoid("x")))


def test_nothing_in_the_arena_needs_no_variable(tmp_path):
    require("gcc")
    artifact = qcgen.compile(tables(6), layout="nhwc", arena="least", name="net")
    artifact.write(tmp_path)
    call(["gcc", *STRICT_FLAGS, "-c", "net.c"], tmp_path)
    assert verify(artifact, cases=2).is_right


@pytest.mark.parametrize(("height", "runs_in_rows"), [(1024, True), (1025, False), (100_000, False)])
def test_images_of_many_rows_do_not_run_row_by_row(height, runs_in_rows):
    n = Network((1, 1, height, 2))
    model = n.model(n.conv(n.conv("x", 2, 3), 2, 3))
    assert bool(qcgen.compile(model, layout="nhwc", arena="least").plan.streams) == runs_in_rows


# Rows of uint8 codes that lay in an output of int8 codes were passed as int8: C that did not compile.
def unsigned_on_the_way():
    """Two convolutions, then functions of one tensor to uint8 codes and back to int8."""
    n = Network((1, 3, 12, 6))
    y = n.conv(n.conv("x", 4, 3), 4, 3)
    model = n.model(y)
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.uint8(128), "unsigned"))
    steps = [
        ("DequantizeLinear", [y, "s", "z"]),
        ("Sigmoid", ["t0"]),
        ("QuantizeLinear", ["t1", "s", "unsigned"]),
        ("DequantizeLinear", ["t2", "s", "unsigned"]),
        ("Relu", ["t3"]),
        ("QuantizeLinear", ["t4", "s", "z"]),
    ]
    for index, (op_type, inputs) in enumerate(steps):
        graph.node.append(helper.make_node(op_type, inputs, [f"t{index}"], name=f"n{index}"))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("t5", TensorProto.INT8, (1, 4, 12, 6)))
    return model


def test_a_row_is_passed_as_what_the_function_takes(tmp_path):
    require("gcc")
    artifact = qcgen.compile(unsigned_on_the_way(), layout="nhwc", arena="least", name="net", simplify=False)
    assert artifact.plan.streams
    artifact.write(tmp_path)
    call(["gcc", *STRICT_FLAGS, "-c", "net.c"], tmp_path)
    assert verify(artifact, cases=2).is_right


# x + x among layers that run row by row: the second operand was row 0 at every call, or the planner failed.
#
# It dropped the rows that both operands read twice after a call; and of two readers of a tensor it did not see that the
# one that reads a row of padding below the image reads further ahead.
def at_the_source(n: Network) -> str:
    return n.conv(n.conv(n.sum("x", "x"), 6, 3), 4, 3)


def between_convolutions(n: Network) -> str:
    y = n.conv("x", 6, 3)
    return n.mean(n.sum(z := n.depthwise(n.product(y, y), 5), z))


def beside_a_convolution(n: Network) -> str:
    return n.conv(n.sum(n.product("x", "x"), n.conv("x", 3, 3)), 3, 3)


def again_and_again(n: Network) -> str:
    y = n.product("x", "x")
    return n.conv(n.sum(n.sum(y, "x"), n.depthwise(y)), 8, 3, 2)


NETWORKS = (at_the_source, between_convolutions, beside_a_convolution, again_and_again)
OPTIONS = (
    {"arena": "least"},
    {"arena": "least", "io_memory": "arena", "target": "cortex-m0"},
    {"input": "rows", "io_memory": "arena"},
    {"input": "rows", "target": "cortex-m3"},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
@pytest.mark.parametrize("network", NETWORKS)
def test_both_operands_are_the_same_rows(network, options):
    n = Network((1, 3, 24, 6))
    artifact = qcgen.compile(n.model(network(n)), layout="nhwc", io="quantized", **options)
    assert artifact.plan.streams or network is between_convolutions
    Interpreter(artifact.plan).run()


@pytest.mark.parametrize("network", NETWORKS)
def test_the_c_computes_what_networks_with_such_operands_mean(network):
    require("gcc")
    n = Network((1, 3, 24, 6))
    model = n.model(network(n))
    artifact = qcgen.compile(model, layout="nhwc", io="quantized", arena="least")
    whole = qcgen.compile(model, layout="nhwc", io="quantized")
    [port] = whole.plan.inputs
    feeds = {port.tensor.name: np.random.default_rng(4).integers(-128, 128, port.shape).astype(np.int8)}
    found, expected = (each.load(("-O0",)).run(None, feeds) for each in (artifact, whole))
    assert np.array_equal(found, expected)


@pytest.mark.all
def test_pushed_rows_are_the_same_for_both_operands():
    require("gcc")
    n = Network((1, 3, 24, 6))
    artifact = qcgen.compile(n.model(at_the_source(n)), layout="nhwc", io="quantized", input="rows")
    assert verify(artifact, cases=2).is_right


# Rows of padding beside an image of one pixel, which lies in any order of axes: beside other rows it has one.
def spread():
    """The mean of an image, which padding spreads to an image of three rows."""
    n = Network((1, 16, 5, 5))
    model = n.model(n.mean(n.conv(n.depthwise(n.mean("x")), 2)))
    spread = model.graph.node[1]
    [given] = [each for each in spread.attribute if each.name == "pads"]
    given.CopyFrom(helper.make_attribute("pads", [2, 2, 2, 2]))
    return model


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_convolution_of_one_pixel_in_rows(layout, target):
    require("gcc")
    artifact = qcgen.compile(spread(), layout=layout, arena="least", target=target)
    assert artifact.plan.streams
    assert verify(artifact, cases=4, flags=("-O1",), oracle="own", sums=False).is_right


# A stride beyond the window leaves rows of padding below the image out: they are not written before the rows kept.
def strided():
    """One pixel of every second row, and of the second row below the image."""
    w = np.random.default_rng(3).integers(-60, 61, (3, 3, 1, 1)).astype(np.int8)
    options = {"x_zero_point": 100, "y_zero_point": 100, "pads": [0, 0, 2, 0], "strides": [2, 1]}
    return qlinear_conv((1, 3, 7, 5), w, **options)


@pytest.mark.parametrize("target", ["portable", "cortex-m3", "cortex-m55"])
def test_padding_between_pushed_rows(target):
    require("gcc")
    artifact = qcgen.compile(strided(), name="rows", layout="nhwc", target=target, input="rows", io_memory="arena")
    [stream] = artifact.plan.streams
    assert stream.order.values.min() == 0
    assert verify(artifact).differing == 0


def test_padded_maxima_of_floats_in_two_passes():
    """A float MaxPool with padding in front of codes raised an internal error where the arena was to be the least."""
    w = np.arange(-9, 9, dtype=np.int8).reshape(2, 1, 3, 3)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z"], ["sums"], name="sums"),
        helper.make_node("Cast", ["sums"], ["floats"], to=1),
        helper.make_node("MaxPool", ["floats"], ["pooled"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("DynamicQuantizeLinear", ["pooled"], ["codes", "scale", "zero"]),
    ]
    model = graph_model(nodes, {"x": ("float", (1, 1, 12, 10))}, {"codes": None, "scale": None}, {"w": w}, opset=13)
    assert verify(qcgen.compile(model, arena="least", layout="nhwc"), cases=3, flags=("-O0",)).is_right


# Where the number of the turn lies at the arena's beginning, the function that takes a row had an unused variable.
@pytest.mark.parametrize("offset", [0, 4])
def test_the_code_compiles_wherever_the_number_of_the_turn_lies(offset, tmp_path):
    require("gcc")
    options = {"arena": "least", "input": "rows", "layout": "nhwc", "io_memory": "arena"}
    plan = qcgen.compile(in_rows(), name="net", **options).plan
    [stream] = plan.streams
    steps = [replace(step, turn=InArena(offset)) if step is stream else step for step in plan.steps]
    for name, text in render(replace(plan, steps=steps)).items():
        (tmp_path / name).write_text(text)
    call(["gcc", *STRICT_FLAGS, "-c", "net.c"], tmp_path)
