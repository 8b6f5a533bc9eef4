"""Products of two float32 matrices: against onnxruntime's outputs, of every kind of operands, in a chain."""

import subprocess

import numpy as np
import pytest
from batch import require
from cffi import FFI
from judged import assert_judged, judge
from models import graph_model, node_model
from onnx import helper

import qcgen
from qcgen.arithmetic import fused
from qcgen.reference import evaluate
from qcgen.reference.tolerance import RELATIVE, exact, tolerances
from qcgen.render import library as rendered
from qcgen.verification import verify

HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"

SHAPES = {
    "matrices": ((3, 4), (4, 2)),
    "batches": ((2, 3, 4), (2, 4, 5)),
    "broadcast": ((2, 1, 3, 4), (7, 4, 5)),
    "a row": ((4,), (2, 4, 5)),
    "a column": ((2, 3, 4), (4,)),
    "vectors": ((4,), (4,)),
    "one batch": ((1, 3, 4), (1, 4, 5)),
    "many terms": ((2, 130), (130, 3)),
}


def product(shapes, constant=()):
    """A MatMul and its inputs; the operands in ``constant`` are constants of the model."""
    draw = np.random.RandomState(5)
    values = {name: draw.normal(size=shape).astype(np.float32) for name, shape in zip("ab", shapes, strict=True)}
    operands = {name: value if name in constant else ("float", value.shape) for name, value in values.items()}
    return node_model("MatMul", operands), values


@pytest.mark.parametrize("constant", ["", "a", "b"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_those_of_numpy(name, constant):
    require("gcc")
    model, values = product(SHAPES[name], constant)
    feeds = {each: value for each, value in values.items() if each not in constant}
    [y] = qcgen.compile(model, name="net").load().run(None, feeds)
    a, b = values["a"].astype(np.float64), values["b"].astype(np.float64)
    assert y.shape == np.matmul(a, b).shape
    assert (np.abs(y - np.matmul(a, b)) <= RELATIVE * np.matmul(np.abs(a), np.abs(b))).all()


def test_a_product_is_onnxruntimes():
    """1.32.0, inputs k / 7 and k / 5 rounded to float32."""
    require("gcc")
    model, _ = product(((2, 1, 3), (2, 3, 1)))
    a, b = (np.arange(-2, 4).astype(np.float32) / np.float32(by) for by in (7, 5))
    [y] = qcgen.compile(model, name="net").load().run(None, {"a": a.reshape(2, 1, 3), "b": b.reshape(2, 3, 1)})
    assert np.abs(y.reshape(-1) - np.float32([0.1428571492433548, 0.40000003576278687])).max() <= 1e-7


def test_a_product_passes_verify_and_a_wrong_one_does_not(monkeypatch):
    require("gcc")
    model, _ = product(((2, 3, 70), (2, 70, 5)))
    assert verify(qcgen.compile(model, name="net"), sums=False).is_right
    monkeypatch.setattr("qcgen.kernels.products.MatMul.terms", 60)
    assert not verify(qcgen.compile(model, name="net"), sums=False).is_right


IN_ORDER = {
    "one block": ((5, 128), (128, 40)),
    "two blocks": ((3, 129), (129, 130)),
    "few columns": ((3, 300), (300, 10)),
    "batches": ((2, 3, 7, 16), (2, 3, 16, 7)),
    "a row for each of several": ((2, 3, 1, 16), (16, 7)),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_sums_of_products_are_in_onnxruntimes_order(name):
    model, feeds = product(IN_ORDER[name])
    artifact = assert_judged(model, feeds, named=None, exact=True)
    [found] = evaluate(artifact.program, feeds).values()
    np.testing.assert_array_equal(found, judge(model, feeds)[0])
    assert "y" in exact(artifact.program)


def scaled(where):
    """A product whose operands or result are multiplied or divided by numbers: pairs of a tensor and an operator."""
    names, nodes, constants = {"a": "a", "b": "b", "m": "m"}, [], {}
    for number, (tensor, op_type) in enumerate(where):
        constants[f"s{number}"] = np.float32(0.37 + number)
        names[tensor], read = f"{tensor}_{number}", names[tensor]
        nodes.append(helper.make_node(op_type, [read, f"s{number}"], [names[tensor]], name=f"scale{number}"))
    before = [node for node in nodes if node.input[0] != "m"]
    nodes = [
        *before,
        helper.make_node("MatMul", [names["a"], names["b"]], ["m"], name="product"),
        *nodes[len(before) :],
    ]
    inputs = {name: ("float", shape) for name, shape in OPERANDS.items()}
    return graph_model(nodes, inputs, {names["m"]: None}, constants)


OPERANDS = {"a": (5, 16), "b": (16, 7)}
SCALED = {
    "a": [("a", "Mul")],
    "b, divided": [("b", "Div")],
    "both": [("a", "Mul"), ("b", "Mul")],
    "both and the product": [("a", "Div"), ("b", "Mul"), ("m", "Div")],
    "the product": [("m", "Mul")],
    "a twice": [("a", "Mul"), ("a", "Mul")],
}


@pytest.mark.parametrize("name", SCALED)
def test_numbers_that_scale_operands_scale_the_product(name):
    model = scaled(SCALED[name])
    rng = np.random.default_rng(3)
    feeds = {each: rng.normal(size=shape).astype(np.float32) for each, shape in OPERANDS.items()}
    [expected] = judge(model, feeds)
    [found] = evaluate(qcgen.compile(model, name="net").program, feeds).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("library", ["defined(__x86_64__)", "0"], ids=["by the processor", "in integers"])
def test_products_of_numbers_that_are_not_finite_are_those_of_the_processor(library, tmp_path):
    require("gcc")
    text = "".join(rendered("").needed([], "t", ["fused_any"])).replace("defined(__x86_64__)", library)
    each = "void each(const float *a, const float *b, const float *c, float *y, int n)"
    loop = "for (int i = 0; i < n; i++) { y[i] = t_fused_any(a[i], b[i], c[i]); }"
    (tmp_path / "f.c").write_text(f"{HEADERS}{text}{each};\n{each} {{ {loop} }}\n")
    command = ["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "f.c", "-o", "f.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ffi = FFI()
    ffi.cdef(f"{each};")
    values = np.float32([0, -0.0, 1.5, -1e18, 1e18, np.inf, -np.inf, np.nan, 1e-3])
    addends = np.float32([*values, 3e38, -3e38, 1e38])  # no finite product overflows
    a, b, c = (np.ascontiguousarray(x.reshape(-1)) for x in np.meshgrid(values, values, addends))
    y = np.zeros_like(a)
    pointers = [ffi.cast("float *", x.ctypes.data) for x in (a, b, c, y)]
    ffi.dlopen(str(tmp_path / "f.so")).each(*pointers, y.size)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, fused(a, b, c))


def test_a_product_may_be_off_by_what_its_operands_are_off():
    """Where terms of 1e8 cancel, so that a sum is off by more than 1, the products with it are, too."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["sum"]),
        helper.make_node("MatMul", ["sum", "z"], ["y"]),
    ]
    inputs, w = {"x": ("float", (1, 2)), "z": ("float", (1, 1))}, np.float32([[1e8], [-1e8]])
    program = qcgen.compile(graph_model(nodes, inputs, {"y": None}, {"w": w}, opset=17)).program
    sums = {"x": np.float32([[3, 3]]), "z": np.float32([[2]]), "sum": np.float32([[0]]), "y": np.float32([[0]])}
    allowed = tolerances(program, sums)
    assert allowed["y"][0, 0] >= 2 * allowed["sum"][0, 0] >= 2 * 6000
