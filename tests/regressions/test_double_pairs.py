"""Of two pairs of QuantizeLinear and DequantizeLinear in a row onnxruntime makes one, the C rounded twice.

8 to 14 of 64 outputs were one code off, with what changes nothing between the pairs, too.
"""

import numpy as np
import pytest
from judged import judge
from marks import share_at_first
from onnx import helper
from qdq import Chain, operand

import qcgen
from qcgen.reference import evaluate

SHAPE = (1, 4, 16)
A, B, C = (0.0123, np.int8(0)), (0.02, np.int8(5)), (0.0201, np.int8(-100))
D, E = (0.0123, np.uint8(100)), (0.02, np.uint8(90))
NARROW = (0.0078125, np.int8(0))

BETWEEN = {
    "nothing": lambda _, x: x,
    "Identity": lambda c, x: c.node("Identity", [x]),
    "Dropout": lambda c, x: c.node("Dropout", [x]),
    "Cast": lambda c, x: c.node("Cast", [x], to=1),
    "Expand to the same shape": lambda c, x: c.node("Expand", [x, c.constant("shape", np.array(SHAPE))]),
    "Add of 0": lambda c, x: c.node("Add", [c.constant("zero", np.float32(0)), x]),
    "Mul by 1": lambda c, x: c.node("Mul", [x, c.constant("one", np.float32([1]))]),
    "Div by 1": lambda c, x: c.node("Div", [x, c.constant("one", np.float32(1))]),
    # Behind these both pairs stay.
    "Expand to a larger shape": lambda c, x: c.node("Expand", [x, c.constant("shape", np.array((3, *SHAPE[1:])))]),
    "Reshape": lambda c, x: c.node("Reshape", [x, c.constant("shape", np.array([1, -1]))]),
    "Transpose": lambda c, x: c.node("Transpose", [x], perm=[0, 2, 1]),
    "Relu": lambda c, x: c.node("Relu", [x]),
}
MEANINGS = {
    "wider": (A, B),
    "narrower": (B, A),
    "shifted": (A, C),
    "uint8": (D, E),
    "another type": (A, D),
    "three": (A, B, C),
    "four": (A, B, C, (0.011, np.int8(1))),
    "five": (A, B, C, (0.011, np.int8(1)), (0.009, np.int8(33))),
    "no zero points": ((0.0123, None), (0.02, None)),
}


def model_of(meanings, between=BETWEEN["nothing"], opset=13):
    chain = Chain()
    tensor = chain.through("x", meanings[0])
    for meaning in meanings[1:]:
        tensor = chain.through(between(chain, tensor), meaning)
    chain.quantize(chain.node("Tanh", [tensor]), NARROW, "y")
    return chain.model(SHAPE, opset=opset)


def assert_equal_to_onnxruntime(model, *outputs):
    program = qcgen.compile(model).program
    rng = np.random.default_rng(0)
    for _ in range(4):
        x = rng.normal(0, 2, SHAPE).astype(np.float32)
        found = evaluate(program, {"x": x})
        judged = dict(zip((y.name for y in model.graph.output), judge(model, {"x": x}), strict=True))
        for name in outputs:
            np.testing.assert_array_equal(found[name], judged[name])


@pytest.mark.parametrize("name", BETWEEN)
def test_what_changes_nothing_between_pairs_does_not_matter(name):
    assert_equal_to_onnxruntime(model_of((A, B), BETWEEN[name]), "y")


@pytest.mark.parametrize("name", MEANINGS)
def test_pairs_in_a_row_are_joined_as_onnxruntime_joins_them(name):
    assert_equal_to_onnxruntime(model_of(MEANINGS[name]), "y")


@pytest.mark.parametrize("second", [5e-21, 1.29e-20, 1.31e-20, 1e-19])
def test_scales_that_differ_by_less_than_1e_20_are_equal(second):
    """Of such pairs the outer nodes are left as they are."""
    chain = Chain()
    joined = chain.through(chain.through("x", (3e-21, np.int8(5))), (second, np.int8(5)))
    chain.quantize(joined, (4e-21, np.int8(-3)), "y")
    model = chain.model(SHAPE)
    x = np.random.default_rng(0).normal(0, 1e-19, SHAPE).astype(np.float32)
    found = evaluate(qcgen.compile(model).program, {"x": x})["y"]
    np.testing.assert_array_equal(found, judge(model, {"x": x})[0])


def test_a_result_that_is_read_twice_or_an_output_keeps_its_codes():
    for tensor in ("first codes", "first", "second codes"):
        chain = Chain()
        chain.quantize("x", A, "first codes")
        chain.dequantize("first codes", A, "first")
        chain.quantize("first", B, "second codes")
        chain.quantize(chain.node("Tanh", [chain.dequantize("second codes", B)]), NARROW, "y")
        assert_equal_to_onnxruntime(chain.model(SHAPE, (tensor, "y")), tensor, "y")


READ_TWICE = {
    "alike": (B, B),
    "in two meanings": (B, A),
    "in two meanings, the other first": (A, B),
    "one without a zero point": ((0.02, np.int8(0)), (0.02, None)),
}


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("name", READ_TWICE)
def test_codes_that_two_nodes_dequantize_are_joined_if_both_do_it_alike(name, pairs):
    """An output was a code off where the last of the pairs had two DequantizeLinear."""
    chain, (one, other) = Chain(), READ_TWICE[name]
    before = "x"
    for meaning in (C, A)[-pairs:]:
        before = chain.through(before, meaning)
    codes = chain.quantize(before, one)
    chain.dequantize(codes, one, "y")
    chain.node("Tanh", [chain.dequantize(codes, other)], "w")
    assert_equal_to_onnxruntime(chain.model(SHAPE, ("y",)), "y")
    assert_equal_to_onnxruntime(chain.model(SHAPE, ("y", "w")), "y")


@pytest.mark.parametrize("then", [(B, B), (B, C)])
def test_a_pair_whose_codes_or_floats_are_read_twice_stays(then):
    for is_one_dequantized in (True, False):
        chain = Chain()
        codes = chain.quantize("x", A)
        floats = chain.dequantize(codes, A)
        others = floats if is_one_dequantized else chain.dequantize(codes, A)
        chain.through(floats, then[0], "y")
        chain.through(others, then[1], "w")
        assert_equal_to_onnxruntime(chain.model(SHAPE, ("y", "w")), "y", "w")


def test_the_common_range():
    """-1.5744 to 1.5621 and -4.6 to 0.54, then codes -128 to 127 for -1.5744 to 0.54."""
    chain = Chain()
    chain.through(chain.through("x", A), (0.02, np.int8(100)), "y")
    graph = chain.rewritten(SHAPE)
    assert operand(graph, "QuantizeLinear", 1) == pytest.approx((0.54 + 1.5744) / 255)
    assert operand(graph, "QuantizeLinear", 2) == round(-128 + 1.5744 / ((0.54 + 1.5744) / 255))


@pytest.mark.parametrize("seed", share_at_first(range(40), 4))
def test_random_chains_of_pairs(seed):
    rng = np.random.default_rng(seed)
    dtypes = (["int8"], ["uint8"], ["int8", "uint8"], ["int16", "int16", "int8"], ["uint16"])[seed % 5]
    scales = np.float32(0.01 * 2.0 ** rng.uniform(-1, 2, rng.integers(2, 6)))
    meanings = []
    for scale in scales:
        ends = np.iinfo(rng.choice(dtypes))
        meanings.append((float(scale), ends.dtype.type(rng.integers(ends.min, ends.max + 1))))
    model = model_of(meanings, opset=21)
    if seed % 2:  # as onnxruntime's quantizer writes pairs of 16 bits
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        for node in model.graph.node:
            node.domain = "com.microsoft" if "Linear" in node.op_type else ""
    assert_equal_to_onnxruntime(model, "y")
