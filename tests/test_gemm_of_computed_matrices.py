"""Gemm of two computed matrices, of codes and of numbers: against onnxruntime, which makes QGemm of the former."""

import numpy as np
import pytest
from judged import assert_judged, optimized
from models import graph_model
from qdq import Chain, f32

import qcgen
from qcgen.errors import ModelRejected

CODES = {"uint8": np.uint8(3), "int8": np.int8(7)}
RNG = np.random.default_rng(6)


def random(element, shape):
    return (
        RNG.normal(size=shape).astype(np.float32) if element == "float" else RNG.integers(0, 256, shape).astype(element)
    )


def gemm(
    a="uint8", b="int8", zero=True, c=None, y=None, constant="", op_type="Gemm", terms=64, columns=9, **attributes
):
    """A and B of a type, codes dequantized; c: "computed", "float" or "int32"; y: the type to which it is quantized."""
    made, operands, inputs = Chain(), [], {}
    for name, element, sizes in (("a", a, (5, terms)), ("b", b, (terms, columns))):
        shape = sizes[::-1] if attributes.get(f"trans{name.upper()}") else sizes
        if name == constant:
            made.constant(name, random(element, shape))
        else:
            inputs[name] = (element, shape)
        meaning = None if element == "float" else (0.02 if name == "a" else 0.05, CODES[element] if zero else None)
        operands.append(name if meaning is None else made.dequantize(name, meaning))
    bias = RNG.normal(size=columns).astype(np.float32)
    if c == "computed":
        inputs["c"] = ("float", (columns,))
    elif c is not None:
        made.constant("c", bias if c == "float" else (bias * 100).astype(np.int32))
    operands += (
        [] if c is None else [made.dequantize("c", (f32(0.02) * f32(0.05), np.int32(0))) if c == "int32" else "c"]
    )
    last = "product" if y or op_type == "MatMul" else "y"
    result = made.node(op_type, operands[: 2 if op_type == "MatMul" else 3], last, **attributes)
    if op_type == "MatMul":
        result = made.node("Add", [result, "c"], "sum" if y else "y")
    if y:
        made.quantize(result, (0.3, np.dtype(y).type(10)), "y")
    return graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13)


TURNED = {"transA": 1, "transB": 1}
FLOATS = {"a": "float", "b": "float"}
EQUAL = {
    "codes": ({}, "QGemm"),
    "codes of one type": ({"a": "int8"}, "QGemm"),
    "codes, turned": (TURNED, "QGemm"),
    "codes times alpha": ({"alpha": 0.3, **TURNED}, "QGemm"),
    "a constant A times alpha": ({"constant": "a", "alpha": 0.3, **TURNED}, "QGemm"),
    "codes to codes": ({"y": "uint8", **TURNED}, "QGemm"),
    "codes to codes times alpha": ({"y": "uint8", "alpha": 0.3}, "QGemm"),
    "int8 codes to codes": ({"a": "int8", "y": "int8"}, "QGemm"),
    "int8 by uint8": ({"a": "int8", "b": "uint8"}, "Gemm"),
    "no zero points": ({"zero": False}, "Gemm"),
    "codes by numbers": ({"b": "float", **TURNED}, "Gemm"),
    "numbers": (FLOATS, "Gemm"),
    "numbers, turned": ({**FLOATS, **TURNED}, "Gemm"),
    "numbers times alpha": ({**FLOATS, "alpha": 0.3}, "Gemm"),
    "numbers and C": ({**FLOATS, "c": "float", "beta": 0.3}, "Gemm"),
    "numbers and a computed C": ({**FLOATS, "c": "computed", "beta": 0.3}, "Gemm"),
    "many terms": ({**FLOATS, "terms": 300, "columns": 200}, "Gemm"),
}
NAMED = {
    "many terms times alpha": ({**FLOATS, "terms": 300, "columns": 200, "alpha": 0.3}, "Gemm"),
    "codes and C": ({"c": "float"}, "Gemm"),
    "codes and C of int32": ({"c": "int32"}, "QGemm"),
    "codes and C of int32 to codes": ({"c": "int32", "y": "uint8"}, "QGemm"),
    "a product and a row": ({"c": "float", "op_type": "MatMul"}, "Gemm"),
    "codes to codes of another type": ({"y": "int8"}, "Gemm"),
    "codes without zero points to codes": ({"zero": False, "y": "uint8"}, "Gemm"),
    "int8 by uint8 to codes": ({"a": "int8", "b": "uint8", "y": "int8"}, "Gemm"),
    "a negative alpha": ({"alpha": -0.3}, "QGemm"),
}


@pytest.mark.parametrize("name", [*EQUAL, *NAMED])
def test_it_is_onnxruntimes_or_named(name, tmp_path):
    settings, runs = {**EQUAL, **NAMED}[name]
    model = gemm(**settings)
    assert runs in optimized(model, tmp_path)
    assert_judged(model, named=name in NAMED)


def test_alpha_and_c_at_once_are_refused():
    """onnxruntime multiplies the sum and adds C with one rounding."""
    with pytest.raises(ModelRejected, match="B is not constant"):
        qcgen.compile(gemm(c="float", alpha=0.3))
