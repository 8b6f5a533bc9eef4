"""A MatMul of two dequantized tensors was summed in float32 where onnxruntime sums up the codes.

It makes MatMulIntegerToFloat of it. Of 45 results 39 differed, which were named; if the first operand was constant,
they were claimed bit for bit, as were products with weights behind which a computed vector is added.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from batch import require
from judged import judge, optimized
from models import graph_model
from onnx import ModelProto
from qdq import Chain

import qcgen

CODES = {"uint8": np.uint8(3), "int8": np.int8(7)}
ROW, IMAGE = (5, 64), (3, 5, 64)
MATRIX, MATRICES = (64, 9), (3, 64, 9)
RNG = np.random.default_rng(2)


def random(element: str, shape: tuple[int, ...]) -> np.ndarray:
    return (
        RNG.normal(size=shape).astype(np.float32) if element == "float" else RNG.integers(0, 256, shape).astype(element)
    )


def product(
    a: tuple[int, ...] = IMAGE,
    b: tuple[int, ...] = MATRICES,
    types: tuple[str, str] = ("uint8", "int8"),
    constant: str = "",
    columns: bool = False,
    zero: bool = True,
    added: tuple[int, ...] | None = None,
    behind: Callable[[Chain, str], object] | None = None,
    turns: str = "",
) -> ModelProto:
    """Codes a and b, dequantized, their product, and what stands behind it."""
    made, inputs, operands = Chain(), {}, []
    for name, element, shape in zip("ab", types, (a, b), strict=True):
        zero_point = CODES[element] if zero else None
        meaning = (0.02 if name == "a" else 0.05, zero_point)
        if name in constant:
            made.constant(name, random(element, shape))
            if columns:
                meaning = (RNG.uniform(0.01, 0.05, shape[-1]), np.zeros(shape[-1], element))
        else:
            inputs[name] = (element, shape)
        operand = made.dequantize(name, meaning, axis=len(shape) - 1)
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        operands.append(made.node("Transpose", [operand], perm=order) if name in turns else operand)
    y = made.node("MatMul", operands, "product")
    if added is not None:
        inputs["c"] = ("float", added)
        y = made.node("Add", [y, "c"])
    if behind is not None:
        behind(made, y)
    made.node("Relu", [y], "y")
    outputs = {name: None for node in made.nodes for name in node.output if name in "yz"}
    return graph_model(made.nodes, inputs, outputs, made.constants, opset=13)


WHOLE = {
    "of two types": product(),
    "of uint8": product(types=("uint8", "uint8")),
    "of int8": product(types=("int8", "int8")),
    "without zero points": product(zero=False),
    "of matrices": product(ROW, MATRIX),
    "of batches, broadcast": product((2, 1, 5, 64), MATRICES),
    "of a vector": product((64,), MATRIX),
    "by a vector": product(ROW, (64,)),
    "by weights": product(IMAGE, MATRIX, constant="b"),
    "by weights with scales of columns": product(IMAGE, MATRIX, constant="b", columns=True),
    "of rows by weights with scales of columns": product(ROW, MATRIX, constant="b", columns=True),
    "by constant matrices": product(constant="b"),
    "of constants": product(types=("uint8", "uint8"), constant="a"),
    "turned": product((3, 64, 5), (3, 9, 64), turns="ab"),
    "a number is added": product(ROW, MATRIX, added=(1,)),
    "matrices are added": product(ROW, MATRIX, added=(1, 5, 9)),
    "rows are added to matrices": product(added=(9,)),
    "scaled": product(behind=lambda made, y: made.node("Mul", [y, made.constant("s", np.float32(0.3))], "z")),
}
IN_ORDER = {
    "of int8 by uint8": product(types=("int8", "uint8")),
    "quantized, too": product(behind=lambda made, y: made.quantize(y, (0.3, np.uint8(9)), "z")),
}
"""What onnxruntime sums up in float, in the order of float products."""
IN_FLOAT = {
    "rows are added": product(ROW, MATRIX, added=(9,)),
    "one row is added": product(ROW, MATRIX, added=(1, 9)),
    "a column is added": product(ROW, MATRIX, added=(5, 1)),
    "a matrix is added": product(ROW, MATRIX, added=(5, 9)),
    "rows are added to an image": product(IMAGE, MATRIX, added=(9,)),
    "rows are added to a product by weights": product(ROW, MATRIX, constant="b", added=(9,)),
}


@pytest.mark.parametrize("name", [*WHOLE, *IN_ORDER, *IN_FLOAT])
def test_a_product_of_codes_is_onnxruntimes_or_named(name, tmp_path):
    require("gcc")
    model = {**WHOLE, **IN_ORDER, **IN_FLOAT}[name]
    assert ("MatMulIntegerToFloat" in optimized(model, tmp_path)) == (name in WHOLE)
    artifact = qcgen.compile(model, name="net")
    assert bool(artifact.report.inexact) == (name in IN_FLOAT)
    feeds = {x.name: random(x.dtype.value, x.shape) for x in artifact.program.inputs}
    for got, wanted in zip(artifact.load().run(None, feeds), judge(model, feeds), strict=True):
        assert np.allclose(got, wanted, rtol=0, atol=1 if got.dtype == np.uint8 else 1e-4)
        assert name in IN_FLOAT or np.array_equal(got, wanted)


def test_the_operator_that_onnxruntime_makes_of_it_may_stand_in_the_model():
    require("gcc")
    made = Chain()
    scales = [made.constant(f"{name}_scale", np.float32(scale)) for name, scale in (("a", 0.02), ("b", 0.05))]
    zeros = [made.constant(f"{name}_zero", zero) for name, zero in (("a", CODES["uint8"]), ("b", CODES["int8"]))]
    made.node("MatMulIntegerToFloat", ["a", "b", *scales, *zeros, "c"], "y", domain="com.microsoft")
    inputs = {"a": ("uint8", IMAGE), "b": ("int8", MATRICES), "c": ("float", (9,))}
    model = graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13, opsets={"com.microsoft": 1})
    feeds = {name: random(*of) for name, of in inputs.items()}
    artifact = qcgen.compile(model, name="net")
    assert not artifact.report.inexact
    assert np.array_equal(artifact.load().run(None, feeds)[0], judge(model, feeds)[0])
