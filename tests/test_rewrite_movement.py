"""Operators that move elements work on the codes."""

import numpy as np
import pytest
from onnx import helper
from qdq import A, B, Chain, f32, kinds, means, one, only, operand, operators, table

from qcgen.ir.program import Concat, Conv, Lookup, Requantize
from qcgen.ir.types import DType

X_SHAPE = (1, 4, 6, 6)
PADS = np.array([0, 0, 1, 1, 0, 0, 0, 2])


def flatten(chain, x):
    return chain.node("Flatten", [x], "m")


def reshape(chain, x):
    return chain.node("Reshape", [x, chain.constant("shape", np.array([0, -1]))], "m")


def transpose(chain, x):
    return chain.node("Transpose", [x], "m", perm=[0, 2, 3, 1])


def squeeze(chain, x):
    return chain.node("Squeeze", [x, chain.constant("axes", np.array([0]))], "m")


def unsqueeze(chain, x):
    return chain.node("Unsqueeze", [x, chain.constant("axes", np.array([0]))], "m")


def slice_(chain, x):
    bounds = [chain.constant("starts", np.array([1])), chain.constant("ends", np.array([3]))]
    return chain.node("Slice", [x, *bounds, chain.constant("axes", np.array([1]))], "m")


def max_pool(chain, x):
    return chain.node("MaxPool", [x], "m", kernel_shape=[2, 2], strides=[2, 2])


def resize(chain, x):
    return chain.node("Resize", [x, "", chain.constant("scales", f32([1, 1, 2, 2]))], "m")


def pad(chain, x):
    return chain.node("Pad", [x, chain.constant("pads", PADS)], "m")


def concat(chain, x):
    return chain.node("Concat", [x, x], "m", axis=1)


MOVEMENTS = (flatten, reshape, transpose, squeeze, unsqueeze, slice_, max_pool, resize, pad, concat)


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.mark.parametrize("movement", MOVEMENTS)
def test_between_equal_quantizations_the_codes_are_moved(chain, movement):
    chain.through(movement(chain, chain.through("x", A)), A, "y")
    graph = chain.rewritten(X_SHAPE)
    assert len(graph.nodes) == 3
    moved = graph.nodes[1]
    assert moved.name == "m_node"
    assert graph.value(moved.outputs[0]).dtype is DType.UINT8
    assert set(moved.inputs[:1]) == {"x_q"}


@pytest.mark.parametrize("movement", MOVEMENTS)
def test_a_float_input_is_quantized_before_it_is_moved(chain, movement):
    chain.through(movement(chain, "x"), A, "y")
    graph = chain.rewritten(X_SHAPE)
    assert [operators(graph)[index] for index in (0, 2)] == ["QuantizeLinear", "DequantizeLinear"]
    assert len(graph.nodes) == 3
    assert graph.nodes[0].inputs[0] == "x"


@pytest.mark.parametrize("movement", MOVEMENTS)
def test_what_stays_float_is_dequantized_after_it_is_moved(chain, movement):
    chain.node("Softmax", [movement(chain, chain.through("x", A))], "y")
    graph = chain.rewritten(X_SHAPE)
    assert [operators(graph)[index] for index in (0, 2, 3)] == ["QuantizeLinear", "DequantizeLinear", "Softmax"]
    assert graph.nodes[2].outputs == ("m",)


@pytest.mark.parametrize("movement", MOVEMENTS)
def test_between_other_quantizations_a_table_comes_before_the_movement(chain, movement):
    chain.through(movement(chain, chain.through("x", A)), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program)[1] == "Lookup"
    assert len(program.operators) == 4


def test_the_convolution_in_front_of_a_movement_is_one_of_codes_and_clamped_at_once(chain):
    w = chain.weights("w", np.ones((4, 4, 1, 1), np.int8), (0.01, np.int8(0)))
    result = chain.node("Conv", [chain.through("x", A), w])
    chain.through(chain.node("Relu", [max_pool(chain, result)]), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Conv", "Lookup", "MaxPool", "Dequantize"]
    op = one(program, Conv)
    assert isinstance(op.epilogue, Requantize)
    assert [means(op.x, A), means(op.y, B)] == [True] * 2
    assert table(program) == np.clip(np.arange(256), 60, 255).tolist()


def padding(value=None, meanings=(A, A), quantized=True, **attributes):
    """x padded with a value."""
    chain = Chain()
    constants = [] if value is None else [chain.constant("value", f32(value))]
    result = chain.node(
        "Pad", [chain.through("x", meanings[0]), chain.constant("pads", PADS), *constants], "m", **attributes
    )
    if quantized:
        chain.through(result, meanings[1], "y")
    return chain.rewritten(X_SHAPE, ("y",) if quantized else ("m",))


@pytest.mark.parametrize(("value", "code"), [(None, 3), (0.777, 42), (-9, 0), (np.inf, 255)])
def test_the_constant_of_a_pad_becomes_a_code(value, code):
    graph = padding(value)
    filled = operand(graph, "Pad", 2)
    assert filled == code
    assert filled.dtype == np.uint8


def test_a_pad_that_repeats_elements_needs_no_code():
    graph = padding(mode="edge")
    assert len(only(graph, "Pad").inputs) == 2
    assert only(graph, "Pad").attributes["mode"] in (b"edge", "edge")


def test_a_pad_with_a_value_of_no_code_stays_float_where_nothing_quantizes_it():
    assert operators(padding(0.777, quantized=False)) == ["QuantizeLinear", "DequantizeLinear", "Pad"]
    on_a_code = float(f32(39) * f32(0.02))
    assert operators(padding(on_a_code, quantized=False)) == ["QuantizeLinear", "Pad", "DequantizeLinear"]


def test_a_relu_in_front_of_a_float_tail_clamps_codes(chain):
    chain.node("Softmax", [chain.node("Relu", [chain.through("x", B)])], "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "Clip", "DequantizeLinear", "Softmax"]


def test_a_clip_whose_bound_is_no_value_of_a_code_stays_float_in_front_of_a_float_tail(chain):
    bounds = [chain.constant("low", f32(-0.026)), chain.constant("high", f32(1))]
    chain.node("Softmax", [chain.node("Clip", [chain.through("x", B), *bounds])], "y")
    assert operators(chain.rewritten(X_SHAPE)) == ["QuantizeLinear", "DequantizeLinear", "Clip", "Softmax"]


def test_every_part_of_a_split_is_moved_as_codes(chain):
    x = chain.through("x", A)
    chain.nodes.append(helper.make_node("Split", [x], ["first", "second"], name="split"))
    chain.through("first", A, "y")
    chain.node("Softmax", ["second"], "z")
    graph = chain.rewritten((4, 6), ("y", "z"))
    assert operators(graph)[:2] == ["QuantizeLinear", "Split"]
    assert all(graph.value(name).dtype is DType.UINT8 for name in only(graph, "Split").outputs)
    assert sorted(operators(graph)[2:]) == ["DequantizeLinear", "DequantizeLinear", "Softmax"]


def test_parts_of_different_meaning_are_brought_to_the_concats(chain):
    first, second = chain.through("x", A), chain.through("x", B)
    chain.through(chain.node("Concat", [first, second, first], axis=1), A, "y")
    program = chain.meant(X_SHAPE)
    assert sorted(kinds(program)) == ["Concat", "Dequantize", "Lookup", "Quantize", "Quantize"]
    lookup, concat = (op for op in program.operators if isinstance(op, Lookup | Concat))
    assert [x.name for x in concat.xs] == ["x_q", lookup.y.name, "x_q"]


def test_a_linear_resize_becomes_steps_in_float(chain):
    result = chain.node("Resize", [chain.through("x", A), "", chain.constant("s", f32([1, 1, 2, 2]))], mode="linear")
    chain.through(result, A, "y")
    found = operators(chain.rewritten(X_SHAPE))
    boundary = ["QuantizeLinear", "DequantizeLinear"]
    assert (found[:2], found[-2:]) == (boundary, boundary)
    assert set(found[2:-2]) == {"Gather", "Mul", "Add"}


def test_quantization_does_not_pass_a_tensor_that_others_read(chain):
    chain.node("Exp", [chain.node("Relu", ["x"], "r")], "z")
    chain.through("r", A, "y")
    assert operators(chain.rewritten(X_SHAPE, ("y", "z")))[0] == "Relu"
