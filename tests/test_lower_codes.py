"""Layers between DequantizeLinear and QuantizeLinear: codes where their arithmetic is known, else numbers."""

from __future__ import annotations

import numpy as np
import pytest
from qdq import A, B, Chain, Meaning, kinds

import qcgen
from qcgen.ir.program import Conv, GlobalAveragePool, MatMul, QuantizedBinary
from qcgen.ir.types import DType, Layout

LONG: Meaning = (0.0002, np.int16(-400))
ROWS = (4, 12)


def layer(op_type, shape=ROWS, meanings=(A, B), *more, opset=17, **attributes):
    """What an operator of x, and of constants, means between codes."""
    chain = Chain()
    constants = [chain.constant(f"k{index}", array) for index, array in enumerate(more)]
    result = chain.node(op_type, [chain.through("x", meanings[0]), *constants], "r", **attributes)
    chain.through(result, meanings[1], "y")
    return chain.meant(shape, opset=opset)


def ones(size, value=1):
    return np.full(size, value, np.float32)


IN_FLOAT = {
    "short rows": lambda: layer("LayerNormalization", (4, 7), (A, B), ones(7)),
    "rows of tiny numbers": lambda: layer("LayerNormalization", ROWS, ((1e-12, np.uint8(3)), B), ones(12)),
    "rows to tiny numbers": lambda: layer("LayerNormalization", ROWS, (A, (1e-12, np.uint8(3))), ones(12)),
    "rows without epsilon": lambda: layer("LayerNormalization", ROWS, (A, B), ones(12), epsilon=0.0),
    "rows times large numbers": lambda: layer("LayerNormalization", ROWS, (A, B), ones(12, 2e9)),
    "channels without epsilon": lambda: layer(
        "InstanceNormalization", (1, 2, 3, 3), (A, B), ones(2), ones(2), epsilon=0.0
    ),
    "a sum out of range": lambda: layer("ReduceSum", ROWS, ((3e38, np.uint8(3)), B), opset=11),
    "a sum of too many codes": lambda: layer("ReduceSum", (2**12, 2**11), opset=11),
    "a mean of too many codes of 16 bits": lambda: layer("GlobalAveragePool", (1, 1, 256, 65), (LONG, LONG)),
}


@pytest.mark.parametrize("name", IN_FLOAT)
def test_what_codes_cannot_be_computed_exactly_is_computed_in_float(name):
    program = IN_FLOAT[name]()
    assert kinds(program)[:2] == ["Quantize", "Dequantize"]
    assert kinds(program)[-2:] == ["Quantize", "Dequantize"]
    assert not any(x.dtype.is_code for op in program.operators[2:-2] for x in (op.x, op.y))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("LayerNormalization", ["LayerNorm"]),
        ("ReduceMean", ["GlobalAveragePool"]),
        ("ReduceSum", ["Reduce"]),
        ("GlobalAveragePool", ["GlobalAveragePool"]),
    ],
)
def test_a_layer_that_codes_suffice_for_reads_and_writes_codes(name, found):
    more = [ones(5)] if name == "LayerNormalization" else []
    meanings = (LONG, LONG) if name == "GlobalAveragePool" else (A, B)
    shape = (1, 2, 3, 5) if name != "LayerNormalization" else (4, 2, 5)
    attributes = {"axis": 1} if more else {"axes": [2, 3]} if name.startswith("Reduce") else {}
    more = [ones((2, 5))] if more else []
    program = layer(name, shape, meanings, *more, opset=17 if more else 11, **attributes)
    inner = [kind for kind in kinds(program)[1:-1] if kind != "Reshape"]
    assert inner == found
    assert all(x.dtype.is_code for op in program.operators[1:-1] for x in (op.x, op.y))


def test_a_mean_of_an_image_keeps_its_layout():
    program = layer("ReduceMean", (1, 3, 5, 2), opset=11, axes=[1, 2])
    [mean] = [op for op in program.operators if isinstance(op, GlobalAveragePool)]
    assert (mean.x.layout, mean.channel_axis, mean.pixels) == (Layout.CHANNELS_LAST, 3, 15)


def test_numbers_that_something_else_reads_are_computed_as_numbers():
    chain = Chain()
    mean = chain.node("ReduceMean", [chain.through("x", A)], "mean", axes=[1])
    chain.through(mean, B, "y")
    chain.node("Relu", [mean], "z")
    [reduce] = [op for op in chain.meant(ROWS, ("y", "z")).operators if op.op_type == "ReduceMean"]
    assert reduce.y.dtype is DType.FLOAT32


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Sub"])
@pytest.mark.parametrize("meanings", [(A, LONG), (LONG, B), (LONG, LONG)])
def test_an_operation_of_which_a_tensor_has_16_bits_is_one_of_codes(op_type, meanings):
    chain = Chain()
    x = chain.through("x", meanings[0])
    half = chain.dequantize(chain.constant("k", np.full((1, 12), 2000, np.int16)), LONG)
    chain.through(chain.node(op_type, [x, half], "r"), meanings[1], "y")
    [op] = [op for op in chain.meant(ROWS).operators if isinstance(op, QuantizedBinary)]
    assert (op.name, op.kind, op.is_wide) == ("r_node", op_type.lower(), True)
    assert (op.b.dtype, op.b.scale, op.b.zero_point) == (DType.INT16, np.float32(0.0002), -400)


def test_an_operation_of_8_bits_stays_one_in_float():
    assert "FloatBinary" in kinds(layer("Sub", ROWS, (A, B), ones((4, 12)) * np.arange(12, dtype=np.float32)))


def product(op_type, weights=None, meanings=(LONG, LONG), bias=None, **attributes):
    chain = Chain()
    codes = np.arange(-30, 30).astype(np.int8).reshape(12, 5)
    w = weights(chain, codes) if weights else chain.weights("w", codes, (np.full(5, 0.01, np.float32), None), axis=1)
    inputs = [chain.through("x", meanings[0]), w, *([] if bias is None else [chain.constant("b", bias)])]
    chain.through(chain.node(op_type, inputs, "r", **attributes), meanings[1], "y")
    return chain.meant(ROWS, opset=21)


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
@pytest.mark.parametrize("meanings", [(A, LONG), (LONG, B), (LONG, LONG)])
def test_a_product_of_wide_codes_is_one_of_codes(op_type, meanings):
    op = product(op_type, meanings=meanings).operators[1]
    assert (op.x.dtype.is_code, op.y.dtype.is_code, op.weights.dtype) == (True, True, np.int8)
    assert op.weights.shape == (5, 12, 1)
    assert op.weights[1, :, 0].tolist() == list(range(-29, 30, 5))


@pytest.mark.parametrize(
    "given",
    [
        {"alpha": 0.5},
        {"bias": ones(5, 1e9)},
        {"bias": ones((4, 1))},
        {"weights": lambda chain, codes: chain.weights("w", codes, (ones(12, 0.01), None), axis=0)},
    ],
)
def test_a_product_of_wide_codes_that_is_none_of_integers_stays_float(given):
    [op] = [op for op in product("Gemm", **given).operators if isinstance(op, Conv | MatMul)]
    assert op.y.dtype is DType.FLOAT32


def test_wide_codes_equal_what_numbers_give_but_for_ties():
    """Of a model with every such layer, against the model's own arithmetic in float32."""
    chain = Chain()
    x = chain.through("x", LONG)
    w = chain.weights("w", np.arange(-30, 30).astype(np.int8).reshape(12, 5), (np.float32(0.01), None))
    chain.quantize(chain.node("Sub", [chain.through(chain.node("MatMul", [x, w]), LONG), "k"], "r"), LONG, "y")
    chain.constant("k", ones(5, 0.25))
    assert qcgen.verify(qcgen.compile(chain.model(ROWS, opset=21), name="wide")).is_right
